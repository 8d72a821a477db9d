// SPDX-License-Identifier: Apache-2.0
#include "cli/description.h"

namespace moert::cli {

Status OpenManifest(moert_runtime* runtime, const std::string& path, uint32_t flags,
                    Manifest* out) {
  moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
  // Who runs the command trusts the manifests that it is given.
  desc.flags = flags | MOERT_MANIFEST_FLAG_PACKED_DIRECTORY;
  desc.path = path.c_str();
  Status status = Make(*out, moert_manifest_open, runtime, &desc);
  if (status.ok() || status.message().find(path) != std::string::npos) return status;
  return Status::Failure(path + ": " + status.message());
}

Status DescribeLayer(const moert_manifest* manifest, uint32_t index, LayerDescription* out) {
  MOERT_CLI_TRY(Call(moert_manifest_layer, manifest, index, &out->info));
  MOERT_CLI_TRY(Call(moert_manifest_layer_routing, manifest, index, &out->routing));
  MOERT_CLI_TRY(Call(moert_manifest_layer_activation, manifest, index, &out->activation,
                     &out->shared_activation));
  out->weights.assign(out->info.num_weights, MOERT_WEIGHT_INFO_INIT);
  for (uint32_t i = 0; i < out->info.num_weights; ++i) {
    MOERT_CLI_TRY(Call(moert_manifest_layer_weight, manifest, index, i, &out->weights[i]));
  }
  return Status();
}

Status DescribeManifest(const moert_manifest* manifest, ManifestDescription* out) {
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest, &out->info));
  out->files.assign(out->info.num_files, MOERT_FILE_INFO_INIT);
  for (uint32_t i = 0; i < out->info.num_files; ++i) {
    MOERT_CLI_TRY(Call(moert_manifest_file, manifest, i, &out->files[i]));
  }
  out->tensors.assign(out->info.num_tensors, MOERT_TENSOR_INFO_INIT);
  for (uint64_t i = 0; i < out->info.num_tensors; ++i) {
    MOERT_CLI_TRY(Call(moert_manifest_tensor, manifest, i, &out->tensors[i]));
  }
  out->layers.resize(out->info.num_layers);
  for (uint32_t i = 0; i < out->info.num_layers; ++i) {
    MOERT_CLI_TRY(DescribeLayer(manifest, i, &out->layers[i]));
  }
  return Status();
}

}  // namespace moert::cli
