// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/kernel_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/dynamic_library.h"
#include "kernels/args.h"

namespace moert {
namespace {

constexpr std::string_view kMark = "\nmoert-kernels abi=";

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && (info.st_mode & S_IFMT) == S_IFDIR;
}

// False if the file cannot be read; errno says why.
bool ReadFile(const std::string& path, std::vector<char>* out) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) return false;
  char block[65536];
  size_t count;
  while ((count = std::fread(block, 1, sizeof(block), file.get())) != 0) {
    out->insert(out->end(), block, block + count);
  }
  return std::ferror(file.get()) == 0;
}

// The value after "name=" in the line, up to a space or the end.
std::string Field(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos) return "";
  const size_t begin = at + name.size();
  return std::string(line.substr(begin, line.find_first_of(" \n", begin) - begin));
}

Status CheckTrailer(KernelFile* file) {
  const std::string_view bytes(file->bytes.data(), file->bytes.size());
  const size_t at = bytes.rfind(kMark);
  if (at == std::string_view::npos) {
    return Unavailable("%s is not a kernel file of moert (%zu bytes)", file->origin.c_str(),
                       bytes.size());
  }
  const std::string_view line = bytes.substr(at + 1);
  file->toolkit = Field(line, "toolkit=");
  file->targets = Field(line, "targets=");
  const std::string abi = Field(line, "abi=");
  if (abi != std::to_string(MOERT_KERNEL_ABI)) {
    return Unavailable("%s has kernels of kernel-ABI %s; this library needs %d",
                       file->origin.c_str(), abi.c_str(), MOERT_KERNEL_ABI);
  }
  return Status();
}

struct Candidate {
  std::string path;  // a file or the folder that holds it
  const char* why;
};

std::vector<Candidate> Candidates(const DeviceOptions& options) {
  if (options.kernel_path != nullptr) return {{options.kernel_path, "kernel_path"}};
  const char* named = options.ignore_environment ? nullptr : std::getenv("MOERT_KERNEL_PATH");
  if (named != nullptr && *named != '\0') return {{named, "MOERT_KERNEL_PATH"}};
  const std::string own = OwnDirectory();
  if (own.empty()) return {};
  return {{own, "beside the library"}, {own + "/moert", "below the library"}};
}

}  // namespace

Status FindKernelFile(const GpuDriver& driver, const DeviceOptions& options, KernelFile* out) {
  KernelFile file;
  if (options.kernel_data != nullptr) {
    const char* data = static_cast<const char*>(options.kernel_data);
    file.origin = "kernel_data";
    file.bytes.assign(data, data + options.kernel_size);
  } else {
    std::string tried;
    for (const Candidate& candidate : Candidates(options)) {
      std::string path = candidate.path;
      if (IsDirectory(path)) path.append("/").append(driver.kernel_file);
      std::vector<char> bytes;
      if (ReadFile(path, &bytes)) {
        file.origin = path;
        file.bytes = std::move(bytes);
        break;
      }
      tried.append(tried.empty() ? "" : "; ").append(path).append(" (").append(candidate.why);
      tried.append("): ").append(std::strerror(errno));
    }
    if (file.origin.empty()) {
      return Unavailable("no kernel file %s: %s", driver.kernel_file,
                         tried.empty() ? "nowhere to look" : tried.c_str());
    }
  }
  MOERT_RETURN_IF_ERROR(CheckTrailer(&file));
  file.bytes.push_back('\0');
  *out = std::move(file);
  return Status();
}

}  // namespace moert
