// SPDX-License-Identifier: Apache-2.0
// The devices that the conformance suite runs on, and their memory, all through the C ABI:
// MOERT_TEST_DEVICES names them ("cpu,test:0" unless set). Buffers have guard bytes around them and
// between rows, and poison where nothing was written.
#ifndef MOERT_TESTS_SUPPORT_DEVICE_H_
#define MOERT_TESTS_SUPPORT_DEVICE_H_

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "numbers.h"

namespace moert::test {

// An error struct whose message a failed CHECK_OK prints.
struct Error : moert_error {
  Error() : moert_error(MOERT_ERROR_INIT) {}
  bool Says(const std::string& text) const {
    return std::string(message).find(text) != std::string::npos;
  }
};

// A status as failed tests print it; doctest shows a const char* as an address.
inline std::string Name(moert_status status) { return moert_status_name(status); }

// `call` ends in an `error` argument of that name: CHECK_OK(moert_x(..., &error)).
#define MOERT_TEST_OK(assertion, call)                                    \
  do {                                                                    \
    ::moert::test::Error error;                                           \
    const moert_status status_ = (call);                                  \
    INFO(#call, ": ", ::moert::test::Name(status_), ": ", error.message); \
    assertion(status_ == MOERT_STATUS_OK);                                \
  } while (false)
#define CHECK_OK(call) MOERT_TEST_OK(CHECK, call)
#define REQUIRE_OK(call) MOERT_TEST_OK(REQUIRE, call)

// The call fails with that status and a message that has `text` in it.
#define CHECK_REFUSED(call, wanted, text)                                               \
  do {                                                                                  \
    ::moert::test::Error error;                                                         \
    const moert_status status_ = (call);                                                \
    INFO(#call, ": ", ::moert::test::Name(status_), ": ", error.message, " (wanted \"", \
         std::string(text), "\")");                                                     \
    CHECK(status_ == (wanted));                                                         \
    CHECK(error.code == (wanted));                                                      \
    CHECK(error.Says(text));                                                            \
  } while (false)

// Owns one reference of any handle.
template <class T, void (*Release)(const T*)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(T* handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() { Release(handle_); }
  operator T*() const { return handle_; }
  // For out arguments; gives up what was held.
  T** out() {
    Release(std::exchange(handle_, nullptr));
    return &handle_;
  }

 private:
  T* handle_ = nullptr;
};
using Runtime = Owner<moert_runtime, moert_runtime_release>;
using DeviceHandle = Owner<moert_device, moert_device_release>;
using Stream = Owner<moert_stream, moert_stream_release>;
using Event = Owner<moert_event, moert_event_release>;
using Layer = Owner<moert_layer, moert_layer_release>;
using Router = Owner<moert_router, moert_router_release>;
using Gate = Owner<moert_gate, moert_gate_release>;
using ManifestHandle = Owner<moert_manifest, moert_manifest_release>;

// A runtime that also knows the test backend.
Runtime MakeRuntime(const moert_runtime_desc* desc = nullptr);

// An open device with a runtime and a stream of its own.
struct Device {
  explicit Device(std::string id_in, const moert_runtime_desc* desc = nullptr,
                  const moert_device_desc* device_desc = nullptr);
  bool is_cpu() const { return info.kind == MOERT_DEVICE_KIND_CPU; }
  // Kinds that must do everything: on these nothing is skipped.
  bool is_complete() const { return is_cpu() || info.kind == MOERT_DEVICE_KIND_OTHER; }
  Stream NewStream(uint32_t flags = 0);
  void Synchronize();

  std::string id;
  Runtime runtime;
  DeviceHandle handle;
  moert_device_info info = MOERT_DEVICE_INFO_INIT;
  Stream stream;
};

// Thrown by a test that a device cannot run: the reason is printed and the next device gets its
// turn.
struct Skip {
  std::string reason;
};
// Runs `body` on each device.
void ForEachDevice(const std::function<void(Device&)>& body);

// Device memory of exactly `bytes` bytes with guards on both sides, all poisoned. 256-byte aligned.
class DeviceBuffer {
 public:
  static constexpr uint64_t kGuard = 512;
  static constexpr uint8_t kPoison = 0xff;  // NaN in every float format

  DeviceBuffer() = default;
  DeviceBuffer(Device& device, uint64_t bytes);
  void* data() const {
    return bytes_ == 0 ? nullptr : static_cast<uint8_t*>(block_.get()) + kGuard;
  }
  uint64_t size() const { return bytes_; }
  void Upload(const void* source, uint64_t bytes);
  std::vector<uint8_t> Download() const;
  bool GuardsIntact() const;

 private:
  Device* device_ = nullptr;
  std::shared_ptr<void> block_;
  uint64_t bytes_ = 0;
};

// How a matrix argument lies in memory.
struct Spacing {
  int64_t extra_stride = 0;  // elements between the end of a row and the next
  int64_t offset = 0;        // elements from a 256-byte boundary
};

// A matrix argument in device memory. Starts poisoned.
class MatrixBuffer {
 public:
  MatrixBuffer(Device& device, int64_t rows, int64_t cols, moert_dtype dtype, Spacing spacing = {});
  MatrixBuffer(Device& device, const Mat& values, moert_dtype dtype, Spacing spacing = {});
  MatrixBuffer(Device& device, const Ints& values, int64_t cols, Spacing spacing = {});

  const moert_matrix* view() const { return &view_; }
  void Set(const Mat& values);
  void Set(const Ints& values);
  void Poison();
  Mat Get() const;
  Ints GetInts() const;
  // The elements alone, row after row.
  std::vector<uint8_t> Bytes() const;
  // Nothing but elements was written since Set or Poison.
  bool GuardsIntact() const;

 private:
  uint8_t* ElementOf(std::vector<uint8_t>& image, int64_t row, int64_t col) const;
  void Write(const std::function<void(int64_t, int64_t, void*)>& encode);

  DeviceBuffer buffer_;
  Spacing spacing_;
  moert_matrix view_;
};

// A workspace of exactly that size.
inline DeviceBuffer Workspace(Device& device, uint64_t bytes) {
  return DeviceBuffer(device, bytes);
}

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_DEVICE_H_
