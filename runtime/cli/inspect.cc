// SPDX-License-Identifier: Apache-2.0
// moert inspect: what a manifest describes, as text for a reader or as JSON with everything in it.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/description.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Hash(const moert_file_info& file) {
  if (file.has_hash == 0) return "";
  return Format("%016llx%016llx", static_cast<unsigned long long>(file.hash[1]),
                static_cast<unsigned long long>(file.hash[0]));
}

// Text for a reader.

void AddRouting(const moert_routing& routing, std::vector<std::string>* knobs) {
  if (routing.score != MOERT_SCORE_SOFTMAX) {
    knobs->push_back(Format("score %s", ScoreName(routing.score)));
  }
  if (routing.score == MOERT_SCORE_SPARSEMIXER && routing.sparsemixer_epsilon != 0) {
    knobs->push_back(Format("sparsemixer_epsilon %g", routing.sparsemixer_epsilon));
  }
  if (routing.renormalize == MOERT_RENORMALIZE_SUM) {
    knobs->push_back("renormalize sum");
  } else if (routing.renormalize != MOERT_RENORMALIZE_NONE) {
    knobs->push_back(Format("renormalize %s %g", RenormalizeName(routing.renormalize),
                            routing.renormalize_value));
  }
  if (routing.num_groups > 1) {
    knobs->push_back(Format("%d of %d groups by %s", routing.top_k_groups, routing.num_groups,
                            GroupScoreName(routing.group_score)));
  }
  if (routing.routed_scaling_factor != 0 && routing.routed_scaling_factor != 1) {
    knobs->push_back(Format("routed_scaling_factor %g", routing.routed_scaling_factor));
  }
  if (routing.logit_soft_cap != 0) {
    knobs->push_back(Format("logit_soft_cap %g", routing.logit_soft_cap));
  }
  if ((routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0) {
    knobs->push_back(Format("router input RMS-normed, epsilon %g",
                            routing.input_rms_epsilon == 0 ? 1e-6 : routing.input_rms_epsilon));
  }
  if (routing.input_multiplier != 0 && routing.input_multiplier != 1) {
    knobs->push_back(Format("router input * %g", routing.input_multiplier));
  }
}

// "gated silu, limit 7, up_offset 1"; empty for the default.
std::string ActivationKnobs(const moert_activation& activation) {
  const bool gated = (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0;
  std::string text = Format("%s%s", gated ? "" : "ungated ", ActivationName(activation.kind));
  if (activation.alpha != 0 && activation.alpha != 1)
    text += Format(", alpha %g", activation.alpha);
  if (activation.limit != 0) text += Format(", limit %g", activation.limit);
  if (activation.up_offset != 0) text += Format(", up_offset %g", activation.up_offset);
  return text == ActivationName(MOERT_ACTIVATION_KIND_SILU) ? "" : text;
}

std::vector<std::string> Knobs(const LayerDescription& layer) {
  std::vector<std::string> knobs;
  AddRouting(layer.routing, &knobs);
  if (layer.info.weight_application == MOERT_WEIGHT_APPLICATION_INPUT) {
    knobs.push_back("routing weight on the expert's input");
  }
  const std::string experts = ActivationKnobs(layer.activation);
  if (!experts.empty()) knobs.push_back("activation " + experts);
  const std::string shared = ActivationKnobs(layer.shared_activation);
  if (layer.info.shared_intermediate != 0 && shared != experts) {
    knobs.push_back("shared activation " + (shared.empty() ? "silu" : shared));
  }
  return knobs;
}

std::string Heading(const LayerDescription& layer) {
  const moert_layer_info& info = layer.info;
  std::string text =
      Format("%d experts, top_k %d, hidden %lld, intermediate %lld", info.num_experts, info.top_k,
             static_cast<long long>(info.hidden), static_cast<long long>(info.intermediate));
  if (info.latent != 0) text += Format(", latent %lld", static_cast<long long>(info.latent));
  if (info.shared_intermediate != 0) {
    text += Format(", shared %lld", static_cast<long long>(info.shared_intermediate));
  }
  return text + ", " + Bytes(info.weight_bytes);
}

// What it is; the tensor names, which differ from layer to layer, are left to the caller.
std::string WeightLine(const moert_weight_info& weight) {
  const std::string shape = Format("[%lld, %lld]", static_cast<long long>(weight.rows),
                                   static_cast<long long>(weight.cols));
  const std::string count =
      weight.num_tensors > 1 ? Format("%u x ", weight.num_tensors) : std::string();
  std::string text = Format("    %-20s %20s  %s", RoleName(weight.role), (count + shape).c_str(),
                            moert_dtype_name(weight.dtype));
  if (weight.orientation != MOERT_ORIENTATION_OUT_IN) {
    text += Format(", %s", OrientationName(weight.orientation));
  }
  if (IsGateUpRole(weight.role)) text += Format(", %s", PackingName(weight.packing));
  if (weight.quant_scheme != MOERT_QUANT_SCHEME_NONE) {
    text += Format(", %s", QuantSchemeName(weight.quant_scheme));
  }
  return text;
}

// Everything about a layer that another layer may have in common with it.
std::string Fingerprint(const LayerDescription& layer) {
  std::string text = Heading(layer);
  for (const std::string& knob : Knobs(layer)) text += "\n" + knob;
  for (const moert_weight_info& weight : layer.weights) text += "\n" + WeightLine(weight);
  return text;
}

void PrintLayer(const ManifestDescription& manifest, const LayerDescription& layer) {
  std::printf("layer %d: %s\n", layer.info.model_layer, Heading(layer).c_str());
  for (const std::string& knob : Knobs(layer)) std::printf("  %s\n", knob.c_str());
  for (const moert_weight_info& weight : layer.weights) {
    const char* more = weight.num_tensors > 1 ? ", ..." : "";
    std::printf("%s  %s%s\n", WeightLine(weight).c_str(),
                OneLine(manifest.tensors[weight.tensors[0]].name).c_str(), more);
  }
}

void PrintText(const ManifestDescription& manifest) {
  std::printf("model %s, family %s\n", OneLine(manifest.info.model_type).c_str(),
              OneLine(manifest.info.family).c_str());
  std::printf("%u file%s, %s, %llu tensors\n", manifest.info.num_files,
              Plural(manifest.info.num_files), Bytes(manifest.info.total_bytes).c_str(),
              static_cast<unsigned long long>(manifest.info.num_tensors));
  for (const moert_file_info& file : manifest.files) {
    std::printf("  %s  %s  %s\n", OneLine(file.path).c_str(), Bytes(file.bytes).c_str(),
                file.has_hash != 0 ? ("xxh3 " + Hash(file)).c_str() : "no hash");
  }
  const LayerDescription* shown = nullptr;  // the last layer printed in full
  for (const LayerDescription& layer : manifest.layers) {
    if (shown != nullptr && Fingerprint(*shown) == Fingerprint(layer)) {
      std::printf("layer %d: as layer %d\n", layer.info.model_layer, shown->info.model_layer);
    } else {
      PrintLayer(manifest, layer);
      shown = &layer;
    }
  }
}

// JSON. Field names and values are those of moert.h.

Json RoutingJson(const moert_routing& routing) {
  return {{"num_experts", routing.num_experts},
          {"top_k", routing.top_k},
          {"score", ScoreName(routing.score)},
          {"renormalize", RenormalizeName(routing.renormalize)},
          {"renormalize_value", routing.renormalize_value},
          {"routed_scaling_factor", routing.routed_scaling_factor},
          {"logit_soft_cap", routing.logit_soft_cap},
          {"sparsemixer_epsilon", routing.sparsemixer_epsilon},
          {"num_groups", routing.num_groups},
          {"top_k_groups", routing.top_k_groups},
          {"group_score", GroupScoreName(routing.group_score)},
          {"rms_norm_input", (routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0},
          {"input_rms_epsilon", routing.input_rms_epsilon},
          {"input_multiplier", routing.input_multiplier}};
}

Json ActivationJson(const moert_activation& activation) {
  return {{"kind", ActivationName(activation.kind)},
          {"gated", (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0},
          {"alpha", activation.alpha},
          {"limit", activation.limit},
          {"up_offset", activation.up_offset}};
}

Json WeightJson(const ManifestDescription& manifest, const moert_weight_info& weight) {
  Json tensors = Json::array();
  for (uint32_t i = 0; i < weight.num_tensors; ++i) {
    tensors.push_back(manifest.tensors[weight.tensors[i]].name);
  }
  return {{"role", RoleName(weight.role)},
          {"dtype", moert_dtype_name(weight.dtype)},
          {"rows", weight.rows},
          {"cols", weight.cols},
          {"orientation", OrientationName(weight.orientation)},
          {"packing", IsGateUpRole(weight.role) ? Json(PackingName(weight.packing)) : Json()},
          {"quant_scheme", QuantSchemeName(weight.quant_scheme)},
          {"tensors", std::move(tensors)}};
}

Json LayerJson(const ManifestDescription& manifest, const LayerDescription& layer) {
  Json weights = Json::array();
  for (const moert_weight_info& weight : layer.weights) {
    weights.push_back(WeightJson(manifest, weight));
  }
  const moert_layer_info& info = layer.info;
  const bool shared = info.shared_intermediate != 0;
  return {{"layer", info.model_layer},
          {"dtype", moert_dtype_name(info.dtype)},
          {"num_experts", info.num_experts},
          {"top_k", info.top_k},
          {"hidden", info.hidden},
          {"intermediate", info.intermediate},
          {"latent", info.latent},
          {"shared_intermediate", info.shared_intermediate},
          {"weight_application", WeightApplicationName(info.weight_application)},
          {"weight_bytes", info.weight_bytes},
          {"routing", RoutingJson(layer.routing)},
          {"activation", ActivationJson(layer.activation)},
          {"shared_activation", shared ? ActivationJson(layer.shared_activation) : Json()},
          {"weights", std::move(weights)}};
}

Json FileJson(const moert_file_info& file) {
  return {{"path", file.path},
          {"bytes", file.bytes},
          {"xxh3_128", file.has_hash != 0 ? Json(Hash(file)) : Json()}};
}

Json TensorJson(const ManifestDescription& manifest, const moert_tensor_info& tensor) {
  return {{"name", tensor.name},
          {"dtype", moert_dtype_name(tensor.dtype)},
          {"shape", std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank)},
          {"file", manifest.files[tensor.file].path},
          {"offset", tensor.offset},
          {"bytes", tensor.bytes}};
}

void PrintJson(const ManifestDescription& manifest) {
  Json files = Json::array();
  for (const moert_file_info& file : manifest.files) files.push_back(FileJson(file));
  Json layers = Json::array();
  for (const LayerDescription& layer : manifest.layers) {
    layers.push_back(LayerJson(manifest, layer));
  }
  Json tensors = Json::array();
  for (const moert_tensor_info& tensor : manifest.tensors) {
    tensors.push_back(TensorJson(manifest, tensor));
  }
  const Json all = {{"model_type", manifest.info.model_type},
                    {"family", manifest.info.family},
                    {"total_bytes", manifest.info.total_bytes},
                    {"files", std::move(files)},
                    {"layers", std::move(layers)},
                    {"tensors", std::move(tensors)}};
  std::printf("%s\n", all.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

Status RunInspect(const InspectOptions& options) {
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, nullptr));
  Manifest manifest;
  MOERT_CLI_TRY(OpenManifest(runtime.get(), options.manifest, 0, &manifest));
  ManifestDescription description;
  MOERT_CLI_TRY(DescribeManifest(manifest.get(), &description));
  if (options.json) {
    PrintJson(description);
  } else {
    PrintText(description);
  }
  return Status();
}

}  // namespace moert::cli
