// SPDX-License-Identifier: Apache-2.0
#include "manifest/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace moert {
namespace {

// The most that one system call is asked for.
constexpr uint64_t kMaxTransfer = uint64_t{1} << 30;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { Close(); }
  int value() const { return value_; }
  int Close() { return value_ >= 0 ? close(std::exchange(value_, -1)) : 0; }

 private:
  int value_;
};

Status OpenError(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return NotFound("no file '%s'", path.c_str());
  }
  return IoError(error, "cannot open '%s': %s", path.c_str(), strerror(error));
}

class DiskFile final : public File {
 public:
  DiskFile(std::string_view name, Descriptor descriptor, uint64_t size,
           std::pmr::memory_resource* memory)
      : name_(name, memory), descriptor_(std::move(descriptor)) {
    size_ = size;
  }
  ~DiskFile() override {
    if (map_ != nullptr) munmap(map_, size_);
  }

  Status Read(uint64_t offset, void* buffer, uint64_t bytes) const override {
    char* out = static_cast<char*>(buffer);
    while (bytes > 0) {
      const ssize_t done = pread(descriptor_.value(), out, std::min(bytes, kMaxTransfer),
                                 static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        const int error = errno;
        return IoError(error, "cannot read '%s': %s", name_.c_str(), strerror(error));
      }
      if (done == 0) {
        return FileChanged("'%s' became shorter than %llu bytes while it was read", name_.c_str(),
                           static_cast<unsigned long long>(size_));
      }
      out += done;
      offset += static_cast<uint64_t>(done);
      bytes -= static_cast<uint64_t>(done);
    }
    return Status();
  }

  Status Map(const void** out) override {
    static constexpr char kEmpty = 0;
    if (size_ != 0 && map_ == nullptr) {
      void* map = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_.value(), 0);
      if (map == MAP_FAILED) {
        const int error = errno;
        return IoError(error, "cannot map '%s' (%llu bytes): %s", name_.c_str(),
                       static_cast<unsigned long long>(size_), strerror(error));
      }
      map_ = map;
      descriptor_.Close();  // the map stays
    }
    *out = size_ != 0 ? map_ : &kEmpty;
    return Status();
  }

 private:
  std::pmr::string name_;
  Descriptor descriptor_;
  void* map_ = nullptr;
};

// Opens `path` below `base` one component at a time, following no link.
Status OpenWithoutLinks(const std::string& base, const std::string& path, Descriptor* out) {
  Descriptor at(open(base.empty() ? "." : base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.value() < 0) return OpenError(base, errno);
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, end - begin);
    Descriptor next(
        openat(at.value(), component.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (next.value() < 0) {
      if (errno == ELOOP) {
        return IoError(ELOOP,
                       "'%s' is reached through the symbolic link '%s', which the flags forbid",
                       path.c_str(), component.c_str());
      }
      return OpenError(JoinPath(base, path), errno);
    }
    at = std::move(next);
    begin = end + 1;
  }
  *out = std::move(at);
  return Status();
}

class HostFile final : public File {
 public:
  HostFile(const moert_file_source& source, void* file, std::string_view name, uint64_t size,
           std::pmr::memory_resource* memory)
      : source_(source), file_(file), name_(name, memory) {
    size_ = size;
  }
  ~HostFile() override { source_.close(source_.user_data, file_); }

  Status Read(uint64_t offset, void* buffer, uint64_t bytes) const override {
    if (bytes == 0) return Status();
    const int32_t code = source_.read(source_.user_data, file_, offset, buffer, bytes);
    if (code != 0) {
      return IoError(code, "the host's read of %llu bytes at %llu of '%s' failed with code %d",
                     static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(offset), name_.c_str(), code);
    }
    return Status();
  }

 private:
  const moert_file_source source_;
  void* file_;
  std::pmr::string name_;
};

}  // namespace

Status CheckRelativePath(const char* what, std::string_view path) {
  const auto refuse = [&](const char* why) {
    return CorruptData(MOERT_CORRUPTION_PATH, "%s '%.*s' %s", what,
                       static_cast<int>(std::min<size_t>(path.size(), 400)), path.data(), why);
  };
  if (path.empty()) return refuse("is empty");
  if (path.size() > 4096) return refuse("is longer than 4096 bytes");
  if (path.front() == '/')
    return refuse("is absolute; paths are relative to the manifest's folder");
  for (const char c : path) {
    if (c == '\\' || c == ':' || static_cast<unsigned char>(c) < 0x20) {
      return refuse("holds a backslash, a colon or a control character");
    }
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component == "..") return refuse("leaves the manifest's folder");
    if (component.empty() || component == ".") return refuse("has an empty or '.' component");
    begin = end + 1;
  }
  return Status();
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

