// SPDX-License-Identifier: Apache-2.0
// Brings weights onto the device in the layout that kernels want. Host sources go through two
// pinned buffers, filled by several threads while the other one is copied and packed by the device,
// so host memory stays at those two buffers whatever the layer's size. Device sources are packed in
// place.
#ifndef MOERT_BACKEND_GPU_WEIGHT_LOADER_H_
#define MOERT_BACKEND_GPU_WEIGHT_LOADER_H_

#include <vector>

#include "backend/gpu/gpu_device.h"

namespace moert {

// Where a weight goes: element (o, i) to row (o / 8) * group + o % 8 + first, column i, of rows of
// `stride` elements. Zeros are written from `out` and `in` up to padded_out and padded_in.
struct PackTarget {
  void* destination = nullptr;
  moert_dtype dtype = MOERT_DTYPE_NONE;
  int64_t stride = 0;
  int64_t padded_out = 0;
  int64_t padded_in = 0;
  int32_t group = 8;
  int32_t first = 0;
  const float* in_scale = nullptr;  // on the device: factors of the columns
};

// The two buffers and what goes with them. A device keeps one set, so that pinned memory is made
// once.
class StagingBuffers {
 public:
  struct Side {
    void* host = nullptr;
    GpuMemory device;
    GpuEventHandle copied = nullptr, packed = nullptr;
    bool busy = false;
  };

  explicit StagingBuffers(const GpuDevice& device) : device_(device) {}
  ~StagingBuffers();
  // Makes room for `bytes` bytes in all, or as much as is useful.
  Status Grow(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }  // of a side
  Side& side(int i) { return sides_[i]; }

 private:
  static constexpr uint64_t kMaxBytes = uint64_t{32} << 20;

  void Clear();

  const GpuDevice& device_;
  Side sides_[2];
  uint64_t bytes_ = 0;
};

class WeightLoader {
 public:
  explicit WeightLoader(const GpuDevice& device)
      : device_(device),
        requests_(&device.allocator()),
        pieces_(&device.allocator()),
        tables_(&device.allocator()),
        packs_(&device.allocator()) {}
  ~WeightLoader();

  // Asks for a weight; nothing happens before Run.
  void Add(const WeightMatrix& source, int64_t out, int64_t in, const PackTarget& target);
  // Asks for a copy of host memory that stays until Run is done.
  void AddBytes(const void* source, uint64_t bytes, void* destination);
  // Loads all that was asked for and waits for it.
  Status Run();

 private:
  static constexpr uint64_t kAlignment = 16;

  struct Request {
    WeightMatrix source;
    int64_t out, in;
    PackTarget target;
    bool on_device;
  };
  // Bytes to be copied into the staging buffer.
  struct Piece {
    const char* source;
    uint64_t offset;
    uint64_t bytes;
  };
  struct Table {
    const void* source;
    uint64_t bytes;
    void* destination;
  };
  // A part of a request that lies in the staging buffer.
  struct PendingPack {
    const Request* request;
    uint64_t offset;
    bool along_out;
    int64_t first, count;
  };

  Status Classify();
  Status MakeThreads(uint64_t bytes);
  Status Load(const Request& request);
  // Part [first, first + count) of the dimension with the larger stride, all of the other.
  Status LoadPart(const Request& request, bool along_out, int64_t first, int64_t count);
  Status Pack(const Request& request, const void* source, bool along_out, int64_t first,
              int64_t count);
  Status Flush();
  void FillHostBuffer();

  const GpuDevice& device_;
  std::pmr::vector<Request> requests_;
  std::pmr::vector<Piece> pieces_;
  std::pmr::vector<Table> tables_;
  std::pmr::vector<PendingPack> packs_;
  Owned<Scheduler> scheduler_;
  GpuStreamHandle copy_stream_ = nullptr, pack_stream_ = nullptr;
  Owned<StagingBuffers> staging_;  // the device's while this works
  int side_ = 0;
  uint64_t filled_ = 0;
};

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_WEIGHT_LOADER_H_
