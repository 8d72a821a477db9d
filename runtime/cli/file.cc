// SPDX-License-Identifier: Apache-2.0
#include "cli/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/text.h"

namespace moert::cli {
namespace {

Status WriteAll(int descriptor, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", path);
    bytes.remove_prefix(put);
  }
  return Status();
}

// Closes the descriptor in any case.
Status WriteParts(int descriptor, const std::string& path, std::span<const std::string_view> parts,
                  bool sync) {
  Status status;
  for (size_t i = 0; i < parts.size() && status.ok(); ++i) {
    status = WriteAll(descriptor, path, parts[i]);
  }
  if (status.ok() && sync && fsync(descriptor) != 0) status = SystemError("write", path);
  if (close(descriptor) != 0 && status.ok()) status = SystemError("write", path);
  return status;
}

}  // namespace

Status SystemError(const char* verb, const std::string& path) {
  return Status::Format("cannot %s %s: %s", verb, path.c_str(), std::strerror(errno));
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status InputFile::Open(const std::string& path) {
  path_ = path;
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat facts = {};
  if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0) return SystemError("open", path);
  if (!S_ISREG(facts.st_mode)) return Status::Format("%s is not a regular file", path.c_str());
  size_ = static_cast<uint64_t>(facts.st_size);
  return Status();
}

Status InputFile::ReadAt(uint64_t offset, void* data, uint64_t bytes) const {
  auto* out = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", path_);
    if (got == 0) return Status::Format("%s ended while it was read", path_.c_str());
    out += got;
    offset += got;
    bytes -= got;
  }
  return Status();
}

Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts) {
  struct stat facts = {};
  const bool exists = stat(path.c_str(), &facts) == 0;
  if (exists && !S_ISREG(facts.st_mode)) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return SystemError("open", path);
    return WriteParts(descriptor, path, parts, /*sync=*/false);
  }
  std::string target = path;
  if (exists) {  // a symbolic link stays one
    std::error_code error;
    target = std::filesystem::canonical(path, error).string();
    if (error) return Status::Format("cannot open %s: %s", path.c_str(), error.message().c_str());
  }
  const std::string temporary = Format("%s.%d.tmp", target.c_str(), static_cast<int>(getpid()));
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return SystemError("create", path);
  Status status = WriteParts(descriptor, path, parts, /*sync=*/true);
  if (status.ok() && rename(temporary.c_str(), target.c_str()) != 0) {
    status = SystemError("replace", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace moert::cli
