// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"

namespace moert {
namespace {

// The runtime's parts as the caller gave them; frees what it took unless the runtime is made.
struct Parts {
  moert_allocator allocator = MOERT_ALLOCATOR_INIT;
  moert_log_sink log = MOERT_LOG_SINK_INIT;
  moert_scheduler scheduler = MOERT_SCHEDULER_INIT;
  FreeCallback allocator_free, log_free, scheduler_free;
};

template <class T>
Status Take(const char* name, const T* in, T* out, FreeCallback* free) {
  Status status = ReadOptionalStruct(name, in, out);
  *free = FreeCallback(out->free_fn, out->user_data);
  return status;
}

Status TakeParts(const moert_runtime_desc& desc, Parts* parts) {
  // All are taken before any is judged, so that each free_fn is called also on failure.
  Status allocator =
      Take("moert_allocator", desc.allocator, &parts->allocator, &parts->allocator_free);
  Status log = Take("moert_log_sink", desc.log, &parts->log, &parts->log_free);
  Status scheduler =
      Take("moert_scheduler", desc.scheduler, &parts->scheduler, &parts->scheduler_free);
  MOERT_RETURN_IF_ERROR(std::move(allocator));
  MOERT_RETURN_IF_ERROR(std::move(log));
  MOERT_RETURN_IF_ERROR(std::move(scheduler));
  if (desc.allocator != nullptr &&
      (parts->allocator.alloc == nullptr || parts->allocator.free == nullptr)) {
    return InvalidArgument("moert_allocator.%s is NULL; both alloc and free are needed",
                           parts->allocator.alloc == nullptr ? "alloc" : "free");
  }
  if (parts->allocator.reserved != 0) {
    return InvalidArgument("moert_allocator.reserved is %u; it must be 0",
                           parts->allocator.reserved);
  }
  if (desc.log != nullptr && parts->log.write == nullptr) {
    return InvalidArgument("moert_log_sink.write is NULL");
  }
  if (desc.scheduler != nullptr && parts->scheduler.parallel_for == nullptr) {
    return InvalidArgument("moert_scheduler.parallel_for is NULL");
  }
  return Status();
}

}  // namespace
}  // namespace moert

moert_runtime::moert_runtime(const moert_allocator* allocator_desc, const moert_log_sink* log_desc,
                             const moert_scheduler* scheduler_desc)
    : allocator(allocator_desc),
      log(log_desc),
      scheduler(*scheduler_desc),
      registry({&allocator, &log, scheduler.parallel_for != nullptr ? &scheduler : nullptr}) {}

extern "C" moert_status moert_runtime_create(const moert_runtime_desc* desc, moert_runtime** out,
                                             moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    moert_runtime_desc full;
    moert::Status read = moert::ReadOptionalStruct("moert_runtime_desc", desc, &full);
    moert::Parts parts;
    moert::Status taken = moert::TakeParts(full, &parts);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(std::move(taken));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    if (full.flags != 0) {
      return moert::InvalidArgument("moert_runtime_desc.flags is 0x%x; it must be 0", full.flags);
    }
    moert::Allocator first(&parts.allocator);
    auto runtime = moert::Ref<moert_runtime>::Adopt(
        moert::MakeHandle<moert_runtime>(first, &parts.allocator, &parts.log, &parts.scheduler));
    runtime->set_allocator(runtime->allocator);
    runtime->log_free = std::move(parts.log_free);
    runtime->scheduler_free = std::move(parts.scheduler_free);
    runtime->set_last_free(std::move(parts.allocator_free));
    *out = runtime.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(runtime)

extern "C" moert_status moert_runtime_num_devices(const moert_runtime* runtime, uint32_t* out,
                                                  moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("runtime", runtime));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    *out = runtime->registry.NumDevices();
    return {};
  });
}

extern "C" moert_status moert_runtime_device_info(const moert_runtime* runtime, uint32_t index,
                                                  moert_device_info* out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("runtime", runtime));
    MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("moert_device_info", out));
    moert_device_info info = MOERT_DEVICE_INFO_INIT;
    MOERT_RETURN_IF_ERROR(runtime->registry.DeviceInfo(index, &info));
    moert::WriteCallerStruct(info, out);
    return {};
  });
}
