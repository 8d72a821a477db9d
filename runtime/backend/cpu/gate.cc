// SPDX-License-Identifier: Apache-2.0
// Gate ops: rows shared out in bands; bound by memory.
#include <algorithm>

#include "backend/cpu/device.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert::cpu {
namespace {

// Elements of one work item.
constexpr int64_t kBandElements = 64 * 1024;
// An output above this many bytes, and not also an input, is written past the caches.
constexpr int64_t kStreamBytes = 4 << 20;

const void* RowOf(const Matrix& matrix, int64_t row) {
  if (!matrix.present()) return nullptr;
  return static_cast<const char*>(matrix.data) +
         row * matrix.row_stride * ElementSize(matrix.dtype);
}

class CpuGate final : public PreparedGate {
 public:
  CpuGate(const DeviceParts& device, const GateSpec& spec) : device_(device), spec_(spec) {}
  ~CpuGate() override { uses_.WaitUntilUnused(); }

  Status Run(BackendStream& stream, const GateCall& call) const override {
    if (call.tokens == 0 || spec_.width == 0) return Status();
    return static_cast<CpuStream&>(stream).Enqueue(&uses_,
                                                   [this, call](StreamState&) { Execute(call); });
  }

 private:
  void Execute(const GateCall& call) const {
    const bool adds =
        spec_.kind == MOERT_GATE_KIND_ADD_ROWS || spec_.kind == MOERT_GATE_KIND_ADD_LINEAR;
    const bool in_place = call.out.data == call.x.data || (adds && call.out.data == call.acc.data);
    const int64_t out_bytes = call.tokens * spec_.width * ElementSize(spec_.dtype);
    const bool stream_out = !in_place && out_bytes > kStreamBytes;
    const int64_t rows = std::max<int64_t>(1, kBandElements / (spec_.width + spec_.linear_width));
    const int64_t items = DivideUp(call.tokens, rows);
    RunItems(*device_.scheduler, device_.scheduler->concurrency(), items,
             [&](uint32_t, int64_t item) {
               const int64_t end = std::min(call.tokens, (item + 1) * rows);
               for (int64_t t = item * rows; t < end; ++t) {
                 device_.kernels->gate({spec_.kind, spec_.dtype, spec_.width, spec_.linear_width,
                                        RowOf(call.x, t), RowOf(call.g, t), RowOf(call.h, t),
                                        RowOf(call.w, 0), adds ? RowOf(call.acc, t) : nullptr,
                                        const_cast<void*>(RowOf(call.out, t)), stream_out});
               }
               if (stream_out) device_.kernels->fence();
             });
  }

  const DeviceParts device_;
  const GateSpec spec_;
  mutable UseCount uses_;
};

}  // namespace

Status PrepareGate(const DeviceParts& device, const GateSpec& spec, Owned<PreparedGate>* out) {
  *out = MakeOwned<CpuGate>(*device.allocator, device, spec);
  return Status();
}

}  // namespace moert::cpu
