// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"
#include "layer/arguments.h"
#include "layer/resolve.h"

namespace moert {
namespace {

Status ReadRouteArgs(const moert_router* router, const moert_router_forward_args* args,
                     Purpose purpose, RouteCall* call) {
  MOERT_RETURN_IF_ERROR(CheckNotNull("router", router));
  moert_router_forward_args full;
  MOERT_RETURN_IF_ERROR(ReadRequiredStruct("moert_router_forward_args", args, &full));
  return ResolveRoute(router->spec, router->spec.hidden != 0, full, purpose, call);
}

}  // namespace
}  // namespace moert

extern "C" moert_status moert_router_create(const moert_device* device,
                                            const moert_router_desc* desc, moert_router** out,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("moert_router_desc", desc));
    moert_router_desc full;
    moert::Status read = moert::ReadCallerStruct("moert_router_desc", *desc, &full);
    moert::FreeCallback free(full.free_fn, full.user_data);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    auto router =
        moert::Ref<moert_router>::Adopt(moert::MakeHandle<moert_router>(device->allocator()));
    router->device = moert::Ref<const moert_device>::Retain(device);
    const moert_device_info& info = device->backend->info();
    moert::RouterWeights weights;
    MOERT_RETURN_IF_ERROR(
        moert::ResolveRouter(full, {info.max_experts, info.max_top_k}, &router->spec, &weights));
    const bool borrow = (full.flags & MOERT_LAYER_FLAG_BORROW_WEIGHTS) != 0;
    if (borrow) router->weights_free = std::move(free);
    MOERT_RETURN_IF_ERROR(device->backend->PrepareRouter(
        router->spec, weights, borrow ? moert::WeightSource::kBorrow : moert::WeightSource::kCopy,
        &router->prepared));
    *out = router.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(router)

extern "C" moert_status moert_router_workspace_size(const moert_router* router,
                                                    const moert_router_forward_args* args,
                                                    uint64_t* out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert::RouteCall call;
    MOERT_RETURN_IF_ERROR(moert::ReadRouteArgs(router, args, moert::Purpose::kSize, &call));
    *out = call.tokens == 0 ? 0 : router->prepared->WorkspaceSize(call);
    return {};
  });
}

extern "C" moert_status moert_router_forward(const moert_router* router, moert_stream* stream,
                                             const moert_router_forward_args* args,
                                             moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    moert::RouteCall call;
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    MOERT_RETURN_IF_ERROR(moert::ReadRouteArgs(router, args, moert::Purpose::kRun, &call));
    MOERT_RETURN_IF_ERROR(moert::CheckSameDevice("router", *router, *stream));
    if (call.tokens == 0) return {};
    MOERT_RETURN_IF_ERROR(
        moert::ChooseWorkspace(*stream, router->prepared->WorkspaceSize(call), &call.workspace));
    return router->prepared->Route(*stream->backend, call);
  });
}
