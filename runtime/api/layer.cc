// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"
#include "backend/roles.h"
#include "layer/arguments.h"
#include "layer/compose.h"
#include "layer/resolve.h"

namespace moert {
namespace {

Ref<moert_layer> NewLayer(const moert_device* device, FreeCallback weights_free) {
  return Ref<moert_layer>::Adopt(MakeHandle<moert_layer>(
      device->allocator(), Ref<const moert_device>::Retain(device), std::move(weights_free)));
}

void FillInfo(const moert_layer& layer, int32_t model_layer, uint32_t num_weights,
              moert_layer_info* info) {
  const LayerSpec& spec = layer.spec;
  info->model_layer = model_layer;
  info->dtype = spec.dtype;
  info->weight_application = spec.weight_application;
  info->hidden = spec.hidden;
  info->intermediate = spec.intermediate;
  info->latent = spec.latent;
  info->shared_intermediate = spec.shared_intermediate;
  info->num_experts = spec.routing.num_experts;
  info->top_k = spec.routing.top_k;
  info->num_local_experts = static_cast<uint32_t>(spec.local_experts.size());
  info->num_weights = num_weights;
  info->weight_bytes = layer.prepared->weight_bytes();
}

// Checks a complete desc and prepares it on the layer's device.
Status Prepare(moert_layer& layer, const moert_layer_desc& desc, WeightSource source,
               int32_t model_layer) {
  BackendDevice& device = *layer.device->backend;
  Allocator& allocator = layer.device->allocator();
  LayerWeights weights(&allocator);
  const RoutingLimits limits{device.info().max_experts, device.info().max_top_k};
  MOERT_RETURN_IF_ERROR(ResolveLayer(desc, limits, &layer.spec, &weights));
  layer.has_router = weights.router.router.present();
  MOERT_RETURN_IF_ERROR(MakeLayer(allocator, device, layer.spec, weights, source, &layer.prepared));
  FillInfo(layer, model_layer, desc.num_weights, &layer.info);
  return Status();
}

Status ReadForwardArgs(const moert_layer* layer, const moert_layer_forward_args* args,
                       Purpose purpose, LayerCall* call) {
  MOERT_RETURN_IF_ERROR(CheckNotNull("layer", layer));
  moert_layer_forward_args full;
  MOERT_RETURN_IF_ERROR(ReadRequiredStruct("moert_layer_forward_args", args, &full));
  return ResolveForward(layer->spec, layer->has_router, full, purpose, call);
}

Status NoTraining(const char* what) {
  return Unsupported("%s: this version has no training", what);
}

}  // namespace
}  // namespace moert

extern "C" moert_status moert_layer_create(const moert_device* device, const moert_layer_desc* desc,
                                           moert_layer** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("moert_layer_desc", desc));
    moert_layer_desc full;
    moert::Status read = moert::ReadCallerStruct("moert_layer_desc", *desc, &full);
    moert::FreeCallback free(full.free_fn, full.user_data);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    const bool borrow = (full.flags & MOERT_LAYER_FLAG_BORROW_WEIGHTS) != 0;
    moert::Ref<moert_layer> layer =
        moert::NewLayer(device, borrow ? std::move(free) : moert::FreeCallback());
    MOERT_RETURN_IF_ERROR(moert::Prepare(
        *layer, full, borrow ? moert::WeightSource::kBorrow : moert::WeightSource::kCopy, -1));
    *out = layer.release();
    return {};
  });
}

