// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/weights.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/device.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert::cpu {
namespace {

constexpr uint64_t kAlignment = 64;
// Rows that one task copies, and the depth it transposes at once.
constexpr int64_t kCopyRows = 64;

// Strided copy of elements of Bytes bytes.
template <int Bytes>
void CopyElements(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out + i * out_step * Bytes, in + i * in_step * Bytes, Bytes);
  }
}

}  // namespace

const void* Element(const WeightView& view, int64_t out, int64_t in) {
  return static_cast<const char*>(view.data) +
         (out * view.out_stride + in * view.in_stride) * ElementSize(view.dtype);
}

uint64_t WeightStore::Place(uint64_t bytes) {
  const uint64_t offset = size_;
  size_ = AlignUp(size_ + bytes, kAlignment);
  bytes_ += bytes;
  return offset;
}

void WeightStore::Add(const WeightMatrix& matrix, int64_t out, int64_t in, WeightView* view) {
  *view = {};
  if (!matrix.present()) return;
  const uint64_t offset = Place(static_cast<uint64_t>(out * in * ElementSize(matrix.dtype)));
  items_.push_back({matrix, out, in, in, 1, offset, view});
}

void WeightStore::AddPair(const WeightMatrix& gate, const WeightMatrix& up, bool vector,
                          int64_t out, int64_t in, WeightView* gate_view, WeightView* up_view) {
  if (!gate.present() || !up.present() || gate.dtype != up.dtype) {
    Add(gate, out, in, gate_view);
    Add(up, out, in, up_view);
    return;
  }
  *gate_view = *up_view = {};
  const int64_t element = ElementSize(gate.dtype);
  const auto* first = static_cast<const char*>(gate.data);
  const auto* second = static_cast<const char*>(up.data);
  const int64_t along = vector ? gate.in_stride : gate.out_stride;
  const bool interleaved =
      along % 2 == 0 && second == first + along / 2 * element && (vector ? along == 2 : in != 1);
  const int64_t step = interleaved ? 2 : 1;
  const uint64_t offset = Place(static_cast<uint64_t>(2 * out * in * element));
  const int64_t distance = interleaved ? (vector ? 1 : in) : out * in;
  const int64_t out_stride = vector ? in : step * in;
  const int64_t in_stride = vector ? step : 1;
  items_.push_back({gate, out, in, out_stride, in_stride, offset, gate_view});
  items_.push_back({up, out, in, out_stride, in_stride,
                    offset + static_cast<uint64_t>(distance * element), up_view});
}

void WeightStore::AddRouter(const RouterWeights& weights, int64_t experts, int64_t hidden,
                            RouterViews* views) {
  Add(weights.router, experts, hidden, &views->router);
  Add(weights.router_bias, 1, experts, &views->router_bias);
  Add(weights.selection_bias, 1, experts, &views->selection_bias);
  Add(weights.input_scale, 1, hidden, &views->input_scale);
  Add(weights.expert_scale, 1, experts, &views->expert_scale);
}

void WeightStore::AddExpert(const ExpertWeights& weights, int64_t intermediate, int64_t width,
                            ExpertViews* views) {
  AddPair(weights.gate, weights.up, false, intermediate, width, &views->gate, &views->up);
  AddPair(weights.gate_bias, weights.up_bias, true, 1, intermediate, &views->gate_bias,
          &views->up_bias);
  Add(weights.down, width, intermediate, &views->down);
  Add(weights.down_bias, 1, width, &views->down_bias);
}

Status WeightStore::Commit(Scheduler& scheduler) {
  if (!copy_) {
    for (const Item& item : items_) {
      *item.view = {item.source.data, item.source.dtype, item.source.out_stride,
                    item.source.in_stride};
    }
    return Status();
  }
  if (!memory_.Allocate(allocator_, size_)) {
    return OutOfMemory("no memory for %llu bytes of weights",
                       static_cast<unsigned long long>(size_));
  }
  PreferLargePages(memory_.data(), memory_.size());
  auto* base = static_cast<char*>(memory_.data());
  const auto copy = [&](uint32_t index) {
    const Item& item = items_[index];
    const int64_t element = ElementSize(item.source.dtype);
    *item.view = {base + item.offset, item.source.dtype, item.out_stride, item.in_stride};
    const auto* source = static_cast<const char*>(item.source.data);
    char* target = base + item.offset;
    const bool rows = item.source.in_stride == 1 && item.in_stride == 1;
    // Blocks of rows and columns, so that a transposing copy reuses the lines it reads.
    for (int64_t o = 0; o < item.out; o += kCopyRows) {
      for (int64_t i = 0; i < item.in; i += rows ? item.in : kCopyRows) {
        for (int64_t row = o; row < std::min(item.out, o + kCopyRows); ++row) {
          const char* from =
              source + (row * item.source.out_stride + i * item.source.in_stride) * element;
          char* to = target + (row * item.out_stride + i * item.in_stride) * element;
          const int64_t n = std::min(item.in - i, rows ? item.in : kCopyRows);
          if (rows) {
            std::memcpy(to, from, static_cast<size_t>(n * element));
          } else if (element == 2) {
            CopyElements<2>(from, item.source.in_stride, to, item.in_stride, n);
          } else {
            CopyElements<4>(from, item.source.in_stride, to, item.in_stride, n);
          }
        }
      }
    }
  };
  ParallelFor(scheduler, static_cast<uint32_t>(items_.size()), copy);
  return Status();
}

}  // namespace moert::cpu
