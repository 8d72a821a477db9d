// SPDX-License-Identifier: Apache-2.0
// Makes the bytes of a manifest trustworthy: the FlatBuffers verifier, then the semantic pass. What
// passes here may be used without further checks. Time and memory are linear in the size, on any
// bytes.
#ifndef MOERT_MANIFEST_CHECK_H_
#define MOERT_MANIFEST_CHECK_H_

#include <cstdint>

#include "backend/roles.h"
#include "core/status.h"
#include "manifest_generated.h"

namespace moert {

// The largest manifest: what FlatBuffers can address.
constexpr uint64_t kMaxManifestBytes = (uint64_t{1} << 31) - 1;

// `data` is aligned to 8 bytes and stays as it is while `out` is used. Each refusal is CORRUPT_DATA
// with its code, naming the tensor, file, layer or field.
Status CheckManifest(const void* data, uint64_t size, const schema::Manifest** out);

Widths WidthsOf(const schema::Layer& layer);

}  // namespace moert

#endif  // MOERT_MANIFEST_CHECK_H_
