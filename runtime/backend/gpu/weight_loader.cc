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
constexpr uint32_t kCopyThreads = 12;

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

StagingBuffers::~StagingBuffers() { Clear(); }

void StagingBuffers::Clear() {
  ContextScope scope(device_);
  for (Side& side : sides_) {
    device_.FreeHost(side.host);
    if (side.copied != nullptr) device_.driver().event_destroy(side.copied);
    if (side.packed != nullptr) device_.driver().event_destroy(side.packed);
    side = Side();
  }
  bytes_ = 0;
}

Status StagingBuffers::Grow(uint64_t bytes) {
  const uint64_t wanted = std::min(AlignUp(bytes, 4096), kMaxBytes);
  if (wanted <= bytes_) return Status();
  Clear();
  const auto make_event = [&](GpuEventHandle* event) {
    return device_.Check(device_.driver().event_create(event, gpu::kEventNoTiming),
                         "creating an event");
  };
  for (Side& side : sides_) {
    MOERT_RETURN_IF_ERROR(device_.AllocateHost(wanted, &side.host));
    MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(device_, wanted, &side.device));
    MOERT_RETURN_IF_ERROR(make_event(&side.copied));
    MOERT_RETURN_IF_ERROR(make_event(&side.packed));
  }
  bytes_ = wanted;
  return Status();
}

WeightLoader::~WeightLoader() {
  ContextScope scope(device_);
  for (GpuStreamHandle stream : {copy_stream_, pack_stream_}) {
    if (stream == nullptr) continue;
    device_.driver().stream_synchronize(stream);
    device_.driver().stream_destroy(stream);
  }
  if (staging_ != nullptr) device_.ReturnStaging(std::move(staging_));
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
  for (GpuStreamHandle* stream : {&copy_stream_, &pack_stream_}) {
    MOERT_RETURN_IF_ERROR(device_.Check(
        device_.driver().stream_create(stream, gpu::kStreamNonBlocking), "creating a stream"));
  }
  for (const Table& table : tables_) {
    MOERT_RETURN_IF_ERROR(
        device_.Check(device_.driver().copy_async(reinterpret_cast<GpuPointer>(table.destination),
                                                  reinterpret_cast<GpuPointer>(table.source),
                                                  table.bytes, copy_stream_),
                      "copying weights"));
  }
  MOERT_RETURN_IF_ERROR(Classify());
  for (const Request& request : requests_) MOERT_RETURN_IF_ERROR(Load(request));
  MOERT_RETURN_IF_ERROR(Flush());
  for (const GpuStreamHandle stream : {copy_stream_, pack_stream_}) {
    MOERT_RETURN_IF_ERROR(
        device_.Check(device_.driver().stream_synchronize(stream), "loading weights"));
  }
  return Status();
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
  if (host_bytes == 0) return Status();
  staging_ = device_.TakeStaging();
  MOERT_RETURN_IF_ERROR(staging_->Grow(host_bytes));
  return MakeThreads(host_bytes);
}

Status WeightLoader::MakeThreads(uint64_t bytes) {
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
  if (first_bytes > staging_->bytes()) {
    return Unsupported("a weight whose rows of %lld elements span more than %llu bytes",
                       static_cast<long long>(inner),
                       static_cast<unsigned long long>(staging_->bytes()));
  }
  for (int64_t first = 0; first < outer;) {
    uint64_t room = staging_->bytes() - filled_;
    if (room < first_bytes) {
      MOERT_RETURN_IF_ERROR(Flush());
      room = staging_->bytes();
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
  filled_ = std::min(AlignUp(filled_ + bytes, kAlignment), staging_->bytes());
  return Status();
}

void WeightLoader::FillHostBuffer() {
  char* host = static_cast<char*>(staging_->side(side_).host);
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

// Copies and packs what the current buffer holds, and turns to the other one. Copies have a stream
// of their own, so that the next one does not wait for packing.
Status WeightLoader::Flush() {
  if (packs_.empty()) return Status();
  const GpuDriver& driver = device_.driver();
  StagingBuffers::Side& side = staging_->side(side_);
  const auto check = [&](int code) { return device_.Check(code, "loading weights"); };
  if (side.busy) MOERT_RETURN_IF_ERROR(check(driver.event_synchronize(side.packed)));
  FillHostBuffer();
  MOERT_RETURN_IF_ERROR(
      check(driver.copy_async(reinterpret_cast<GpuPointer>(side.device.data()),
                              reinterpret_cast<GpuPointer>(side.host), filled_, copy_stream_)));
  MOERT_RETURN_IF_ERROR(check(driver.event_record(side.copied, copy_stream_)));
  MOERT_RETURN_IF_ERROR(check(driver.stream_wait_event(pack_stream_, side.copied, 0)));
  for (const PendingPack& pack : packs_) {
    MOERT_RETURN_IF_ERROR(Pack(*pack.request,
                               static_cast<const char*>(side.device.data()) + pack.offset,
                               pack.along_out, pack.first, pack.count));
  }
  MOERT_RETURN_IF_ERROR(check(driver.event_record(side.packed, pack_stream_)));
  side.busy = true;
  side_ = 1 - side_;
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
  return device_.Launch(Kernel::pack_weight, pack_stream_, shape, &args);
}

}  // namespace moert
