// SPDX-License-Identifier: Apache-2.0
// Parts of a workspace one after the other, each aligned to 256 bytes. With a null base it only
// counts.
#ifndef MOERT_BACKEND_GPU_WORKSPACE_LAYOUT_H_
#define MOERT_BACKEND_GPU_WORKSPACE_LAYOUT_H_

#include <cstdint>

#include "core/checked_math.h"

namespace moert {

class WorkspaceLayout {
 public:
  explicit WorkspaceLayout(void* base) : base_(static_cast<char*>(base)) {}

  void* AddBytes(int64_t bytes) {
    char* part = base_ != nullptr ? base_ + size_ : nullptr;
    size_ += AlignUp(static_cast<uint64_t>(bytes), 256);
    return part;
  }
  template <class T>
  T* Add(int64_t count) {
    return static_cast<T*>(AddBytes(count * static_cast<int64_t>(sizeof(T))));
  }
  uint64_t size() const { return size_; }

 private:
  char* base_;
  uint64_t size_ = 0;
};

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_WORKSPACE_LAYOUT_H_
