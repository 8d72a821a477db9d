// SPDX-License-Identifier: Apache-2.0
// The experts of a layer on a GPU: the weights it holds, the plan of a call and its launches.
//
// A call sorts its slots by expert and then takes one of two ways, chosen by tokens, top_k and
// shapes before anything runs: few tokens stream the weights through registers and sum a token's
// slots in the second product; many go tile by tile, store each slot's part and add the parts
// afterwards.
#ifndef MOERT_BACKEND_GPU_GPU_EXPERTS_H_
#define MOERT_BACKEND_GPU_GPU_EXPERTS_H_

#include "backend/gpu/gpu_linear.h"
#include "backend/gpu/gpu_stream.h"

namespace moert {

// How a call with so many tokens runs.
struct ExpertsPlan {
  bool streams = false;
  LinearPath first = LinearPath::kGeneric, second = LinearPath::kGeneric;
  int64_t tokens = 0, slots = 0;
  int32_t tile_positions = 0;
  int64_t max_tiles = 0;
  int32_t splits = 1;                         // of the second product's depth, when streaming
  int32_t group_blocks = 0, group_chunk = 0;  // many slots; 0: one block sorts
};

// Where a call's intermediates lie.
struct ExpertsParts {
  int32_t *position_of, *slot_of, *num_tiles, *num_positions, *block_counts;
  int64_t* block_offence;
  float* position_weight;
  moert_tile* tiles;
  void *x, *latent, *scaled, *inner, *parts, *latent_sum;
  float *latent_out, *shared_out, *shared_scale;
  uint64_t size;
};

class GpuExperts final : public PreparedExperts {
 public:
  GpuExperts(const GpuDevice& device, const LayerSpec& spec);
  Status Prepare(const LayerWeights& weights, WeightSource source);

  uint64_t WorkspaceSize(const ExpertsCall& call) const override;
  Status Run(BackendStream& stream, const ExpertsCall& call) const override;
  // As Run, the context being current; with `choice`, which FitsChoice allowed, the choice of
  // experts is made in the launch that sorts its slots.
  Status Enqueue(GpuStream& stream, const ExpertsCall& call,
                 const moert_top_k_kernel_args* choice) const;
  bool FitsChoice(int64_t tokens) const;
  uint64_t weight_bytes() const override;
  Status Weight(moert_role role, int32_t expert, moert_matrix* out) const override;

 private:
  // One call under way.
  struct Job {
    const ExpertsCall& call;
    const ExpertsPlan& plan;
    const ExpertsParts& parts;
    GpuStreamHandle stream;
    moert_stream_status* status;
    const moert_top_k_kernel_args* choice;
    Matrix x;         // of the layer, rows readable as vectors where that matters
    Matrix expert_x;  // of the experts: x, or the latent
  };

  bool input_side() const { return spec_.weight_application == MOERT_WEIGHT_APPLICATION_INPUT; }
  bool has_shared(const ExpertsCall& call) const {
    return shared_second_.present() && !call.skip_shared;
  }
  // What a slot's part is stored as: only bfloat16 may narrow it before the sum.
  moert_dtype part_dtype() const {
    return spec_.dtype == MOERT_DTYPE_BFLOAT16 ? MOERT_DTYPE_BFLOAT16 : MOERT_DTYPE_FLOAT32;
  }
  int64_t element() const;
  bool may_copy_x() const;

  ExpertsPlan MakePlan(int64_t tokens) const;
  bool MayStream(int64_t tokens, int64_t slots) const;
  void PlanStreaming(ExpertsPlan* plan) const;
  ExpertsParts Carve(const ExpertsPlan& plan, void* base) const;

  Status RunJob(Job& job) const;
  Status PrepareRows(Job& job) const;
  Status Group(const Job& job) const;
  Status ChooseAndGroup(const Job& job, const moert_group_kernel_args& group) const;
  Status Shared(const Job& job) const;
  Status SharedScale(const Job& job) const;
  Status First(const Job& job) const;
  Status Second(const Job& job) const;
  Status SecondStreaming(const Job& job) const;
  Status Combine(const Job& job, const void* parts, moert_dtype part_dtype, int64_t part_stride,
                 bool one_part, const Matrix& y, int64_t padded_width, bool last) const;
  Status Dense(GpuStreamHandle stream, const LinearWeights& weights, const Matrix& rows,
               const moert_activation* activation, void* out, moert_dtype out_dtype,
               int64_t out_stride) const;

  const GpuDevice& device_;
  LayerSpec spec_;
  LinearWeights first_, second_, shared_first_, shared_second_, latent_in_, latent_out_;
  GpuMemory shared_gate_;  // [H]
  moert_dtype shared_gate_dtype_ = MOERT_DTYPE_NONE;
  GpuMemory local_of_;       // [E]
  mutable StreamUses uses_;  // its destructor waits, so it stands last
};

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_EXPERTS_H_
