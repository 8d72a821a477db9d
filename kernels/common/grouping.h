// SPDX-License-Identifier: Apache-2.0
// Sorts the slots of a call by expert, in token order within an expert, and lists the tiles that
// the grouped products take. Counts stay on the device. Few slots: one block. Many: count, scan,
// scatter. A slot with an id outside -1..E-1 adds nothing; the first such slot goes to the stream's
// status.
#ifndef MOERT_KERNELS_COMMON_GROUPING_H_
#define MOERT_KERNELS_COMMON_GROUPING_H_

#include "kernels/common/element.h"
#include "kernels/common/top_k.h"

namespace moert {

constexpr int kGroupThreads = 1024;
constexpr long long kNoOffence = 0x7fffffffffffffffLL;

__device__ __forceinline__ int32_t SlotId(const moert_group_kernel_args& args, int64_t slot) {
  const int64_t token = slot / args.top_k;
  return args.ids[token * args.ids_stride + (slot - token * args.top_k)];
}
__device__ __forceinline__ float SlotWeight(const moert_group_kernel_args& args, int64_t slot) {
  const int64_t token = slot / args.top_k;
  return args.weights[token * args.weights_stride + (slot - token * args.top_k)];
}

// Only one kernel of a stream runs at a time, so a plain test and write will do.
__device__ __forceinline__ void RaiseStatus(const moert_group_kernel_args& args, int64_t slot) {
  volatile moert_stream_status* status = args.status;
  if (status->raised != 0) return;
  status->id = SlotId(args, slot);
  status->slot = slot;
  status->num_experts = args.num_experts;
  status->top_k = args.top_k;
  FenceSystem();
  status->raised = 1;
}

// Inclusive sum over the threads of a block of kGroupThreads; `sums` holds a value a warp.
template <class T>
__device__ __forceinline__ T BlockScan(T value, T* sums) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int i = 1; i < kWarp; i <<= 1) {
    const T other = ShuffleUp(value, i);
    if (lane >= i) value += other;
  }
  if (lane == kWarp - 1) sums[warp] = value;
  __syncthreads();
  // Every warp sums the warps before it.
  constexpr int kWarps = kGroupThreads / kWarp;
  T before = lane < kWarps ? sums[lane] : 0;
#pragma unroll
  for (int i = 1; i < kWarps; i <<= 1) {
    const T other = ShuffleUp(before, i);
    if (lane >= i) before += other;
  }
  before = ShuffleFrom(before, warp == 0 ? 0 : warp - 1);
  return warp == 0 ? value : value + before;
}

// From the count of each expert (thread e: expert e) and its place among the local ones: its first
// position and its tiles. `sums`: shared, a value a warp.
__device__ __forceinline__ int ListTiles(const moert_group_kernel_args& args, int count,
                                         int32_t local, unsigned long long* sums) {
  const int num_tiles = (count + args.tile_positions - 1) / args.tile_positions;
  // Positions and tiles in one sum.
  const unsigned long long both =
      static_cast<unsigned long long>(num_tiles) << 32 | static_cast<unsigned>(count);
  const unsigned long long scan = BlockScan(both, sums);
  const int last = static_cast<int>(scan & 0xffffffffu), last_tile = static_cast<int>(scan >> 32);
#pragma unroll 1
  for (int i = 0; i < num_tiles; ++i) {
    // Even tiles: a nearly empty last one would cost as much as a full one.
    const int begin = static_cast<int>(int64_t{count} * i / num_tiles);
    const int end = static_cast<int>(int64_t{count} * (i + 1) / num_tiles);
    args.tiles[last_tile - num_tiles + i] = moert_tile{local, last - count + begin, end - begin, 0};
  }
  if (threadIdx.x == kGroupThreads - 1) {
    *args.num_tiles = last_tile;
    *args.num_positions = last;
  }
  return last - count;
}

// Thread e: the place of expert e among the local ones, or -1. Never written while layers run, so
// it can be read before the kernels in front have ended.
__device__ __forceinline__ int32_t LocalOfThread(const moert_group_kernel_args& args) {
  return threadIdx.x < args.num_experts ? args.local_of[threadIdx.x] : -1;
}

