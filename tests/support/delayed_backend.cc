// SPDX-License-Identifier: Apache-2.0
#include "delayed_backend.h"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "backend/registry.h"
#include "delayed_stream.h"

namespace moert::test {
namespace {

// Replaces device addresses by those of the bytes behind them. A kernel can reach nothing else.
Status Translate(const DelayedMemory& memory, std::initializer_list<Matrix*> matrices) {
  for (Matrix* matrix : matrices) {
    if (!matrix->present() || matrix->data == nullptr) continue;
    if (!memory.IsDevice(matrix->data)) {
      return Status::Make(MOERT_STATUS_DEVICE_ERROR, 0, "%p is not memory of the test device",
                          matrix->data);
    }
    matrix->data = memory.ToHost(matrix->data);
  }
  return Status();
}

Status Translate(const DelayedMemory& memory, Workspace* workspace) {
  if (workspace->size != 0 && !memory.IsDevice(workspace->data)) {
    return Status::Make(MOERT_STATUS_DEVICE_ERROR, 0,
                        "workspace %p is not memory of the test device", workspace->data);
  }
  workspace->data = memory.ToHost(workspace->data);
  return Status();
}

void Translate(const DelayedMemory& memory, std::initializer_list<WeightMatrix*> weights) {
  for (WeightMatrix* weight : weights) weight->data = memory.ToHost(weight->data);
}

void Translate(const DelayedMemory& memory, ExpertWeights* expert) {
  Translate(memory, {&expert->gate, &expert->up, &expert->down, &expert->gate_bias,
                     &expert->up_bias, &expert->down_bias});
}

RouterWeights Translated(const DelayedMemory& memory, RouterWeights weights) {
  Translate(memory, {&weights.router, &weights.router_bias, &weights.selection_bias,
                     &weights.input_scale, &weights.expert_scale});
  return weights;
}

LayerWeights Translated(const DelayedMemory& memory, LayerWeights weights) {
  weights.router = Translated(memory, weights.router);
  for (ExpertWeights& expert : weights.experts) Translate(memory, &expert);
  Translate(memory, &weights.shared);
  Translate(memory, {&weights.shared_expert_gate, &weights.latent_in, &weights.latent_out});
  return weights;
}

// The device has no use for mapped files: it copies.
WeightSource OnDevice(WeightSource source) {
  return source == WeightSource::kMapped ? WeightSource::kCopy : source;
}

class DelayedRouter final : public PreparedRouter {
 public:
  DelayedRouter(const DelayedMemory& memory, Owned<PreparedRouter> inner)
      : memory_(memory), inner_(std::move(inner)) {}
  uint64_t WorkspaceSize(const RouteCall& call) const override {
    return inner_->WorkspaceSize(call);
  }
  Status Route(BackendStream& stream, const RouteCall& given) const override {
    RouteCall call = given;
    MOERT_RETURN_IF_ERROR(Translate(memory_, {&call.x, &call.given_logits, &call.ids, &call.weights,
                                              &call.logits, &call.expert_counts}));
    MOERT_RETURN_IF_ERROR(Translate(memory_, &call.workspace));
    static_cast<DelayedStream&>(stream).Enqueue(
        users_, [this, call](BackendStream& cpu) { return inner_->Route(cpu, call); });
    return Status();
  }

 private:
  const DelayedMemory& memory_;
  Owned<PreparedRouter> inner_;
  mutable Users users_;  // last, so that it waits before the rest goes
};

class DelayedExperts final : public PreparedExperts {
 public:
  DelayedExperts(const DelayedMemory& memory, Owned<PreparedExperts> inner)
      : memory_(memory), inner_(std::move(inner)) {}
  uint64_t WorkspaceSize(const ExpertsCall& call) const override {
    return inner_->WorkspaceSize(call);
  }
  Status Run(BackendStream& stream, const ExpertsCall& given) const override {
    ExpertsCall call = given;
    MOERT_RETURN_IF_ERROR(
        Translate(memory_, {&call.x, &call.y, &call.ids, &call.weights, &call.expert_counts}));
    MOERT_RETURN_IF_ERROR(Translate(memory_, &call.workspace));
    static_cast<DelayedStream&>(stream).Enqueue(
        users_, [this, call](BackendStream& cpu) { return inner_->Run(cpu, call); });
    return Status();
  }
  uint64_t weight_bytes() const override { return inner_->weight_bytes(); }
  Status Weight(moert_role role, int32_t expert, moert_matrix* out) const override {
    moert_matrix view = MOERT_MATRIX_INIT;
    MOERT_RETURN_IF_ERROR(inner_->Weight(role, expert, &view));
    view.data = memory_.ToDevice(view.data);
    if (!memory_.IsDevice(view.data)) return Internal("a weight lies outside the test device");
    *out = view;
    return Status();
  }

 private:
  const DelayedMemory& memory_;
  Owned<PreparedExperts> inner_;
  mutable Users users_;
};

class DelayedGate final : public PreparedGate {
 public:
  DelayedGate(const DelayedMemory& memory, Owned<PreparedGate> inner)
      : memory_(memory), inner_(std::move(inner)) {}
  Status Run(BackendStream& stream, const GateCall& given) const override {
    GateCall call = given;
    MOERT_RETURN_IF_ERROR(
        Translate(memory_, {&call.x, &call.g, &call.h, &call.w, &call.acc, &call.out}));
    static_cast<DelayedStream&>(stream).Enqueue(
        users_, [this, call](BackendStream& cpu) { return inner_->Run(cpu, call); });
    return Status();
  }

