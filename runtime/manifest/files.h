// SPDX-License-Identifier: Apache-2.0
// Where a manifest's bytes come from: the file system (read or mapped) or the host's callbacks; and
// a file that appears whole or not at all. Paths that a manifest or an index names are untrusted.
#ifndef MOERT_MANIFEST_FILES_H_
#define MOERT_MANIFEST_FILES_H_

#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>

#include "core/allocator.h"
#include "core/status.h"
#include "moert/moert.h"

namespace moert {

// CORRUPT_DATA / PATH unless `path` is relative, with '/' only, and stays below its folder by its
// spelling alone. `what` names the field in the message.
Status CheckRelativePath(const char* what, std::string_view path);
// "a" and "b" give "a/b"; an empty folder gives `name`.
std::string JoinPath(std::string_view folder, std::string_view name);
// All before the last '/': "" for a bare name, "/" for the root's files.
std::string ParentPath(std::string_view path);

// An open file of fixed size. Read may be called from several threads at once.
class File {
 public:
  virtual ~File() = default;
  uint64_t size() const { return size_; }
  // Exactly `bytes` bytes.
  virtual Status Read(uint64_t offset, void* buffer, uint64_t bytes) const = 0;
  // The whole file in memory, valid as long as this object. Null: this kind cannot be mapped.
  virtual Status Map(const void** out) {
    *out = nullptr;
    return Status();
  }

 protected:
  uint64_t size_ = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Status Open(const std::string& path, Owned<File>* out) const = 0;
};

// Files below `base` ("" for the working directory). With `forbid_symlinks`, no component below it
// may be a symbolic link.
class DiskFiles final : public FileSystem {
 public:
  DiskFiles(Allocator& allocator, std::string_view base, bool forbid_symlinks);
  Status Open(const std::string& path, Owned<File>* out) const override;

 private:
  Allocator& allocator_;
  std::pmr::string base_;
  bool forbid_symlinks_;
};

// The host's files, with `folder` before every path. The api owns source.free_fn.
class HostFiles final : public FileSystem {
 public:
  HostFiles(Allocator& allocator, const moert_file_source& source, std::string_view folder);
  Status Open(const std::string& path, Owned<File>* out) const override;

 private:
  Allocator& allocator_;
  moert_file_source source_;
  std::pmr::string folder_;
};

// Reads a whole file of at most `limit` bytes; larger is CORRUPT_DATA / HEADER_LENGTH.
Status ReadAll(Allocator& allocator, const File& file, const char* name, uint64_t limit,
               Buffer* out);

// Writes to a temporary file beside `path` and renames it over `path`. On failure nothing is left,
// and what stood at `path` stays.
Status WriteFileAtomically(const std::string& path, const void* data, uint64_t size);

}  // namespace moert

#endif  // MOERT_MANIFEST_FILES_H_
