// SPDX-License-Identifier: Apache-2.0
// Watching and refusing allocations: a host allocator that counts, and a count of every call of
// malloc and its kin in the process.
#ifndef MOERT_TESTS_SUPPORT_ALLOCATIONS_H_
#define MOERT_TESTS_SUPPORT_ALLOCATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "moert/moert.h"

namespace moert::test {

// A moert_allocator that checks that each block comes back as it was asked for.
class CountingAllocator {
 public:
  CountingAllocator();
  ~CountingAllocator();
  const moert_allocator* get() const { return &callbacks_; }

  // Allocations from the `count`-th one from now on fail; negative: none.
  void FailAfter(int64_t count) { remaining_ = count; }
  uint64_t allocations() const { return allocations_; }
  uint64_t live_blocks() const;
  // Of blocks that are not out, with another size or alignment, or after free_fn.
  int wrong_frees() const { return wrong_frees_; }
  int freed() const { return freed_; }  // calls of free_fn

 private:
  struct Block {
    uint64_t bytes;
    uint64_t alignment;
  };
  void* Allocate(uint64_t bytes, uint64_t alignment);
  void Free(void* block, uint64_t bytes, uint64_t alignment);

  moert_allocator callbacks_;
  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::atomic<int64_t> remaining_{-1};
  std::atomic<uint64_t> allocations_{0};
  std::atomic<int> wrong_frees_{0};
  std::atomic<int> freed_{0};
};

// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and memalign in this process so
// far (operator new calls them). Always 0 under sanitizers, which have a malloc of their own.
uint64_t HeapAllocations();
bool CountsHeapAllocations();

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_ALLOCATIONS_H_
