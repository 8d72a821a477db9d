// SPDX-License-Identifier: Apache-2.0
// The types behind the ABI's opaque handles. Each keeps what it was made from alive; members are
// destroyed from last to first, so what uses another stands below it.
#ifndef MOERT_API_HANDLES_H_
#define MOERT_API_HANDLES_H_

#include "backend/backend.h"
#include "backend/registry.h"
#include "core/free_callback.h"
#include "core/handle.h"
#include "manifest/manifest.h"

struct moert_runtime final : moert::Handle {
  moert_runtime(const moert_allocator* allocator_desc, const moert_log_sink* log_desc,
                const moert_scheduler* scheduler_desc);

  // Called after everything below is gone; the allocator's, after the runtime's own memory is.
  moert::FreeCallback log_free;
  moert::FreeCallback scheduler_free;
  mutable moert::Allocator allocator;
  moert::Logger log;
  moert_scheduler scheduler;  // the host's; parallel_for null: none
  mutable moert::Registry registry;

  using Handle::set_allocator;
  using Handle::set_last_free;
};

struct moert_device final : moert::Handle {
  moert::Ref<const moert_runtime> runtime;
  moert::Owned<moert::BackendDevice> backend;

  moert::Allocator& allocator() const { return runtime->allocator; }
  const Handle* parent() const override { return runtime.get(); }
};

struct moert_stream final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::Owned<moert::BackendStream> backend;

  const Handle* parent() const override { return device.get(); }
};

struct moert_event final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::Owned<moert::BackendEvent> backend;

  const Handle* parent() const override { return device.get(); }
};

struct moert_manifest final : moert::Handle {
  moert::Ref<const moert_runtime> runtime;
  moert::FreeCallback files_free;
  moert::Owned<moert::Manifest> manifest;

  const Handle* parent() const override { return runtime.get(); }
};

struct moert_layer final : moert::Handle {
  moert_layer(moert::Ref<const moert_device> device_ref, moert::FreeCallback free)
      : device(std::move(device_ref)), weights_free(std::move(free)), spec(&device->allocator()) {}

  moert::Ref<const moert_device> device;
  moert::Ref<const moert_manifest> manifest;  // null: from pointers
  moert::FreeCallback weights_free;
  moert::LayerSpec spec;
  bool has_router = false;
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  moert::Owned<moert::PreparedLayer> prepared;

  const Handle* parent() const override { return device.get(); }
};

struct moert_router final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::FreeCallback weights_free;
  moert::RouterSpec spec;
  moert::Owned<moert::PreparedRouter> prepared;

  const Handle* parent() const override { return device.get(); }
};

struct moert_gate final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::GateSpec spec;
  moert::Owned<moert::PreparedGate> prepared;

  const Handle* parent() const override { return device.get(); }
};

namespace moert {

// Two objects that a call uses together must be of one device.
template <class T>
Status CheckSameDevice(const char* name, const T& object, const moert_stream& stream) {
  if (object.device.get() == stream.device.get()) return Status();
  return InvalidArgument("the stream is of device %s, the %s of another %s",
                         stream.device->backend->info().id, name,
                         object.device->backend->info().id);
}

// The caller's workspace, or the stream's scratch where it gave none, if it is large enough.
Status ChooseWorkspace(const moert_stream& stream, uint64_t needed, Workspace* workspace);

}  // namespace moert

// Defines moert_NAME_retain and moert_NAME_release.
#define MOERT_DEFINE_REFERENCE_COUNT(NAME)                             \
  extern "C" void moert_##NAME##_retain(const moert_##NAME* handle) {  \
    if (handle != nullptr) handle->Retain();                           \
  }                                                                    \
  extern "C" void moert_##NAME##_release(const moert_##NAME* handle) { \
    if (handle != nullptr) handle->Release();                          \
  }

#endif  // MOERT_API_HANDLES_H_