// Few slots, one block: a slot's rank is the number of earlier slots with its id. The thread of
// slot s is thread s; it brings the slot's id and weight.
__device__ __forceinline__ void GroupSmall(const moert_group_kernel_args& args, int32_t local,
                                           int32_t id, float weight) {
  __shared__ int32_t ids[MOERT_KERNEL_SMALL_SLOTS], locals[MOERT_KERNEL_MAX_EXPERTS];
  __shared__ int counts[MOERT_KERNEL_MAX_EXPERTS], firsts[MOERT_KERNEL_MAX_EXPERTS];
  __shared__ unsigned long long sums[kGroupThreads / kWarp];
  __shared__ int offence;
  const int slot = threadIdx.x, slots = static_cast<int>(args.slots);
  const bool in_range = id >= 0 && id < args.num_experts;
  counts[slot] = 0;
  locals[slot] = local;
  ids[slot] = id;
  if (slot == 0) offence = slots;
  __syncthreads();
  if (slot < slots && !in_range && id != -1) atomicMin(&offence, slot);
  if (in_range) atomicAdd(&counts[id], 1);
  __syncthreads();
  if (slot == 0 && offence < slots) RaiseStatus(args, offence);
  if (args.counts != nullptr && slot < args.num_experts) args.counts[slot] = counts[slot];
  firsts[slot] = ListTiles(args, local >= 0 ? counts[slot] : 0, local, sums);
  __syncthreads();
  if (slot >= slots) return;
  int position = -1;
  if (in_range && locals[id] >= 0) {
    position = firsts[id];
    for (int i = 0; i < slot; ++i) position += ids[i] == id ? 1 : 0;
    args.slot_of[position] = slot;
    args.position_weight[position] = weight;
  }
  args.position_of[slot] = position;
}

// Counts of the block's slots per expert; the block's first bad slot.
__device__ __forceinline__ void GroupCount(const moert_group_kernel_args& args) {
  __shared__ int counts[MOERT_KERNEL_MAX_EXPERTS];
  __shared__ unsigned long long offence;
  for (int e = threadIdx.x; e < args.num_experts; e += kGroupThreads) counts[e] = 0;
  if (threadIdx.x == 0) offence = kNoOffence;
  __syncthreads();
  const int64_t begin = int64_t{blockIdx.x} * args.chunk;
  const int64_t end = begin + args.chunk < args.slots ? begin + args.chunk : args.slots;
  for (int64_t slot = begin + threadIdx.x; slot < end; slot += kGroupThreads) {
    const int32_t id = SlotId(args, slot);
    if (id >= 0 && id < args.num_experts) {
      atomicAdd(&counts[id], 1);
    } else if (id != -1) {
      atomicMin(&offence, static_cast<unsigned long long>(slot));
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < args.num_experts; e += kGroupThreads) {
    args.block_counts[int64_t{blockIdx.x} * args.num_experts + e] = counts[e];
  }
  if (threadIdx.x == 0) args.block_offence[blockIdx.x] = static_cast<int64_t>(offence);
}

// One block: block_counts becomes the first position of each block's slots of each expert.
__device__ __forceinline__ void GroupScan(const moert_group_kernel_args& args) {
  __shared__ int parts[kGroupThreads], firsts[MOERT_KERNEL_MAX_EXPERTS];
  __shared__ unsigned long long sums[kGroupThreads / kWarp];
  const int t = threadIdx.x, experts = args.num_experts, num_parts = kGroupThreads / experts;
  const int part = t / experts, e = t % experts;
  const int per_part = (args.blocks + num_parts - 1) / num_parts;
  const int begin = min(args.blocks, part * per_part);
  const int end = part < num_parts ? min(args.blocks, begin + per_part) : begin;
  const int32_t local = LocalOfThread(args);
  int sum = 0;
#pragma unroll 8
  for (int b = begin; b < end; ++b) sum += args.block_counts[int64_t{b} * experts + e];
  parts[t] = sum;
  __syncthreads();
  int count = 0;
  if (t < experts) {
    for (int i = 0; i < num_parts; ++i) {
      const int value = parts[i * experts + t];
      parts[i * experts + t] = count;
      count += value;
    }
    if (args.counts != nullptr) args.counts[t] = count;
    if (local < 0) count = 0;
  }
  firsts[t] = ListTiles(args, t < experts ? count : 0, local, sums);
  __syncthreads();
  if (part < num_parts) {
    int next = parts[t] + firsts[e];
#pragma unroll 8
    for (int b = begin; b < end; ++b) {
      int32_t* place = args.block_counts + int64_t{b} * experts + e;
      const int value = *place;
      *place = next;
      next += value;
    }
  }
  if (t == 0) {
    int64_t offence = kNoOffence;
    for (int b = 0; b < args.blocks && offence == kNoOffence; ++b) offence = args.block_offence[b];
    if (offence != kNoOffence) RaiseStatus(args, offence);
  }
}

// Places the slots. Dynamic shared memory: 16-bit counters [warps, experts], then 32-bit [experts].
__device__ __forceinline__ void GroupScatter(const moert_group_kernel_args& args) {
  extern __shared__ uint32_t dynamic[];
  constexpr int kWarps = kGroupThreads / kWarp;
  const int experts = args.num_experts;
  auto* next = reinterpret_cast<int*>(dynamic);                     // [experts]
  auto* warp_counts = reinterpret_cast<uint16_t*>(next + experts);  // [kWarps, experts]
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (threadIdx.x < experts) {
    next[threadIdx.x] = args.block_counts[int64_t{blockIdx.x} * experts + threadIdx.x];
  }
  const int64_t begin = int64_t{blockIdx.x} * args.chunk;
  const int64_t end = begin + args.chunk < args.slots ? begin + args.chunk : args.slots;
  for (int64_t base = begin; base < end; base += kGroupThreads) {
    for (int i = threadIdx.x; i < kWarps * experts; i += kGroupThreads) warp_counts[i] = 0;
    __syncthreads();
    const int64_t slot = base + threadIdx.x;
    int32_t id = slot < end ? SlotId(args, slot) : -1;
    if (id < 0 || id >= experts || args.local_of[id] < 0) id = -1;
    // The lanes with the same id, by testing every lane: warps differ in width between vendors.
    int rank = 0, total = 0;
    for (int i = 0; i < kWarp; ++i) {
      const bool same = ShuffleFrom(id, i) == id;
      total += same ? 1 : 0;
      rank += same && i < lane ? 1 : 0;
    }
    if (id >= 0 && rank == 0) warp_counts[warp * experts + id] = static_cast<uint16_t>(total);
    __syncthreads();
    int before = 0;  // of expert threadIdx.x
    if (threadIdx.x < experts) {
      for (int w = 0; w < kWarps; ++w) {
        uint16_t* place = warp_counts + w * experts + threadIdx.x;
        const int count = *place;
        *place = static_cast<uint16_t>(before);
        before += count;
      }
    }
    __syncthreads();
    if (slot < end) {
      int position = -1;
      if (id >= 0) {
        position = next[id] + warp_counts[warp * experts + id] + rank;
        args.slot_of[position] = static_cast<int32_t>(slot);
        args.position_weight[position] = SlotWeight(args, slot);
      }
      args.position_of[slot] = position;
    }
    __syncthreads();
    if (threadIdx.x < experts) next[threadIdx.x] += before;
  }
}

}  // namespace moert