extern "C" moert_status moert_layer_open(const moert_device* device, const moert_manifest* manifest,
                                         uint32_t index, const moert_layer_open_desc* desc,
                                         moert_layer** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert_layer_open_desc full;
    MOERT_RETURN_IF_ERROR(moert::ReadOptionalStruct("moert_layer_open_desc", desc, &full));
    if ((full.flags & ~uint32_t{MOERT_LAYER_FLAG_TRAINABLE}) != 0) {
      return moert::InvalidArgument("moert_layer_open_desc.flags is 0x%x; 0 and 0x2 are accepted",
                                    full.flags);
    }
    if ((full.local_experts == nullptr) != (full.num_local_experts == 0)) {
      return moert::InvalidArgument("local_experts is %s but num_local_experts is %u",
                                    full.local_experts == nullptr ? "NULL" : "given",
                                    full.num_local_experts);
    }
    moert_layer_info info = MOERT_LAYER_INFO_INIT;
    MOERT_RETURN_IF_ERROR(manifest->manifest->LayerInfo(index, &info));
    moert::ManifestLayer source(&device->allocator());
    MOERT_RETURN_IF_ERROR(
        manifest->manifest->Layer(index, {full.local_experts, full.num_local_experts}, &source));
    source.desc.flags = full.flags;
    source.desc.dtype = full.dtype != MOERT_DTYPE_NONE ? full.dtype : info.dtype;
    moert::Ref<moert_layer> layer = moert::NewLayer(device, moert::FreeCallback());
    layer->manifest = moert::Ref<const moert_manifest>::Retain(manifest);
    MOERT_RETURN_IF_ERROR(
        moert::Prepare(*layer, source.desc, moert::WeightSource::kMapped, info.model_layer));
    *out = layer.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(layer)

extern "C" moert_status moert_layer_get_info(const moert_layer* layer, moert_layer_info* out,
                                             moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("layer", layer));
    MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("moert_layer_info", out));
    moert::WriteCallerStruct(layer->info, out);
    return {};
  });
}

extern "C" moert_status moert_layer_weight(const moert_layer* layer, moert_role role,
                                           int32_t expert, moert_matrix* out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("layer", layer));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    if (!layer->spec.trainable) {
      return moert::InvalidArgument("the layer was not made with MOERT_LAYER_FLAG_TRAINABLE");
    }
    const moert::Role* found = moert::FindRole(role);
    if (found == nullptr) {
      return moert::InvalidArgument("role %d is unknown; 1 to %d are accepted", role,
                                    moert::kNumRoles - 1);
    }
    int32_t local = 0;
    if (found->per_expert) {
      const auto& ids = layer->spec.local_experts;
      const auto place = std::find(ids.begin(), ids.end(), expert);
      if (place == ids.end()) {
        return moert::InvalidArgument("expert %d is not one of the %zu held by the layer", expert,
                                      ids.size());
      }
      local = static_cast<int32_t>(place - ids.begin());
    } else if (expert != 0) {
      return moert::InvalidArgument("expert is %d; %s is one matrix and takes 0", expert,
                                    found->name);
    }
    return layer->prepared->Weight(role, local, out);
  });
}

extern "C" moert_status moert_layer_workspace_size(const moert_layer* layer,
                                                   const moert_layer_forward_args* args,
                                                   uint64_t* out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert::LayerCall call;
    MOERT_RETURN_IF_ERROR(moert::ReadForwardArgs(layer, args, moert::Purpose::kSize, &call));
    *out = call.tokens == 0 ? 0 : layer->prepared->WorkspaceSize(call);
    return {};
  });
}

extern "C" moert_status moert_layer_forward(const moert_layer* layer, moert_stream* stream,
                                            const moert_layer_forward_args* args,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    moert::LayerCall call;
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    MOERT_RETURN_IF_ERROR(moert::ReadForwardArgs(layer, args, moert::Purpose::kRun, &call));
    MOERT_RETURN_IF_ERROR(moert::CheckSameDevice("layer", *layer, *stream));
    if (call.tokens == 0) return {};
    MOERT_RETURN_IF_ERROR(
        moert::ChooseWorkspace(*stream, layer->prepared->WorkspaceSize(call), &call.workspace));
    return layer->prepared->Forward(*stream->backend, call);
  });
}

extern "C" moert_status moert_layer_saved_size(const moert_layer*, const moert_layer_forward_args*,
                                               uint64_t*, moert_error* error) {
  return moert::NoTraining("moert_layer_saved_size").Report(error);
}

extern "C" moert_status moert_layer_backward_workspace_size(const moert_layer*,
                                                            const moert_layer_backward_args*,
                                                            uint64_t*, moert_error* error) {
  return moert::NoTraining("moert_layer_backward_workspace_size").Report(error);
}

extern "C" moert_status moert_layer_backward(const moert_layer*, moert_stream*,
                                             const moert_layer_backward_args*, moert_error* error) {
  return moert::NoTraining("moert_layer_backward").Report(error);
}
