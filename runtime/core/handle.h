// SPDX-License-Identifier: Apache-2.0
// Handle: the reference count behind every opaque type of the C ABI, and Ref, which holds one.
#ifndef MOERT_CORE_HANDLE_H_
#define MOERT_CORE_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "core/allocator.h"
#include "core/free_callback.h"

namespace moert {

class Handle {
 public:
  void Retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy();
  }

 protected:
  Handle() = default;
  virtual ~Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // For the runtime, whose allocator is a member of its own.
  void set_allocator(Allocator& allocator) { allocator_ = &allocator; }
  // Called when the handle's memory has been given back.
  void set_last_free(FreeCallback free) { last_free_ = std::move(free); }
  // What this was made from, which has the allocator: it goes after this handle's memory.
  virtual const Handle* parent() const { return nullptr; }

 private:
  template <class T, class... Args>
  friend T* MakeHandle(Allocator& allocator, Args&&... args);
  // Runs the destructor, then frees the block.
  void Destroy() const;

  mutable std::atomic<int64_t> count_{1};
  Allocator* allocator_ = nullptr;
  size_t size_ = 0;
  size_t alignment_ = 0;
  FreeCallback last_free_;
};

// Makes a handle with one reference. The allocator must outlive it (each handle holds its runtime).
template <class T, class... Args>
T* MakeHandle(Allocator& allocator, Args&&... args) {
  T* handle = MakeOwned<T>(allocator, std::forward<Args>(args)...).release();
  handle->Handle::allocator_ = &allocator;
  handle->Handle::size_ = sizeof(T);
  handle->Handle::alignment_ = alignof(T);
  return handle;
}

// Holds one reference.
template <class T>
class Ref {
 public:
  Ref() = default;
  static Ref Retain(T* handle) {
    if (handle != nullptr) handle->Retain();
    return Ref(handle);
  }
  static Ref Adopt(T* handle) { return Ref(handle); }
  Ref(Ref&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Ref() {
    if (handle_ != nullptr) handle_->Release();
  }
  T* get() const { return handle_; }
  T* operator->() const { return handle_; }
  T& operator*() const { return *handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  T* release() { return std::exchange(handle_, nullptr); }

 private:
  explicit Ref(T* handle) : handle_(handle) {}
  T* handle_ = nullptr;
};

}  // namespace moert

#endif  // MOERT_CORE_HANDLE_H_
