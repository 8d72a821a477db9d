// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"

extern "C" moert_status moert_event_create(const moert_device* device, moert_event** out,
                                           moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    auto event =
        moert::Ref<moert_event>::Adopt(moert::MakeHandle<moert_event>(device->allocator()));
    event->device = moert::Ref<const moert_device>::Retain(device);
    MOERT_RETURN_IF_ERROR(device->backend->CreateEvent(&event->backend));
    *out = event.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(event)

extern "C" moert_status moert_event_record(moert_event* event, moert_stream* stream,
                                           moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("event", event));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    MOERT_RETURN_IF_ERROR(moert::CheckSameDevice("event", *event, *stream));
    return event->backend->Record(*stream->backend);
  });
}

extern "C" moert_status moert_event_query(const moert_event* event, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("event", event));
    return event->backend->Query();
  });
}

extern "C" moert_status moert_event_wait(const moert_event* event, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("event", event));
    return event->backend->Wait();
  });
}
