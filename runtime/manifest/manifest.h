// SPDX-License-Identifier: Apache-2.0
// An opened manifest: bytes that passed the FlatBuffers verifier and the semantic pass, with the
// files it names mapped or read. Everything that is handed out points into those.
#ifndef MOERT_MANIFEST_MANIFEST_H_
#define MOERT_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "core/allocator.h"
#include "core/log.h"
#include "core/status.h"
#include "moert/moert.h"

namespace moert {

// A layer as the ABI describes one, ready for ResolveLayer; `desc` points into the vectors here and
// into the manifest's files.
struct ManifestLayer {
  explicit ManifestLayer(std::pmr::memory_resource* memory) : weights(memory), experts(memory) {}
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_activation shared_activation = MOERT_ACTIVATION_INIT;
  std::pmr::vector<moert_weight> weights;
  std::pmr::vector<const void*> experts;
};

class Manifest {
 public:
  virtual ~Manifest() = default;

  // `desc` and what it points to are complete (extended to the library's structs). desc.files is
  // copied and must work as long as the manifest; its free_fn is the caller's to call.
  static Status Open(Allocator& allocator, const Logger& log, const moert_manifest_desc& desc,
                     Owned<Manifest>* out);

  // These fill all fields after struct_size.
  virtual void Info(moert_manifest_info* out) const = 0;
  virtual Status File(uint32_t index, moert_file_info* out) const = 0;
  virtual Status Tensor(uint64_t index, moert_tensor_info* out) const = 0;
  virtual Status FindTensor(std::string_view name, uint64_t* out) const = 0;
  virtual Status TensorData(uint64_t index, const void** out) const = 0;
  virtual Status LayerInfo(uint32_t index, moert_layer_info* out) const = 0;
  virtual Status FindLayer(int32_t model_layer, uint32_t* out) const = 0;
  virtual Status LayerRouting(uint32_t index, moert_routing* out) const = 0;
  virtual Status LayerActivation(uint32_t index, moert_activation* experts,
                                 moert_activation* shared) const = 0;
  virtual Status LayerWeight(uint32_t index, uint32_t weight_index,
                             moert_weight_info* out) const = 0;
  virtual Status Verify(moert_progress_fn progress, void* user_data) const = 0;

  // The layer with weights where they lie; `local_experts` empty: all. UNSUPPORTED for quantised
  // weights, naming the scheme.
  virtual Status Layer(uint32_t index, std::span<const int32_t> local_experts,
                       ManifestLayer* out) const = 0;
};

// Writes a manifest for a checkpoint (moert_manifest_pack). Does not call desc.free_fn.
Status PackCheckpoint(Allocator& allocator, const Logger& log, const moert_pack_desc& desc,
                      moert_pack_result* result);
// The model types that the built-in families describe, separated by commas.
const char* FamilyNames();

}  // namespace moert

#endif  // MOERT_MANIFEST_MANIFEST_H_
