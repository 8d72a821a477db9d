// SPDX-License-Identifier: Apache-2.0
// Gate ops: one kernel launch each.
#include <algorithm>

#include "backend/gpu/gpu_device.h"
#include "backend/gpu/gpu_stream.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

bool IsVector(const Matrix& matrix) {
  const int64_t vector = 16 / ElementSize(matrix.dtype);
  return !matrix.present() || (reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
                               (matrix.rows <= 1 || matrix.row_stride % vector == 0));
}

class GpuGate final : public PreparedGate {
 public:
  GpuGate(const GpuDevice& device, const GateSpec& spec)
      : device_(device),
        spec_(spec),
        kernel_(OfDtype(KernelAfter(Kernel::gate_multiply_f32, spec.kind), spec.dtype)),
        uses_(device) {}

  Status Run(BackendStream& stream, const GateCall& call) const override {
    auto& gpu_stream = static_cast<GpuStream&>(stream);
    const bool element_wise = spec_.kind == MOERT_GATE_KIND_MULTIPLY;
    moert_gate_kernel_args args = {};
    args.x = call.x.data, args.g = call.g.data, args.h = call.h.data, args.w = call.w.data;
    args.acc = call.acc.data;
    args.out = call.out.data;
    args.rows = call.tokens;
    args.width = spec_.width;
    args.linear_width = spec_.linear_width;
    args.x_stride = call.x.row_stride;
    args.g_stride = call.g.row_stride;
    args.h_stride = call.h.row_stride;
    args.acc_stride = call.acc.row_stride;
    args.out_stride = call.out.row_stride;
    args.vectors = IsVector(call.x) && IsVector(call.out) && IsVector(call.acc) &&
                   (!element_wise || IsVector(call.g));
    args.linear_vectors = IsVector(call.h) && IsVector(call.w);

    ContextScope scope(device_, CaptureMode::kAsIs);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    MOERT_RETURN_IF_ERROR(gpu_stream.BeginCall());
    uses_.Add(gpu_stream);
    return device_.Launch(kernel_, gpu_stream.handle(), Shape(call.tokens), &args);
  }

 private:
  LaunchShape Shape(int64_t tokens) const {
    const int64_t vector = 16 / ElementSize(spec_.dtype);
    const int64_t threads_needed = DivideUp(std::max(spec_.width, spec_.linear_width), vector);
    LaunchShape shape;
    shape.block_x = threads_needed <= 128 ? 128 : threads_needed <= 256 ? 256 : 512;
    shape.grid_x = std::min<int64_t>(tokens, int64_t{1} << 30);
    // Few wide rows: the columns are shared out too. A linear gate would repeat its product.
    if (spec_.kind != MOERT_GATE_KIND_ADD_LINEAR && tokens < device_.num_multiprocessors()) {
      shape.grid_y = std::min(DivideUp(threads_needed, shape.block_x),
                              DivideUp(2 * device_.num_multiprocessors(), tokens));
      shape.grid_y = std::min<int64_t>(shape.grid_y, 65535);
    }
    return shape;
  }

  const GpuDevice& device_;
  GateSpec spec_;
  Kernel kernel_;
  mutable StreamUses uses_;
};

}  // namespace

Status PrepareGpuGate(const GpuDevice& device, const GateSpec& spec, Owned<PreparedGate>* out) {
  *out = MakeOwned<GpuGate>(device.allocator(), device, spec);
  return Status();
}

}  // namespace moert
