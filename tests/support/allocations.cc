// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <cerrno>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOERT_TEST_COUNTS_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOERT_TEST_COUNTS_HEAP 0
#endif
#endif
#if !defined(MOERT_TEST_COUNTS_HEAP)
#define MOERT_TEST_COUNTS_HEAP 1
#endif

namespace {

std::atomic<uint64_t> heap_allocations{0};

}  // namespace

#if MOERT_TEST_COUNTS_HEAP
// The C library's own functions under the names that it keeps for those who replace them.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  ++heap_allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++heap_allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  ++heap_allocations;
  return __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++heap_allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* block = memalign(alignment, bytes);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
}  // extern "C"
#endif

namespace moert::test {

uint64_t HeapAllocations() { return heap_allocations; }
bool CountsHeapAllocations() { return MOERT_TEST_COUNTS_HEAP != 0; }

CountingAllocator::CountingAllocator() : callbacks_(MOERT_ALLOCATOR_INIT) {
  callbacks_.user_data = this;
  callbacks_.alloc = [](void* self, uint64_t bytes, uint64_t alignment) {
    return static_cast<CountingAllocator*>(self)->Allocate(bytes, alignment);
  };
  callbacks_.free = [](void* self, void* block, uint64_t bytes, uint64_t alignment) {
    static_cast<CountingAllocator*>(self)->Free(block, bytes, alignment);
  };
  callbacks_.free_fn = [](void* pointer) {
    auto* self = static_cast<CountingAllocator*>(pointer);
    self->wrong_frees_ += static_cast<int>(self->live_blocks());
    ++self->freed_;
  };
}

CountingAllocator::~CountingAllocator() {
  for (const auto& [block, size] : blocks_) std::free(block);
}

uint64_t CountingAllocator::live_blocks() const {
  std::lock_guard lock(mutex_);
  return blocks_.size();
}

void* CountingAllocator::Allocate(uint64_t bytes, uint64_t alignment) {
  ++allocations_;
  if (remaining_ == 0) return nullptr;
  if (remaining_ > 0) --remaining_;
  const uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, rounded);
  std::lock_guard lock(mutex_);
  blocks_[block] = {bytes, alignment};
  return block;
}

void CountingAllocator::Free(void* block, uint64_t bytes, uint64_t alignment) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.bytes != bytes ||
      found->second.alignment != alignment) {
    ++wrong_frees_;
    return;
  }
  blocks_.erase(found);
  std::free(block);
}

}  // namespace moert::test