extern "C" __global__ void __launch_bounds__(moert::kGroupThreads)
    moert_group_small(MOERT_GRID_CONSTANT moert_group_kernel_args args) {
  const int32_t local = moert::LocalOfThread(args);
  moert::BeginKernel();
  const bool is_slot = threadIdx.x < args.slots;
  moert::GroupSmall(args, local, is_slot ? moert::SlotId(args, threadIdx.x) : -1,
                    is_slot ? moert::SlotWeight(args, threadIdx.x) : 0.0f);
}
extern "C" __global__ void __launch_bounds__(moert::kGroupThreads)
    moert_group_count(MOERT_GRID_CONSTANT moert_group_kernel_args args) {
  moert::BeginKernel();
  moert::GroupCount(args);
}
extern "C" __global__ void __launch_bounds__(moert::kGroupThreads)
    moert_group_scan(MOERT_GRID_CONSTANT moert_group_kernel_args args) {
  moert::BeginKernel();
  moert::GroupScan(args);
}
extern "C" __global__ void __launch_bounds__(moert::kGroupThreads)
    moert_group_scatter(MOERT_GRID_CONSTANT moert_group_kernel_args args) {
  moert::BeginKernel();
  moert::GroupScatter(args);
}

// Few tokens, few slots, no groups of experts: the choice and the sorting in one launch.
#define MOERT_CHOOSE_AND_GROUP_KERNEL(EXPERTS)                                          \
  extern "C" __global__ void __launch_bounds__(moert::kGroupThreads)                    \
      moert_choose_and_group_##EXPERTS(                                                 \
          MOERT_GRID_CONSTANT moert_choose_and_group_kernel_args args) {                \
    const int32_t local = moert::LocalOfThread(args.group);                             \
    moert::BeginKernel();                                                               \
    __shared__ int32_t ids[MOERT_KERNEL_SMALL_SLOTS];                                   \
    __shared__ float weights[MOERT_KERNEL_SMALL_SLOTS];                                 \
    constexpr int kPerLane = EXPERTS / moert::kWarp;                                    \
    constexpr int kWarps = moert::kGroupThreads / moert::kWarp;                         \
    _Pragma("unroll 1") for (int t = threadIdx.x / moert::kWarp; t < args.top_k.tokens; \
                             t += kWarps) {                                             \
      moert::TopKToken<kPerLane, true>(args.top_k, t, ids + t * args.top_k.top_k,       \
                                       weights + t * args.top_k.top_k, nullptr);        \
    }                                                                                   \
    __syncthreads();                                                                    \
    const bool is_slot = threadIdx.x < args.group.slots;                                \
    moert::GroupSmall(args.group, local, is_slot ? ids[threadIdx.x] : -1,               \
                      is_slot ? weights[threadIdx.x] : 0.0f);                           \
  }
MOERT_CHOOSE_AND_GROUP_KERNEL(128)
MOERT_CHOOSE_AND_GROUP_KERNEL(256)
MOERT_CHOOSE_AND_GROUP_KERNEL(512)

#endif  // MOERT_KERNELS_COMMON_GROUPING_H_
