// SPDX-License-Identifier: Apache-2.0
// Small checkpoints that tests write: tensors under the names of a model family, and a folder for
// them that goes away.
#ifndef MOERT_TESTS_SUPPORT_CHECKPOINT_H_
#define MOERT_TESTS_SUPPORT_CHECKPOINT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "device.h"
#include "reference.h"

namespace moert::test {

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  moert_dtype dtype = MOERT_DTYPE_BFLOAT16;
  std::vector<double> values;
};
void WriteSafetensors(const std::filesystem::path& file, const std::vector<StoredTensor>& tensors);

// What a tensor of a checkpoint holds. Those of experts are one tensor an expert where the name
// holds {e}, else one stacked tensor.
enum class Part {
  kRouter,
  kSelectionBias,
  kSelectionBiasRow,  // as [1, E]
  kInputScale,
  kExpertScale,
  kGate,
  kUp,
  kDown,
  kGateUp,  // gate above up
  kGateBias,
  kUpBias,
  kDownBias,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedGateUp,
  kSharedExpertGate,
  kLatentIn,
  kLatentOut,
};
struct PartName {
  Part part;
  std::string name;  // behind the layer's prefix
};

// The tensors of a layer. Router and scales in `router_dtype`, selection biases in float32, all
// else in bfloat16.
void AddTensors(const RefLayer& layer, const std::string& prefix,
                const std::vector<PartName>& names, moert_dtype router_dtype,
                std::vector<StoredTensor>* out);

// Packs a checkpoint's folder and opens the manifest, which lies in it.
ManifestHandle PackAndOpen(Device& device, const std::filesystem::path& folder,
                           moert_pack_result* result);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_CHECKPOINT_H_
