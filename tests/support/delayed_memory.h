// SPDX-License-Identifier: Apache-2.0
// Memory of the delayed test device: two ranges of address space of equal size, of which the one
// whose addresses the library sees is never accessible, and the other holds the bytes.
#ifndef MOERT_TESTS_SUPPORT_DELAYED_MEMORY_H_
#define MOERT_TESTS_SUPPORT_DELAYED_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>

namespace moert::test {

class DelayedMemory {
 public:
  DelayedMemory();
  ~DelayedMemory();
  DelayedMemory(const DelayedMemory&) = delete;
  DelayedMemory& operator=(const DelayedMemory&) = delete;

  // A device address, filled with poison when small; null when the range is full.
  void* Allocate(uint64_t bytes);
  void Free(void* device_address);

  bool IsDevice(const void* address) const;
  // From a device address to the bytes behind it, and back; others stay as they are.
  template <class T>
  T* ToHost(T* address) const {
    return IsDevice(address) ? Moved(address, host_, device_) : address;
  }
  template <class T>
  T* ToDevice(T* address) const {
    return Moved(address, device_, host_);
  }

 private:
  template <class T>
  static T* Moved(T* address, uintptr_t to, uintptr_t from) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) - from + to);
  }

  uintptr_t device_ = 0;
  uintptr_t host_ = 0;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> blocks_;  // offset to size, in order
};

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_DELAYED_MEMORY_H_
