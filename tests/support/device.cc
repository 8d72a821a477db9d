// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <cstdlib>
#include <cstring>
#include <deque>

#include "api/handles.h"
#include "delayed_backend.h"

namespace moert::test {
namespace {

std::vector<std::string> DeviceIds() {
  const char* given = std::getenv("MOERT_TEST_DEVICES");
  std::string list = given != nullptr ? given : "cpu,test:0";
  std::vector<std::string> ids;
  for (size_t start = 0; start <= list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    ids.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return ids;
}

}  // namespace

Runtime MakeRuntime(const moert_runtime_desc* desc) {
  Runtime runtime;
  REQUIRE_OK(moert_runtime_create(desc, runtime.out(), &error));
  moert_runtime& inside = *runtime;
  inside.registry.Add(MakeDelayedBackend({&inside.allocator, &inside.log, nullptr}));
  return runtime;
}

Device::Device(std::string id_in, const moert_runtime_desc* desc,
               const moert_device_desc* device_desc)
    : id(std::move(id_in)), runtime(MakeRuntime(desc)) {
  REQUIRE_OK(moert_device_create(runtime, id.c_str(), device_desc, handle.out(), &error));
  REQUIRE_OK(moert_device_get_info(handle, &info, &error));
  stream = NewStream();
}

Stream Device::NewStream(uint32_t flags) {
  moert_stream_desc desc = MOERT_STREAM_DESC_INIT;
  desc.flags = flags;
  Stream out;
  REQUIRE_OK(moert_stream_create(handle, &desc, out.out(), &error));
  return out;
}

void Device::Synchronize() { CHECK_OK(moert_stream_synchronize(stream, &error)); }

void ForEachDevice(const std::function<void(Device&)>& body) {
  static std::deque<Device> devices;
  if (devices.empty()) {
    for (const std::string& id : DeviceIds()) devices.emplace_back(id);
  }
  for (Device& device : devices) {
    INFO("device ", device.id);
    try {
      body(device);
    } catch (const Skip& skip) {
      MESSAGE("skipped on ", device.id, ": ", skip.reason);
      CHECK_FALSE(device.is_complete());
    }
  }
}

DeviceBuffer::DeviceBuffer(Device& device, uint64_t bytes) : device_(&device), bytes_(bytes) {
  void* block = nullptr;
  REQUIRE_OK(moert_device_alloc(device.handle, bytes + 2 * kGuard, &block, &error));
  moert_device_retain(device.handle);
  moert_device* owner = device.handle;
  block_ = std::shared_ptr<void>(block, [owner](void* memory) {
    moert_device_free(owner, memory);
    moert_device_release(owner);
  });
  const std::vector<uint8_t> poison(bytes + 2 * kGuard, kPoison);
  REQUIRE_OK(moert_stream_copy(device.stream, block, poison.data(), poison.size(), &error));
  device.Synchronize();
}

void DeviceBuffer::Upload(const void* source, uint64_t bytes) {
  REQUIRE(bytes <= bytes_);
  REQUIRE_OK(moert_stream_copy(device_->stream, data(), source, bytes, &error));
  device_->Synchronize();
}

std::vector<uint8_t> DeviceBuffer::Download() const {
  std::vector<uint8_t> out(bytes_);
  if (bytes_ == 0) return out;
  REQUIRE_OK(moert_stream_copy(device_->stream, out.data(), data(), bytes_, &error));
  device_->Synchronize();
  return out;
}

bool DeviceBuffer::GuardsIntact() const {
  std::vector<uint8_t> image(bytes_ + 2 * kGuard);
  REQUIRE_OK(moert_stream_copy(device_->stream, image.data(), block_.get(), image.size(), &error));
  device_->Synchronize();
  for (uint64_t i = 0; i < kGuard; ++i) {
    if (image[i] != kPoison || image[image.size() - 1 - i] != kPoison) return false;
  }
  return true;
}

MatrixBuffer::MatrixBuffer(Device& device, int64_t rows, int64_t cols, moert_dtype dtype,
                           Spacing spacing)
    : spacing_(spacing), view_(MOERT_MATRIX_INIT) {
  moert_matrix_init(&view_, nullptr, rows, cols, dtype);
  view_.row_stride = cols + spacing.extra_stride;
  if (rows == 0 || cols == 0) return;
  const int64_t elements = spacing.offset + (rows - 1) * view_.row_stride + cols;
  buffer_ = DeviceBuffer(device, static_cast<uint64_t>(elements) * DtypeBytes(dtype));
  view_.data = static_cast<uint8_t*>(buffer_.data()) + spacing.offset * DtypeBytes(dtype);
}

MatrixBuffer::MatrixBuffer(Device& device, const Mat& values, moert_dtype dtype, Spacing spacing)
    : MatrixBuffer(device, values.rows, values.cols, dtype, spacing) {
  Set(values);
}

MatrixBuffer::MatrixBuffer(Device& device, const Ints& values, int64_t cols, Spacing spacing)
    : MatrixBuffer(device, static_cast<int64_t>(values.size()) / cols, cols, MOERT_DTYPE_INT32,
                   spacing) {
  Set(values);
}

uint8_t* MatrixBuffer::ElementOf(std::vector<uint8_t>& image, int64_t row, int64_t col) const {
  return image.data() + (spacing_.offset + row * view_.row_stride + col) * DtypeBytes(view_.dtype);
}

void MatrixBuffer::Write(const std::function<void(int64_t, int64_t, void*)>& encode) {
  if (buffer_.size() == 0) return;
  std::vector<uint8_t> image(buffer_.size(), DeviceBuffer::kPoison);
  for (int64_t r = 0; r < view_.rows; ++r) {
    for (int64_t c = 0; c < view_.cols; ++c) encode(r, c, ElementOf(image, r, c));
  }
  buffer_.Upload(image.data(), image.size());
}

void MatrixBuffer::Set(const Mat& values) {
  REQUIRE(values.rows == view_.rows);
  REQUIRE(values.cols == view_.cols);
  Write([&](int64_t r, int64_t c, void* at) { Encode(view_.dtype, values(r, c), at); });
}

void MatrixBuffer::Set(const Ints& values) {
  REQUIRE(static_cast<int64_t>(values.size()) == view_.rows * view_.cols);
  Write([&](int64_t r, int64_t c, void* at) {
    std::memcpy(at, &values[r * view_.cols + c], sizeof(int32_t));
  });
}

void MatrixBuffer::Poison() {
  // Integers get a value that is no id and no count, floats NaN.
  const uint8_t poison = view_.dtype == MOERT_DTYPE_INT32 ? 0x5a : DeviceBuffer::kPoison;
  Write([&](int64_t, int64_t, void* at) { std::memset(at, poison, DtypeBytes(view_.dtype)); });
}

Mat MatrixBuffer::Get() const {
  auto image = buffer_.Download();
  Mat out(view_.rows, view_.cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) out(r, c) = Decode(view_.dtype, ElementOf(image, r, c));
  }
  return out;
}

Ints MatrixBuffer::GetInts() const {
  const auto bytes = Bytes();
  Ints out(bytes.size() / sizeof(int32_t));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<uint8_t> MatrixBuffer::Bytes() const {
  auto image = buffer_.Download();
  std::vector<uint8_t> out;
  const size_t row_bytes = static_cast<size_t>(view_.cols) * DtypeBytes(view_.dtype);
  for (int64_t r = 0; r < view_.rows && row_bytes != 0; ++r) {
    const uint8_t* row = ElementOf(image, r, 0);
    out.insert(out.end(), row, row + row_bytes);
  }
  return out;
}

bool MatrixBuffer::GuardsIntact() const {
  if (buffer_.size() == 0) return true;
  auto image = buffer_.Download();
  for (int64_t r = 0; r < view_.rows; ++r) {
    std::memset(ElementOf(image, r, 0), DeviceBuffer::kPoison,
                static_cast<size_t>(view_.cols) * DtypeBytes(view_.dtype));
  }
  for (uint8_t byte : image) {
    if (byte != DeviceBuffer::kPoison) return false;
  }
  return buffer_.GuardsIntact();
}

}  // namespace moert::test
