// SPDX-License-Identifier: Apache-2.0
#include "delayed_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/checked_math.h"

namespace moert::test {
namespace {

constexpr uint64_t kRange = uint64_t{64} << 30;
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kPoisonLimit = uint64_t{64} << 20;  // larger blocks stay sparse

uintptr_t Reserve(int protection) {
  void* range =
      mmap(nullptr, kRange, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) std::abort();
  return reinterpret_cast<uintptr_t>(range);
}

}  // namespace

DelayedMemory::DelayedMemory()
    : device_(Reserve(PROT_NONE)), host_(Reserve(PROT_READ | PROT_WRITE)) {}

DelayedMemory::~DelayedMemory() {
  munmap(reinterpret_cast<void*>(device_), kRange);
  munmap(reinterpret_cast<void*>(host_), kRange);
}

bool DelayedMemory::IsDevice(const void* address) const {
  return reinterpret_cast<uintptr_t>(address) - device_ < kRange;
}

void* DelayedMemory::Allocate(uint64_t bytes) {
  if (bytes > kRange) return nullptr;
  const uint64_t size = AlignUp(std::max<uint64_t>(bytes, 1), kAlignment);
  std::lock_guard lock(mutex_);
  uint64_t offset = 0;  // first fit
  for (const auto& [start, length] : blocks_) {
    if (start - offset >= size) break;
    offset = start + length;
  }
  if (offset > kRange - size) return nullptr;
  blocks_.emplace(offset, size);
  if (size <= kPoisonLimit) std::memset(reinterpret_cast<void*>(host_ + offset), 0xff, size);
  return reinterpret_cast<void*>(device_ + offset);
}

void DelayedMemory::Free(void* device_address) {
  if (device_address == nullptr) return;
  if (!IsDevice(device_address)) std::abort();
  const uint64_t offset = reinterpret_cast<uintptr_t>(device_address) - device_;
  std::lock_guard lock(mutex_);
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) std::abort();
  // What large blocks took of the machine's memory goes back at once.
  const uint64_t first_page = AlignUp(offset, kPage);
  const uint64_t end_page = (offset + block->second) / kPage * kPage;
  if (block->second > kPoisonLimit) {
    madvise(reinterpret_cast<void*>(host_ + first_page), end_page - first_page, MADV_DONTNEED);
  }
  blocks_.erase(block);
}

}  // namespace moert::test
