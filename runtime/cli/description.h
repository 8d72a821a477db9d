// SPDX-License-Identifier: Apache-2.0
// What a manifest says, gathered from the C ABI into plain structs. Strings and tensor lists point
// into the manifest, which must stay open.
#ifndef MOERT_CLI_DESCRIPTION_H_
#define MOERT_CLI_DESCRIPTION_H_

#include <string>
#include <vector>

#include "cli/handles.h"
#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

struct LayerDescription {
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_activation shared_activation = MOERT_ACTIVATION_INIT;
  std::vector<moert_weight_info> weights;
};

struct ManifestDescription {
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  std::vector<moert_file_info> files;
  std::vector<moert_tensor_info> tensors;
  std::vector<LayerDescription> layers;
};

// `flags` are moert_manifest_flag_e.
Status OpenManifest(moert_runtime* runtime, const std::string& path, uint32_t flags, Manifest* out);
Status DescribeLayer(const moert_manifest* manifest, uint32_t index, LayerDescription* out);
Status DescribeManifest(const moert_manifest* manifest, ManifestDescription* out);

}  // namespace moert::cli

#endif  // MOERT_CLI_DESCRIPTION_H_
