// SPDX-License-Identifier: Apache-2.0
// A host's free_fn with its user_data: called exactly once, when this is destroyed.
#ifndef MOERT_CORE_FREE_CALLBACK_H_
#define MOERT_CORE_FREE_CALLBACK_H_

#include <utility>

#include "moert/moert.h"

namespace moert {

class FreeCallback {
 public:
  FreeCallback() = default;
  FreeCallback(moert_free_fn fn, void* user_data) : fn_(fn), user_data_(user_data) {}
  FreeCallback(FreeCallback&& other) noexcept
      : fn_(std::exchange(other.fn_, nullptr)), user_data_(other.user_data_) {}
  FreeCallback& operator=(FreeCallback&& other) noexcept {
    std::swap(fn_, other.fn_);
    std::swap(user_data_, other.user_data_);
    return *this;
  }
  ~FreeCallback() {
    if (fn_ != nullptr) fn_(user_data_);
  }

 private:
  moert_free_fn fn_ = nullptr;
  void* user_data_ = nullptr;
};

}  // namespace moert

#endif  // MOERT_CORE_FREE_CALLBACK_H_
