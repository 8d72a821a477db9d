// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "api/handles.h"
#include "api/shell.h"

namespace moert {
namespace {

Ref<moert_stream> MakeStream(const moert_device* device) {
  auto stream = Ref<moert_stream>::Adopt(MakeHandle<moert_stream>(device->allocator()));
  stream->device = Ref<const moert_device>::Retain(device);
  return stream;
}

bool Overlap(const void* a, const void* b, uint64_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second ? second - first < bytes : first - second < bytes;
}

}  // namespace

Status ChooseWorkspace(const moert_stream& stream, uint64_t needed, Workspace* workspace) {
  const bool given = workspace->data != nullptr;
  if (!given && needed != 0) MOERT_RETURN_IF_ERROR(stream.backend->Scratch(workspace));
  if (workspace->size >= needed) return Status();
  return Status::Make(MOERT_STATUS_WORKSPACE_TOO_SMALL, static_cast<int64_t>(needed),
                      given ? "workspace_size is %" PRIu64 "; this call needs %" PRIu64 " bytes"
                            : "the stream has %" PRIu64
                              " bytes of scratch; this call needs %" PRIu64
                              " bytes: pass a workspace or call moert_stream_reserve",
                      workspace->size, needed);
}

}  // namespace moert

extern "C" moert_status moert_stream_create(const moert_device* device,
                                            const moert_stream_desc* desc, moert_stream** out,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert_stream_desc full;
    MOERT_RETURN_IF_ERROR(moert::ReadOptionalStruct("moert_stream_desc", desc, &full));
    if ((full.flags & ~uint32_t{MOERT_STREAM_FLAG_ASYNC}) != 0) {
      return moert::InvalidArgument("moert_stream_desc.flags 0x%x has unknown bits; known are 0x1",
                                    full.flags);
    }
    moert::Ref<moert_stream> stream = moert::MakeStream(device);
    MOERT_RETURN_IF_ERROR(device->backend->CreateStream(full.flags, &stream->backend));
    if (full.scratch_bytes != 0) {
      MOERT_RETURN_IF_ERROR(stream->backend->Reserve(full.scratch_bytes));
    }
    *out = stream.release();
    return {};
  });
}

extern "C" moert_status moert_stream_import(const moert_device* device, void* native,
                                            moert_stream** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert::Ref<moert_stream> stream = moert::MakeStream(device);
    MOERT_RETURN_IF_ERROR(device->backend->ImportStream(native, &stream->backend));
    *out = stream.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(stream)

extern "C" void* moert_stream_native(const moert_stream* stream) {
  return stream != nullptr ? stream->backend->native() : nullptr;
}

extern "C" moert_status moert_stream_copy(moert_stream* stream, void* destination,
                                          const void* source, uint64_t bytes, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    if (bytes == 0) return {};
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("destination", destination));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("source", source));
    if (moert::Overlap(destination, source, bytes)) {
      return moert::InvalidArgument("source and destination overlap within %" PRIu64 " bytes",
                                    bytes);
    }
    return stream->backend->Copy(destination, source, bytes);
  });
}

extern "C" moert_status moert_stream_reserve(moert_stream* stream, uint64_t bytes,
                                             moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    return stream->backend->Reserve(bytes);
  });
}

extern "C" moert_status moert_stream_synchronize(moert_stream* stream, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    return stream->backend->Synchronize();
  });
}

extern "C" moert_status moert_stream_check(moert_stream* stream, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    return stream->backend->Check();
  });
}

extern "C" moert_status moert_stream_wait_event(moert_stream* stream, const moert_event* event,
                                                moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("stream", stream));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("event", event));
    MOERT_RETURN_IF_ERROR(moert::CheckSameDevice("event", *event, *stream));
    return stream->backend->WaitEvent(*event->backend);
  });
}
