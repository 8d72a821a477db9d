// SPDX-License-Identifier: Apache-2.0
// The host's allocator as a std::pmr resource: everything that outlives a call is allocated here,
// with std::pmr containers, Buffer or MakeHandle. Throws std::bad_alloc, which api/ catches.
#ifndef MOERT_CORE_ALLOCATOR_H_
#define MOERT_CORE_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <utility>

#include "moert/moert.h"

namespace moert {

class Allocator final : public std::pmr::memory_resource {
 public:
  // `host` null: aligned operator new. Does not own host->free_fn; the runtime does.
  explicit Allocator(const moert_allocator* host);

  // As allocate(), but null when memory runs out.
  void* TryAllocate(size_t bytes, size_t alignment) noexcept;

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* block, size_t bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  moert_allocator host_;
};

// A block of host memory. Move-only.
class Buffer {
 public:
  static constexpr size_t kAlignment = 256;

  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) allocator_->deallocate(data_, size_, kAlignment);
  }

  // False when memory runs out; the buffer is empty then. Contents are not initialised.
  bool Allocate(Allocator& allocator, size_t bytes) {
    *this = Buffer();
    if (bytes == 0) return true;
    data_ = allocator.TryAllocate(bytes, kAlignment);
    if (data_ == nullptr) return false;
    allocator_ = &allocator;
    size_ = bytes;
    return true;
  }

  void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// A std::unique_ptr whose object lives in an Allocator. Converts to a base with virtual destructor.
struct AllocatorDelete {
  Allocator* allocator = nullptr;
  size_t size = 0;
  size_t alignment = 0;
  template <class T>
  void operator()(T* object) const {
    void* block = object;
    if constexpr (std::is_polymorphic_v<T>) block = dynamic_cast<void*>(object);
    object->~T();
    allocator->deallocate(block, size, alignment);
  }
};
template <class T>
using Owned = std::unique_ptr<T, AllocatorDelete>;

template <class T, class... Args>
Owned<T> MakeOwned(Allocator& allocator, Args&&... args) {
  void* block = allocator.allocate(sizeof(T), alignof(T));
  try {
    return Owned<T>(new (block) T(std::forward<Args>(args)...),
                    AllocatorDelete{&allocator, sizeof(T), alignof(T)});
  } catch (...) {
    allocator.deallocate(block, sizeof(T), alignof(T));
    throw;
  }
}

}  // namespace moert

#endif  // MOERT_CORE_ALLOCATOR_H_