std::string ParentPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return "";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

DiskFiles::DiskFiles(Allocator& allocator, std::string_view base, bool forbid_symlinks)
    : allocator_(allocator), base_(base, &allocator), forbid_symlinks_(forbid_symlinks) {}

Status DiskFiles::Open(const std::string& path, Owned<File>* out) const {
  const std::string full = JoinPath(base_, path);
  Descriptor descriptor(-1);
  if (forbid_symlinks_) {
    MOERT_RETURN_IF_ERROR(OpenWithoutLinks(std::string(base_), path, &descriptor));
  } else {
    // Without O_NONBLOCK the open of a pipe would wait for a writer.
    descriptor = Descriptor(open(full.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (descriptor.value() < 0) return OpenError(full, errno);
  }
  struct stat info;
  if (fstat(descriptor.value(), &info) != 0) return OpenError(full, errno);
  if (!S_ISREG(info.st_mode)) {
    return IoError(S_ISDIR(info.st_mode) ? EISDIR : EINVAL, "'%s' is not a regular file",
                   full.c_str());
  }
  *out = MakeOwned<DiskFile>(allocator_, full, std::move(descriptor),
                             static_cast<uint64_t>(info.st_size), &allocator_);
  return Status();
}

HostFiles::HostFiles(Allocator& allocator, const moert_file_source& source, std::string_view folder)
    : allocator_(allocator), source_(source), folder_(folder, &allocator) {}

Status HostFiles::Open(const std::string& path, Owned<File>* out) const {
  const std::string full = JoinPath(folder_, path);
  void* file = nullptr;
  uint64_t size = 0;
  const int32_t code = source_.open(source_.user_data, full.c_str(), &file, &size);
  if (code != 0) {
    return IoError(code, "the host's open of '%s' failed with code %d", full.c_str(), code);
  }
  try {
    *out = MakeOwned<HostFile>(allocator_, source_, file, full, size, &allocator_);
  } catch (...) {
    source_.close(source_.user_data, file);
    throw;
  }
  return Status();
}

Status ReadAll(Allocator& allocator, const File& file, const char* name, uint64_t limit,
               Buffer* out) {
  if (file.size() > limit) {
    return CorruptData(MOERT_CORRUPTION_HEADER_LENGTH, "'%s' has %llu bytes; at most %llu are read",
                       name, static_cast<unsigned long long>(file.size()),
                       static_cast<unsigned long long>(limit));
  }
  if (!out->Allocate(allocator, file.size())) {
    return OutOfMemory("no memory for the %llu bytes of '%s'",
                       static_cast<unsigned long long>(file.size()), name);
  }
  return file.Read(0, out->data(), file.size());
}

namespace {

Status WriteError(const std::string& path, int error) {
  return IoError(error, "cannot write '%s': %s", path.c_str(), strerror(error));
}

// Creates a file of a name that nobody has, beside `path`.
int CreateTemporary(const std::string& path, std::string* temporary) {
  for (uint32_t attempt = 0; attempt < 1000; ++attempt) {
    struct timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    char suffix[64];
    snprintf(suffix, sizeof suffix, ".%x-%lx-%x.tmp", static_cast<unsigned>(getpid()),
             static_cast<long>(now.tv_nsec), attempt);
    *temporary = path + suffix;
    const int file = open(temporary->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

// The errno of the first failure, or 0.
int WriteAndRename(Descriptor& file, const std::string& temporary, const std::string& path,
                   const char* data, uint64_t size) {
  while (size > 0) {
    const ssize_t done = write(file.value(), data, std::min(size, kMaxTransfer));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    data += done;
    size -= static_cast<uint64_t>(done);
  }
  if (fsync(file.value()) != 0) return errno;
  if (file.Close() != 0) return errno;
  return rename(temporary.c_str(), path.c_str()) != 0 ? errno : 0;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, const void* data, uint64_t size) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return InvalidArgument("output '%s' exists and is not a regular file", path.c_str());
  }
  std::string temporary;
  Descriptor file(CreateTemporary(path, &temporary));
  if (file.value() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return NotFound("no folder for the output '%s'", path.c_str());
    }
    return WriteError(path, error);
  }
  const int error = WriteAndRename(file, temporary, path, static_cast<const char*>(data), size);
  if (error != 0) {
    unlink(temporary.c_str());
    return WriteError(path, error);
  }
  return Status();
}

}  // namespace moert
