// SPDX-License-Identifier: Apache-2.0
// From a family, a config and the tensors of a checkpoint to the layers of a manifest: the knobs of
// each MoE layer and the tensors that play its roles.
#ifndef MOERT_MANIFEST_PLAN_H_
#define MOERT_MANIFEST_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/roles.h"
#include "core/log.h"
#include "core/status.h"
#include "manifest/family.h"
#include "manifest/safetensors.h"
#include "manifest_generated.h"

namespace moert {

// All tensors of a checkpoint, ordered by name; indices are those of the manifest.
struct CheckpointTensor {
  SafetensorsTensor tensor;
  uint32_t file = 0;
};
class TensorTable {
 public:
  // Sorts. A name that stands in two files is CORRUPT_DATA / DUPLICATE_KEY.
  Status Build(std::vector<CheckpointTensor> tensors, const std::vector<std::string>& file_names);
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  const SafetensorsTensor& at(uint32_t index) const { return tensors_[index].tensor; }
  std::optional<uint32_t> Find(std::string_view name) const;
  bool HasPrefix(std::string_view prefix) const;

 private:
  std::vector<CheckpointTensor> tensors_;
};

struct PlannedQuant {
  schema::QuantScheme scheme = schema::QuantScheme::None;
  schema::QuantPacking packing = schema::QuantPacking::None;
  schema::ZeroPoint zero_point = schema::ZeroPoint::None;
  int64_t block_rows = 1, block_cols = 1;
  uint32_t storage_elements = 1, storage_bytes = 1;
  std::vector<uint32_t> scales, zero_points;
};

struct PlannedWeight {
  moert_role role = MOERT_ROLE_NONE;
  moert_dtype dtype = MOERT_DTYPE_NONE;
  moert_orientation orientation = MOERT_ORIENTATION_OUT_IN;
  moert_packing packing = MOERT_PACKING_CONCATENATED;
  int64_t rows = 0, cols = 0;
  std::vector<uint32_t> tensors;
  std::optional<PlannedQuant> quant;
};

struct PlannedLayer {
  int32_t model_layer = 0;
  Widths widths;
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_activation shared_activation = MOERT_ACTIVATION_INIT;
  moert_weight_application weight_application = MOERT_WEIGHT_APPLICATION_OUTPUT;
  std::vector<PlannedWeight> weights;
};

struct Plan {
  std::vector<PlannedLayer> layers;
  uint32_t num_skipped = 0;
};

// NOT_FOUND names the role and the tensors that were looked for; CORRUPT_DATA what the config
// lacks; UNSUPPORTED a value or quantisation that layers do not know.
Status PlanLayers(const Family& family, const Json& config, const TensorTable& table,
                  const Logger& log, Plan* out);

}  // namespace moert

#endif  // MOERT_MANIFEST_PLAN_H_
