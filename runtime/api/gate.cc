// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"
#include "layer/arguments.h"
#include "layer/resolve.h"

extern "C" moert_status moert_gate_create(const moert_device* device, const moert_gate_desc* desc,
                                          moert_gate** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert_gate_desc full;
    MOERT_RETURN_IF_ERROR(moert::ReadRequiredStruct("moert_gate_desc", desc, &full));
    auto gate = moert::Ref<moert_gate>::Adopt(moert::MakeHandle<moert_gate>(device->allocator()));
    gate->device = moert::Ref<const moert_device>::Retain(device);
    MOERT_RETURN_IF_ERROR(moert::ResolveGate(full, &gate->spec));
    MOERT_RETURN_IF_ERROR(device->backend->PrepareGate(gate->spec, &gate->prepared));
    *out = gate.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(gate)

extern "C" moert_status moert_gate_forward(const moert_gate* gate, moert_stream* stream,
                                           const moert_gate_forward_args* args,
                                           moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("gate", gate));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    moert_gate_forward_args full;
    MOERT_RETURN_IF_ERROR(moert::ReadRequiredStruct("moert_gate_forward_args", args, &full));
    moert::GateCall call;
    MOERT_RETURN_IF_ERROR(moert::ResolveGateCall(gate->spec, full, &call));
    MOERT_RETURN_IF_ERROR(moert::CheckSameDevice("gate", *gate, *stream));
    if (call.tokens == 0) return {};
    return gate->prepared->Run(*stream->backend, call);
  });
}
