// SPDX-License-Identifier: Apache-2.0
#include "core/handle.h"

namespace moert {

void Handle::Destroy() const {
  // The runtime owns the allocator that it lies in, so both that and its free_fn are moved out
  // first.
  Allocator allocator = *allocator_;
  const FreeCallback last_free = std::move(const_cast<Handle*>(this)->last_free_);
  const size_t size = size_, alignment = alignment_;
  const Handle* kept = parent();
  if (kept != nullptr) kept->Retain();
  void* block = dynamic_cast<void*>(const_cast<Handle*>(this));
  const_cast<Handle*>(this)->~Handle();
  allocator.deallocate(block, size, alignment);
  if (kept != nullptr) kept->Release();
}

}  // namespace moert
