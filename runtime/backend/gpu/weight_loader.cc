// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/weight_loader.h"

#include <algorithm>
#include <cstring>

#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

// Bytes one thread copies at a time.
constexpr uint64_t kCopyUnit = uint64_t{1} << 20;
// Below this, threads are not worth their start.
constexpr uint64_t kParallelBytes = uint64_t{8} << 20;
constexpr uint32_t kCopyThreads = 8;

int64_t OuterStride(const WeightMatrix& source) {
  return std::max(source.out_stride, source.in_stride);
}

// Bytes from the first to the last element of a part with `outer` and `inner` elements.
uint64_t SpanBytes(const WeightMatrix& source, int64_t outer, int64_t inner) {
  const int64_t inner_stride = std::min(source.out_stride, source.in_stride);
  const int64_t elements = (outer - 1) * OuterStride(source) + (inner - 1) * inner_stride + 1;
  return static_cast<uint64_t>(elements) * static_cast<uint64_t>(ElementSize(source.dtype));
}

}  // namespace

WeightLoader::~WeightLoader() {
  if (stream_ == nullptr && sides_[0].host == nullptr) return;
  ContextScope scope(device_);
  const GpuDriver& driver = device_.driver();
  if (stream_ != nullptr) driver.stream_synchronize(stream_);
  for (Side& side : sides_) {
    if (side.done != nullptr) driver.event_destroy(side.done);
    device_.FreeHost(side.host);
  }
  if (stream_ != nullptr) driver.stream_destroy(stream_);
}

void WeightLoader::Add(const WeightMatrix& source, int64_t out, int64_t in,
                       const PackTarget& target) {
  if (source.present()) requests_.push_back({source, out, in, target, false});
}

void WeightLoader::AddBytes(const void* source, uint64_t bytes, void* destination) {
  tables_.push_back({source, bytes, destination});
}

Status WeightLoader::Run() {
  if (requests_.empty() && tables_.empty()) return Status();
  ContextScope scope(device_);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  MOERT_RETURN_IF_ERROR(device_.Check(
      device_.driver().stream_create(&stream_, gpu::kStreamNonBlocking), "creating a stream"));
  for (const Table& table : tables_) {
    MOERT_RETURN_IF_ERROR(
        device_.Check(device_.driver().copy_async(reinterpret_cast<GpuPointer>(table.destination),
                                                  reinterpret_cast<GpuPointer>(table.source),
                                                  table.bytes, stream_),
                      "copying weights"));
  }
  MOERT_RETURN_IF_ERROR(Classify());
  for (const Request& request : requests_) MOERT_RETURN_IF_ERROR(Load(request));
  MOERT_RETURN_IF_ERROR(Flush());
  return device_.Check(device_.driver().stream_synchronize(stream_), "loading weights");
}

// Finds out which sources lie on the device, and makes staging for the others.
Status WeightLoader::Classify() {
  uint64_t host_bytes = 0;
  for (Request& request : requests_) {
    request.on_device =
        PointerMemoryType(device_.driver(), request.source.data) == gpu::kMemoryTypeDevice;
    if (request.on_device) continue;
    const bool along_out = request.source.out_stride >= request.source.in_stride;
    host_bytes += AlignUp(SpanBytes(request.source, along_out ? request.out : request.in,
                                    along_out ? request.in : request.out),
                          kAlignment);
  }
  return host_bytes != 0 ? MakeStaging(host_bytes) : Status();
}

Status WeightLoader::MakeStaging(uint64_t bytes) {
  staging_bytes_ = std::min(AlignUp(bytes, 4096), kMaxStaging);
  const int num_sides = bytes <= kMaxStaging ? 1 : 2;
  for (int i = 0; i < num_sides; ++i) {
    Side& side = sides_[i];
    MOERT_RETURN_IF_ERROR(device_.AllocateHost(staging_bytes_, &side.host));
    MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(device_, staging_bytes_, &side.device));
    MOERT_RETURN_IF_ERROR(device_.Check(
        device_.driver().event_create(&side.done, gpu::kEventNoTiming), "creating an event"));
  }
  if (bytes < kParallelBytes) return Status();
  const BackendContext& context = device_.context();
  if (context.host_scheduler != nullptr && context.host_scheduler->parallel_for != nullptr) {
    scheduler_ = MakeHostScheduler(*context.allocator, *context.host_scheduler);
    return Status();
  }
  // 0 threads would take every core; the copies need no more than a few.
  Status status = MakeThreadPool(*context.allocator, kCopyThreads, &scheduler_);
  if (!status.ok()) scheduler_ = nullptr;  // one thread will do
  return Status();
}

