// SPDX-License-Identifier: Apache-2.0
// XXH3-128 over whole files, the value that `xxhsum -H128` prints, with all threads reading.
#ifndef MOERT_MANIFEST_HASH_H_
#define MOERT_MANIFEST_HASH_H_

#include <cstdint>
#include <span>

#include "core/status.h"
#include "manifest/files.h"
#include "moert/moert.h"

namespace moert {

struct FileHash {
  const File* file = nullptr;
  uint64_t hash[2] = {0, 0};  // out, low word first
};

// `progress` (may be null) is called from the calling thread only, also at the end.
Status HashFiles(std::span<FileHash> files, moert_progress_fn progress, void* user_data);

}  // namespace moert

#endif  // MOERT_MANIFEST_HASH_H_
