// SPDX-License-Identifier: Apache-2.0
// Top-k gating on a GPU.
#ifndef MOERT_BACKEND_GPU_GPU_ROUTER_H_
#define MOERT_BACKEND_GPU_GPU_ROUTER_H_

#include "backend/gpu/gpu_linear.h"
#include "backend/gpu/gpu_stream.h"
#include "backend/gpu/workspace_layout.h"

namespace moert {

// Where a call's intermediates lie.
struct RouterParts {
  float* logits = nullptr;
  int64_t logits_stride = 0;
  float* row_scale = nullptr;
  void* x = nullptr;  // room of CopyBytes, of no use once the logits are there
};

class GpuRouter final : public PreparedRouter {
 public:
  GpuRouter(const GpuDevice& device, const RouterSpec& spec)
      : device_(device), spec_(spec), weights_(device.allocator()), uses_(device) {}
  Status Prepare(const RouterWeights& weights);

  uint64_t WorkspaceSize(const RouteCall& call) const override;
  Status Route(BackendStream& stream, const RouteCall& call) const override;

  // The steps of Route, for a layer that does them itself; the context is current.
  uint64_t CopyBytes(const RouteCall& call) const;
  RouterParts Carve(const RouteCall& call, WorkspaceLayout* layout) const;  // all but x
  Status Logits(GpuStream& stream, const RouteCall& call, const RouterParts& parts) const;
  moert_top_k_kernel_args ChoiceArgs(const RouteCall& call, const RouterParts& parts) const;
  Status Choose(GpuStreamHandle stream, const moert_top_k_kernel_args& args) const;

 private:
  int64_t experts() const { return spec_.routing.num_experts; }
  bool rms() const { return (spec_.routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0; }
  int64_t padded_hidden() const { return (spec_.hidden + 7) / 8 * 8; }

  Status LoadVectors(const RouterWeights& weights);
  Status FewLogits(GpuStreamHandle stream, const RouteCall& call, const RouterParts& parts) const;
  Status ManyLogits(GpuStreamHandle stream, const RouteCall& call, const RouterParts& parts) const;

  const GpuDevice& device_;
  RouterSpec spec_;
  LinearWeights weights_;
  GpuMemory vectors_;  // the following, in float32
  float *bias_ = nullptr, *selection_bias_ = nullptr, *expert_scale_ = nullptr,
        *input_scale_ = nullptr;
  mutable StreamUses uses_;  // its destructor waits, so it stands last
};

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_ROUTER_H_
