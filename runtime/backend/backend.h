// SPDX-License-Identifier: Apache-2.0
// The interface a backend implements. layer/ and api/ check arguments and compose; a backend owns
// memory, streams and events of its devices and runs routers, experts and gates on them.
//
// Rules for all of it. Prepared objects are immutable: their const functions run concurrently on
// any number of streams. A call on a stream enqueues and returns: it allocates nothing and waits
// for nothing. A destructor waits for the work that still uses the object. Outputs of a call never
// overlap its inputs, except gate's out, which may be x or acc.
#ifndef MOERT_BACKEND_BACKEND_H_
#define MOERT_BACKEND_BACKEND_H_

#include <cstdint>

#include "backend/spec.h"
#include "core/allocator.h"
#include "core/log.h"
#include "core/scheduler.h"
#include "core/status.h"

namespace moert {

class BackendEvent;

class BackendStream {
 public:
  virtual ~BackendStream() = default;  // waits
  virtual Status Copy(void* destination, const void* source, uint64_t bytes) = 0;
  virtual Status WaitEvent(const BackendEvent& event) = 0;
  // Waits for all work; then as Check.
  virtual Status Synchronize() = 0;
  // The sticky status: read and cleared, without waiting. A lost device stays.
  virtual Status Check() = 0;
  virtual Status Reserve(uint64_t bytes) = 0;
  // The stream's own scratch. Fails while a capture is running: then only a caller's workspace will
  // do.
  virtual Status Scratch(Workspace* out) = 0;
  virtual void* native() const { return nullptr; }
};

class BackendEvent {
 public:
  virtual ~BackendEvent() = default;
  virtual Status Record(BackendStream& stream) = 0;
  virtual Status Query() const = 0;  // NOT_READY, or the stream's sticky status without clearing it
  virtual Status Wait() const = 0;
};

// Top-k gating, ready to run.
class PreparedRouter {
 public:
  virtual ~PreparedRouter() = default;
  virtual uint64_t WorkspaceSize(const RouteCall& call) const = 0;
  virtual Status Route(BackendStream& stream, const RouteCall& call) const = 0;
};

// The experts, the latent projections and the shared expert of a layer, ready to run. Ids that are
// not held add nothing; ids outside -1..E-1 add nothing and set the stream's sticky status to
// INVALID_ROUTING, naming token, slot and id.
class PreparedExperts {
 public:
  virtual ~PreparedExperts() = default;
  virtual uint64_t WorkspaceSize(const ExpertsCall& call) const = 0;
  virtual Status Run(BackendStream& stream, const ExpertsCall& call) const = 0;
  // Device memory that the weights take.
  virtual uint64_t weight_bytes() const = 0;
  // As moert_layer_weight; `expert` is a local index. Trainable layers only.
  virtual Status Weight(moert_role role, int32_t expert, moert_matrix* out) const = 0;
};

class PreparedGate {
 public:
  virtual ~PreparedGate() = default;
  virtual Status Run(BackendStream& stream, const GateCall& call) const = 0;
};

// A whole layer.
class PreparedLayer {
 public:
  virtual ~PreparedLayer() = default;
  virtual uint64_t WorkspaceSize(const LayerCall& call) const = 0;
  virtual Status Forward(BackendStream& stream, const LayerCall& call) const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual Status Weight(moert_role role, int32_t expert, moert_matrix* out) const = 0;
};

class BackendDevice {
 public:
  virtual ~BackendDevice() = default;
  virtual const moert_device_info& info() const = 0;

  virtual Status Allocate(uint64_t bytes, void** out) const = 0;
  virtual void Free(void* memory) const = 0;
  virtual Status AllocateHost(uint64_t bytes, void** out) const = 0;
  virtual void FreeHost(void* memory) const = 0;

  virtual Status CreateStream(uint32_t flags, Owned<BackendStream>* out) = 0;
  virtual Status ImportStream(void* native, Owned<BackendStream>* out) = 0;
  virtual Status CreateEvent(Owned<BackendEvent>* out) = 0;

  // What the device cannot do is refused here, not when a call is made.
  virtual Status PrepareRouter(const RouterSpec& spec, const RouterWeights& weights,
                               WeightSource source, Owned<PreparedRouter>* out) = 0;
  virtual Status PrepareExperts(const LayerSpec& spec, const LayerWeights& weights,
                                WeightSource source, Owned<PreparedExperts>* out) = 0;
  virtual Status PrepareGate(const GateSpec& spec, Owned<PreparedGate>* out) = 0;
  // A fused whole, where the backend has one that beats route-then-experts; leaves `out` null if
  // not.
  virtual Status PrepareLayer(const LayerSpec& spec, const LayerWeights& weights,
                              WeightSource source, Owned<PreparedLayer>* out) {
    (void)spec, (void)weights, (void)source, (void)out;
    return Status();
  }
};

// What a backend gets from the runtime; outlives the backend.
struct BackendContext {
  Allocator* allocator;
  const Logger* log;
  const moert_scheduler* host_scheduler;  // null: none
};

struct DeviceOptions {
  bool ignore_environment = false;
  const char* kernel_path = nullptr;
  const void* kernel_data = nullptr;
  uint64_t kernel_size = 0;
  uint32_t cpu_threads = 0;  // 0: all
};

// A kind of device. Made once a runtime; looks for its driver on first use.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // the part of a device id before the colon
  // 0 when the driver is absent; `why` then says what was tried.
  virtual uint32_t NumDevices(Status* why) = 0;
  virtual Status DeviceInfo(uint32_t ordinal, moert_device_info* out) = 0;
  virtual Status OpenDevice(uint32_t ordinal, const DeviceOptions& options,
                            Owned<BackendDevice>* out) = 0;
};

}  // namespace moert

#endif  // MOERT_BACKEND_BACKEND_H_
