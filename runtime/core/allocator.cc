// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.h"

#include <cstdint>
#include <new>

namespace moert {

Allocator::Allocator(const moert_allocator* host) : host_(MOERT_ALLOCATOR_INIT) {
  if (host != nullptr) host_ = *host;
}

void* Allocator::TryAllocate(size_t bytes, size_t alignment) noexcept {
  if (bytes > PTRDIFF_MAX) return nullptr;  // a heap that rounds such a size up passes 2^64
  if (bytes == 0) bytes = 1;
  if (host_.alloc != nullptr) return host_.alloc(host_.user_data, bytes, alignment);
  return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
}

void* Allocator::do_allocate(size_t bytes, size_t alignment) {
  void* block = TryAllocate(bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void Allocator::do_deallocate(void* block, size_t bytes, size_t alignment) {
  if (bytes == 0) bytes = 1;
  if (host_.free != nullptr) {
    host_.free(host_.user_data, block, bytes, alignment);
  } else {
    ::operator delete(block, std::align_val_t(alignment));
  }
}

}  // namespace moert