Status WeightLoader::Load(const Request& request) {
  const bool along_out = request.source.out_stride >= request.source.in_stride;
  const int64_t outer = along_out ? request.out : request.in;
  const int64_t inner = along_out ? request.in : request.out;
  if (request.on_device) return Pack(request, request.source.data, along_out, 0, outer);
  const uint64_t first_bytes = SpanBytes(request.source, 1, inner);
  const uint64_t step_bytes =
      static_cast<uint64_t>(OuterStride(request.source) * ElementSize(request.source.dtype));
  if (first_bytes > staging_bytes_) {
    return Unsupported("a weight whose rows of %lld elements span more than %llu bytes",
                       static_cast<long long>(inner),
                       static_cast<unsigned long long>(staging_bytes_));
  }
  for (int64_t first = 0; first < outer;) {
    uint64_t room = staging_bytes_ - filled_;
    if (room < first_bytes) {
      MOERT_RETURN_IF_ERROR(Flush());
      room = staging_bytes_;
    }
    const uint64_t more = step_bytes != 0 ? (room - first_bytes) / step_bytes : UINT64_MAX - 1;
    const int64_t count =
        static_cast<int64_t>(std::min<uint64_t>(more + 1, static_cast<uint64_t>(outer - first)));
    MOERT_RETURN_IF_ERROR(LoadPart(request, along_out, first, count));
    first += count;
  }
  return Status();
}

Status WeightLoader::LoadPart(const Request& request, bool along_out, int64_t first,
                              int64_t count) {
  const WeightMatrix& source = request.source;
  const uint64_t bytes = SpanBytes(source, count, along_out ? request.in : request.out);
  const char* data = static_cast<const char*>(source.data) +
                     first * OuterStride(source) * ElementSize(source.dtype);
  packs_.push_back({&request, filled_, along_out, first, count});
  for (uint64_t at = 0; at < bytes; at += kCopyUnit) {
    pieces_.push_back({data + at, filled_ + at, std::min(kCopyUnit, bytes - at)});
  }
  filled_ = std::min(AlignUp(filled_ + bytes, kAlignment), staging_bytes_);
  return Status();
}

void WeightLoader::FillHostBuffer() {
  char* host = static_cast<char*>(sides_[side_].host);
  const auto copy = [&](uint32_t i) {
    const Piece& piece = pieces_[i];
    std::memcpy(host + piece.offset, piece.source, piece.bytes);
  };
  const auto count = static_cast<uint32_t>(pieces_.size());
  if (scheduler_ != nullptr) {
    ParallelFor(*scheduler_, count, copy);
  } else {
    for (uint32_t i = 0; i < count; ++i) copy(i);
  }
}

// Copies and packs what the current buffer holds, and turns to the other one.
Status WeightLoader::Flush() {
  if (packs_.empty()) return Status();
  const GpuDriver& driver = device_.driver();
  Side& side = sides_[side_];
  if (side.busy) {
    MOERT_RETURN_IF_ERROR(
        device_.Check(driver.event_synchronize(side.done), "waiting for staged weights"));
  }
  FillHostBuffer();
  MOERT_RETURN_IF_ERROR(
      device_.Check(driver.copy_async(reinterpret_cast<GpuPointer>(side.device.data()),
                                      reinterpret_cast<GpuPointer>(side.host), filled_, stream_),
                    "copying weights"));
  for (const PendingPack& pack : packs_) {
    MOERT_RETURN_IF_ERROR(Pack(*pack.request,
                               static_cast<const char*>(side.device.data()) + pack.offset,
                               pack.along_out, pack.first, pack.count));
  }
  MOERT_RETURN_IF_ERROR(
      device_.Check(driver.event_record(side.done, stream_), "recording an event"));
  side.busy = true;
  if (sides_[1 - side_].host != nullptr) side_ = 1 - side_;
  packs_.clear();
  pieces_.clear();
  filled_ = 0;
  return Status();
}

Status WeightLoader::Pack(const Request& request, const void* source, bool along_out, int64_t first,
                          int64_t count) {
  const PackTarget& target = request.target;
  moert_pack_kernel_args args = {};
  args.source = source;
  args.destination = target.destination;
  args.out = along_out ? count : request.out;
  args.in = along_out ? request.in : count;
  args.out_source_stride = request.source.out_stride;
  args.in_source_stride = request.source.in_stride;
  args.first_out = along_out ? first : 0;
  args.first_in = along_out ? 0 : first;
  // The last part of a dimension also writes its padding.
  args.padded_out =
      args.first_out + args.out == request.out ? target.padded_out - args.first_out : args.out;
  args.padded_in =
      args.first_in + args.in == request.in ? target.padded_in - args.first_in : args.in;
  args.destination_stride = target.stride;
  args.in_scale = target.in_scale;
  args.group = target.group;
  args.first = target.first;
  args.source_dtype = request.source.dtype;
  args.destination_dtype = target.dtype;
  LaunchShape shape;
  shape.block_x = 32;
  shape.block_y = 8;
  shape.grid_x =
      std::min<int64_t>(DivideUp(args.padded_out, 32) * DivideUp(args.padded_in, 32), 1 << 20);
  return device_.Launch(Kernel::pack_weight, stream_, shape, &args);
}

}  // namespace moert