 private:
  const DelayedMemory& memory_;
  Owned<PreparedGate> inner_;
  mutable Users users_;
};

void* AllocateBehind(void* memory, uint64_t bytes, uint64_t alignment) {
  if (alignment > 256) return nullptr;
  auto& device = *static_cast<DelayedMemory*>(memory);
  return device.ToHost(device.Allocate(bytes));
}
void FreeBehind(void* memory, void* block, uint64_t, uint64_t) {
  auto& device = *static_cast<DelayedMemory*>(memory);
  device.Free(device.ToDevice(block));
}
// What the CPU backend allocates for the device lies in the device's memory.
moert_allocator AllocatorBehind(DelayedMemory* memory) {
  moert_allocator out = MOERT_ALLOCATOR_INIT;
  out.user_data = memory;
  out.alloc = AllocateBehind;
  out.free = FreeBehind;
  return out;
}

class DelayedDevice final : public BackendDevice {
 public:
  explicit DelayedDevice(const BackendContext& context)
      : context_(context),
        callbacks_(AllocatorBehind(&memory_)),
        inner_allocator_(&callbacks_),
        cpu_backend_(MakeCpuBackend({&inner_allocator_, context.log, nullptr})) {}

  Status Open() {
    DeviceOptions options;
    options.cpu_threads = 1;
    MOERT_RETURN_IF_ERROR(cpu_backend_->OpenDevice(0, options, &cpu_));
    info_ = cpu_->info();
    info_.kind = MOERT_DEVICE_KIND_OTHER;
    std::snprintf(info_.id, sizeof info_.id, "test:0");
    std::snprintf(info_.name, sizeof info_.name, "delayed test device");
    return Status();
  }

  const moert_device_info& info() const override { return info_; }

  Status Allocate(uint64_t bytes, void** out) const override {
    *out = memory_.Allocate(bytes);
    if (*out != nullptr) return Status();
    return OutOfMemory("no %llu bytes on the test device", static_cast<unsigned long long>(bytes));
  }
  void Free(void* memory) const override { memory_.Free(memory); }
  Status AllocateHost(uint64_t bytes, void** out) const override {
    *out = std::malloc(bytes);
    return *out != nullptr ? Status() : OutOfMemory("no host memory");
  }
  void FreeHost(void* memory) const override { std::free(memory); }

  Status CreateStream(uint32_t, Owned<BackendStream>* out) override {
    Owned<BackendStream> cpu_stream;
    MOERT_RETURN_IF_ERROR(cpu_->CreateStream(0, &cpu_stream));
    *out = MakeOwned<DelayedStream>(*context_.allocator, memory_, std::move(cpu_stream));
    return Status();
  }
  Status ImportStream(void*, Owned<BackendStream>*) override {
    return Unsupported("the test device has no native streams");
  }
  Status CreateEvent(Owned<BackendEvent>* out) override {
    *out = MakeOwned<DelayedEvent>(*context_.allocator);
    return Status();
  }

  Status PrepareRouter(const RouterSpec& spec, const RouterWeights& weights, WeightSource source,
                       Owned<PreparedRouter>* out) override {
    Owned<PreparedRouter> inner;
    MOERT_RETURN_IF_ERROR(
        cpu_->PrepareRouter(spec, Translated(memory_, weights), OnDevice(source), &inner));
    *out = MakeOwned<DelayedRouter>(*context_.allocator, memory_, std::move(inner));
    return Status();
  }
  Status PrepareExperts(const LayerSpec& spec, const LayerWeights& weights, WeightSource source,
                        Owned<PreparedExperts>* out) override {
    Owned<PreparedExperts> inner;
    MOERT_RETURN_IF_ERROR(
        cpu_->PrepareExperts(spec, Translated(memory_, weights), OnDevice(source), &inner));
    *out = MakeOwned<DelayedExperts>(*context_.allocator, memory_, std::move(inner));
    return Status();
  }
  Status PrepareGate(const GateSpec& spec, Owned<PreparedGate>* out) override {
    Owned<PreparedGate> inner;
    MOERT_RETURN_IF_ERROR(cpu_->PrepareGate(spec, &inner));
    *out = MakeOwned<DelayedGate>(*context_.allocator, memory_, std::move(inner));
    return Status();
  }

 private:
  BackendContext context_;
  mutable DelayedMemory memory_;
  moert_allocator callbacks_;
  Allocator inner_allocator_;
  Owned<Backend> cpu_backend_;
  Owned<BackendDevice> cpu_;
  moert_device_info info_ = MOERT_DEVICE_INFO_INIT;
};

class DelayedBackend final : public Backend {
 public:
  explicit DelayedBackend(const BackendContext& context) : context_(context) {}
  const char* name() const override { return "test"; }
  uint32_t NumDevices(Status*) override { return 1; }
  Status DeviceInfo(uint32_t ordinal, moert_device_info* out) override {
    Owned<BackendDevice> device;
    MOERT_RETURN_IF_ERROR(OpenDevice(ordinal, {}, &device));
    *out = device->info();
    return Status();
  }
  Status OpenDevice(uint32_t ordinal, const DeviceOptions&, Owned<BackendDevice>* out) override {
    if (ordinal != 0) return Unavailable("there is one test device, not a number %u", ordinal);
    auto device = MakeOwned<DelayedDevice>(*context_.allocator, context_);
    MOERT_RETURN_IF_ERROR(device->Open());
    *out = std::move(device);
    return Status();
  }

 private:
  BackendContext context_;
};

}  // namespace

Owned<Backend> MakeDelayedBackend(const BackendContext& context) {
  return MakeOwned<DelayedBackend>(*context.allocator, context);
}

}  // namespace moert::test
