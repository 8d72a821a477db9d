// SPDX-License-Identifier: Apache-2.0
#include "cli/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "cli/text.h"

namespace moert::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxHeader = 100'000'000;  // as the format's own library
constexpr size_t kMaxNames = 8;               // listed in an error

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // Reports what the system could not write after all.
  bool Close() { return close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

Status SystemError(const char* verb, const std::string& path) {
  return Status::Format("cannot %s %s: %s", verb, path.c_str(), std::strerror(errno));
}

Status ReadAt(const File& file, const std::string& path, uint64_t offset, void* data,
              uint64_t bytes) {
  auto* out = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(file.get(), out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", path);
    if (got == 0) return Status::Format("%s ended while it was read", path.c_str());
    out += got;
    offset += got;
    bytes -= got;
  }
  return Status();
}

Status WriteAll(const File& file, const std::string& path, const void* data, uint64_t bytes) {
  const auto* in = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = write(file.get(), in, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", path);
    in += put;
    bytes -= put;
  }
  return Status();
}

// The header's JSON object; `data_begin` is where offsets count from.
Status ReadHeader(const File& file, const std::string& path, uint64_t size, Json* header,
                  uint64_t* data_begin) {
  uint64_t length = 0;
  if (size < sizeof(length)) {
    return Status::Format("%s has %llu bytes, too few for a safetensors file", path.c_str(),
                          static_cast<unsigned long long>(size));
  }
  MOERT_CLI_TRY(ReadAt(file, path, 0, &length, sizeof(length)));
  const uint64_t limit = std::min(size - sizeof(length), kMaxHeader);
  if (length == 0 || length > limit) {
    return Status::Format("%s is no safetensors file: header length %llu is not from 1 to %llu",
                          path.c_str(), static_cast<unsigned long long>(length),
                          static_cast<unsigned long long>(limit));
  }
  std::string text(length, '\0');
  MOERT_CLI_TRY(ReadAt(file, path, sizeof(length), text.data(), length));
  std::set<std::string> names;
  std::string twice;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  *header = Json::parse(text, check, /*allow_exceptions=*/false);
  if (!header->is_object()) {
    return Status::Format("%s is no safetensors file: its header is not a JSON object",
                          path.c_str());
  }
  if (!twice.empty()) {
    return Status::Format("%s names tensor \"%s\" twice", path.c_str(), twice.c_str());
  }
  *data_begin = sizeof(length) + length;
  return Status();
}

std::string Names(const Json& header) {
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    if (++count > kMaxNames) return names + ", ...";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "none" : names;
}

moert_dtype ParseStoredDtype(const Json& name) {
  if (!name.is_string()) return MOERT_DTYPE_NONE;
  for (moert_dtype dtype = MOERT_DTYPE_FLOAT32; moert_dtype_bits(dtype) != 0; ++dtype) {
    if (name.get_ref<const std::string&>() == moert_dtype_name(dtype)) return dtype;
  }
  return MOERT_DTYPE_NONE;
}

// Fills dtype and shape, and gives the tensor's place behind the header.
Status ReadEntry(const Json& entry, const std::string& where, uint64_t data_bytes, Tensor* out,
                 uint64_t* offset, uint64_t* bytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Status::Format("%s lacks dtype, shape or data_offsets", where.c_str());
  }
  out->dtype = ParseStoredDtype(entry["dtype"]);
  if (out->dtype == MOERT_DTYPE_NONE) {
    return Status::Format("%s has an unknown dtype %s", where.c_str(),
                          entry["dtype"].dump().c_str());
  }
  uint64_t bits = moert_dtype_bits(out->dtype);
  for (const Json& extent : entry["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX ||
        __builtin_mul_overflow(bits, extent.get<uint64_t>(), &bits)) {
      return Status::Format("%s has an impossible shape %s", where.c_str(),
                            entry["shape"].dump().c_str());
    }
    out->shape.push_back(extent.get<int64_t>());
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned() || offsets[0] > offsets[1] ||
      offsets[1].get<uint64_t>() > data_bytes ||
      offsets[1].get<uint64_t>() - offsets[0].get<uint64_t>() != bits / 8 || bits % 8 != 0) {
    return Status::Format("%s: data_offsets %s do not hold shape %s of %s inside %llu bytes",
                          where.c_str(), offsets.dump().c_str(), entry["shape"].dump().c_str(),
                          moert_dtype_name(out->dtype),
                          static_cast<unsigned long long>(data_bytes));
  }
  *offset = offsets[0].get<uint64_t>();
  *bytes = bits / 8;
  return Status();
}

std::string Header(std::span<const Tensor> tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", moert_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Status WriteContents(File& file, const std::string& path, std::span<const Tensor> tensors,
                     bool sync) {
  const std::string header = Header(tensors);
  const uint64_t length = header.size();
  MOERT_CLI_TRY(WriteAll(file, path, &length, sizeof(length)));
  MOERT_CLI_TRY(WriteAll(file, path, header.data(), header.size()));
  for (const Tensor& tensor : tensors) {
    MOERT_CLI_TRY(WriteAll(file, path, tensor.data.data(), tensor.data.size()));
  }
  if (sync && fsync(file.get()) != 0) return SystemError("write", path);
  return file.Close() ? Status() : SystemError("write", path);
}

}  // namespace

Status ReadTensor(const std::string& path, const std::string& name, Tensor* out) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.ok() || fstat(file.get(), &facts) != 0) return SystemError("open", path);
  if (!S_ISREG(facts.st_mode)) return Status::Format("%s is not a regular file", path.c_str());
  Json header;
  uint64_t data_begin = 0;
  const auto size = static_cast<uint64_t>(facts.st_size);
  MOERT_CLI_TRY(ReadHeader(file, path, size, &header, &data_begin));
  if (name == "__metadata__" || !header.contains(name)) {
    return Status::Format("%s has no tensor \"%s\"; it has %s", path.c_str(), name.c_str(),
                          Names(header).c_str());
  }
  Tensor tensor;
  tensor.name = name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  MOERT_CLI_TRY(
      ReadEntry(header[name], path + ":" + name, size - data_begin, &tensor, &offset, &bytes));
  tensor.data.resize(bytes);
  MOERT_CLI_TRY(ReadAt(file, path, data_begin + offset, tensor.data.data(), bytes));
  *out = std::move(tensor);
  return Status();
}

Status WriteTensors(const std::string& path, std::span<const Tensor> tensors) {
  struct stat facts = {};
  const bool exists = stat(path.c_str(), &facts) == 0;
  if (exists && !S_ISREG(facts.st_mode)) {
    File file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.ok()) return SystemError("open", path);
    return WriteContents(file, path, tensors, /*sync=*/false);
  }
  std::error_code ignored;
  const std::string target = exists ? std::filesystem::canonical(path, ignored).string() : path;
  const std::string temporary = Format("%s.%d.tmp", target.c_str(), static_cast<int>(getpid()));
  File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.ok()) return SystemError("create", path);
  Status status = WriteContents(file, path, tensors, /*sync=*/true);
  if (status.ok() && rename(temporary.c_str(), target.c_str()) != 0) {
    status = SystemError("replace", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace moert::cli
