// SPDX-License-Identifier: Apache-2.0
/**
 * @file moert.hpp
 * moert.h for C++17 and later: one class a handle, failures thrown as moert::Error. Header-only and
 * without logic of its own; what a call does is documented at the function of moert.h of its name.
 *
 * A copy of an object shares the handle (it retains), a move hands it over. A const member function
 * may be called concurrently. Descs and argument structs are moert.h's; Init<T>() makes one.
 */
#ifndef MOERT_MOERT_HPP_
#define MOERT_MOERT_HPP_

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "moert/moert.h"

namespace moert {
// Names apart from the library's own, for programs that link it statically.
inline namespace client {

/** What a failed call reported. */
class Error : public std::runtime_error {
 public:
  Error(moert_status status, const moert_error& error)
      : std::runtime_error(error.message), status_(status), native_code_(error.native_code) {}
  moert_status status() const { return status_; }
  int64_t native_code() const { return native_code_; }

 private:
  moert_status status_;
  int64_t native_code_;
};

/** A struct of moert.h with its defaults. */
template <class T>
T Init() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

/** A packed matrix. */
inline moert_matrix MakeMatrix(void* data, int64_t rows, int64_t cols, moert_dtype dtype) {
  moert_matrix matrix;
  moert_matrix_init(&matrix, data, rows, cols, dtype);
  return matrix;
}

inline uint32_t AbiVersion() { return moert_abi_version(); }
inline std::string_view VersionString() { return moert_version_string(); }
inline std::string_view StatusName(moert_status status) { return moert_status_name(status); }
inline std::string_view DtypeName(moert_dtype dtype) { return moert_dtype_name(dtype); }
inline uint32_t DtypeBits(moert_dtype dtype) { return moert_dtype_bits(dtype); }
inline std::string_view FamilyNames() { return moert_family_names(); }

namespace detail {

// Calls function(arguments..., &error) and throws what it reports.
template <class Function, class... Arguments>
void Call(Function function, Arguments... arguments) {
  moert_error error = MOERT_ERROR_INIT;
  const moert_status status = function(arguments..., &error);
  if (status != MOERT_STATUS_OK) throw Error(status, error);
}

// As Call, for a function that fills one value before `error`.
template <class T, class Function, class... Arguments>
T Get(Function function, Arguments... arguments) {
  T value{};
  Call(function, arguments..., &value);
  return value;
}

// As Get, for a struct that begins with struct_size.
template <class T, class Function, class... Arguments>
T GetInfo(Function function, Arguments... arguments) {
  T value = Init<T>();
  Call(function, arguments..., &value);
  return value;
}

inline void Retain(const moert_runtime* handle) { moert_runtime_retain(handle); }
inline void Retain(const moert_device* handle) { moert_device_retain(handle); }
inline void Retain(const moert_stream* handle) { moert_stream_retain(handle); }
inline void Retain(const moert_event* handle) { moert_event_retain(handle); }
inline void Retain(const moert_manifest* handle) { moert_manifest_retain(handle); }
inline void Retain(const moert_layer* handle) { moert_layer_retain(handle); }
inline void Retain(const moert_gate* handle) { moert_gate_retain(handle); }
inline void Retain(const moert_router* handle) { moert_router_retain(handle); }
inline void Retain(const moert_optimizer* handle) { moert_optimizer_retain(handle); }

inline void Release(const moert_runtime* handle) { moert_runtime_release(handle); }
inline void Release(const moert_device* handle) { moert_device_release(handle); }
inline void Release(const moert_stream* handle) { moert_stream_release(handle); }
inline void Release(const moert_event* handle) { moert_event_release(handle); }
inline void Release(const moert_manifest* handle) { moert_manifest_release(handle); }
inline void Release(const moert_layer* handle) { moert_layer_release(handle); }
inline void Release(const moert_gate* handle) { moert_gate_release(handle); }
inline void Release(const moert_router* handle) { moert_router_release(handle); }
inline void Release(const moert_optimizer* handle) { moert_optimizer_release(handle); }

}  // namespace detail

/** Holds one reference to a handle of type T, or nothing. */
template <class T>
class Handle {
 public:
  Handle() = default;
  /** Takes over the caller's reference. */
  explicit Handle(T* adopted) noexcept : handle_(adopted) {}
  Handle(const Handle& other) noexcept : handle_(other.handle_) {
    if (handle_ != nullptr) detail::Retain(handle_);
  }
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { detail::Release(handle_); }

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  T* get() noexcept { return handle_; }
  const T* get() const noexcept { return handle_; }
  /** Gives the reference to the caller. */
  T* release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  T* handle_ = nullptr;
};

class Runtime : public Handle<moert_runtime> {
 public:
  using Handle::Handle;
  static Runtime Create(const moert_runtime_desc* desc = nullptr) {
    return Runtime(detail::Get<moert_runtime*>(moert_runtime_create, desc));
  }
  uint32_t NumDevices() const { return detail::Get<uint32_t>(moert_runtime_num_devices, get()); }
  moert_device_info DeviceInfo(uint32_t index) const {
    return detail::GetInfo<moert_device_info>(moert_runtime_device_info, get(), index);
  }
};

class Device : public Handle<moert_device> {
 public:
  using Handle::Handle;
  /** Null name: the CPU. */
  static Device Create(const Runtime& runtime, const char* name = nullptr,
                       const moert_device_desc* desc = nullptr) {
    return Device(detail::Get<moert_device*>(moert_device_create, runtime.get(), name, desc));
  }
  moert_device_info Info() const {
    return detail::GetInfo<moert_device_info>(moert_device_get_info, get());
  }
};

/** A block from moert_device_alloc or moert_host_alloc, freed with the object. Move-only. */
class Memory {
 public:
  Memory() = default;
  static Memory OnDevice(const Device& device, uint64_t bytes) {
    return Memory(device, detail::Get<void*>(moert_device_alloc, device.get(), bytes),
                  moert_device_free);
  }
  static Memory OnHost(const Device& device, uint64_t bytes) {
    return Memory(device, detail::Get<void*>(moert_host_alloc, device.get(), bytes),
                  moert_host_free);
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) free_(device_.get(), data_);
  }
  void* data() const noexcept { return data_; }

 private:
  using Free = void (*)(const moert_device*, void*);
  Memory(const Device& device, void* data, Free free) : device_(device), data_(data), free_(free) {}

  Device device_;
  void* data_ = nullptr;
  Free free_ = nullptr;
};

class Event;

class Stream : public Handle<moert_stream> {
 public:
  using Handle::Handle;
  static Stream Create(const Device& device, const moert_stream_desc* desc = nullptr) {
    return Stream(detail::Get<moert_stream*>(moert_stream_create, device.get(), desc));
  }
  static Stream Import(const Device& device, void* native) {
    return Stream(detail::Get<moert_stream*>(moert_stream_import, device.get(), native));
  }
  void* Native() const { return moert_stream_native(get()); }
  void Copy(void* destination, const void* source, uint64_t bytes) {
    detail::Call(moert_stream_copy, get(), destination, source, bytes);
  }
  void Reserve(uint64_t bytes) { detail::Call(moert_stream_reserve, get(), bytes); }
  void Synchronize() { detail::Call(moert_stream_synchronize, get()); }
  void Check() { detail::Call(moert_stream_check, get()); }
  void Wait(const Event& event);
};

class Event : public Handle<moert_event> {
 public:
  using Handle::Handle;
  static Event Create(const Device& device) {
    return Event(detail::Get<moert_event*>(moert_event_create, device.get()));
  }
  void Record(Stream& stream) { detail::Call(moert_event_record, get(), stream.get()); }
  /** Whether it has been reached; throws if the work before it failed. */
  bool Query() const {
    moert_error error = MOERT_ERROR_INIT;
    const moert_status status = moert_event_query(get(), &error);
    if (status != MOERT_STATUS_OK && status != MOERT_STATUS_NOT_READY) throw Error(status, error);
    return status == MOERT_STATUS_OK;
  }
  void Wait() const { detail::Call(moert_event_wait, get()); }
};

inline void Stream::Wait(const Event& event) {
  detail::Call(moert_stream_wait_event, get(), event.get());
}

class Manifest : public Handle<moert_manifest> {
 public:
  using Handle::Handle;
  static moert_pack_result Pack(const Runtime& runtime, const moert_pack_desc& desc) {
    return detail::GetInfo<moert_pack_result>(moert_manifest_pack, runtime.get(), &desc);
  }
  static Manifest Open(const Runtime& runtime, const moert_manifest_desc& desc) {
    return Manifest(detail::Get<moert_manifest*>(moert_manifest_open, runtime.get(), &desc));
  }
  static Manifest Open(const Runtime& runtime, const char* path) {
    moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
    desc.path = path;
    return Open(runtime, desc);
  }
  void Verify(moert_progress_fn progress = nullptr, void* user_data = nullptr) const {
    detail::Call(moert_manifest_verify, get(), progress, user_data);
  }
  moert_manifest_info Info() const {
    return detail::GetInfo<moert_manifest_info>(moert_manifest_get_info, get());
  }
  moert_file_info File(uint32_t index) const {
    return detail::GetInfo<moert_file_info>(moert_manifest_file, get(), index);
  }
  moert_tensor_info Tensor(uint64_t index) const {
    return detail::GetInfo<moert_tensor_info>(moert_manifest_tensor, get(), index);
  }
  uint64_t FindTensor(const char* name) const {
    return detail::Get<uint64_t>(moert_manifest_find_tensor, get(), name);
  }
  const void* TensorData(uint64_t index) const {
    return detail::Get<const void*>(moert_manifest_tensor_data, get(), index);
  }
  moert_layer_info Layer(uint32_t index) const {
    return detail::GetInfo<moert_layer_info>(moert_manifest_layer, get(), index);
  }
  uint32_t FindLayer(int32_t model_layer) const {
    return detail::Get<uint32_t>(moert_manifest_find_layer, get(), model_layer);
  }
  moert_routing LayerRouting(uint32_t index) const {
    return detail::GetInfo<moert_routing>(moert_manifest_layer_routing, get(), index);
  }
  /** The experts' activation and the shared expert's. */
  std::pair<moert_activation, moert_activation> LayerActivation(uint32_t index) const {
    std::pair<moert_activation, moert_activation> out(Init<moert_activation>(),
                                                      Init<moert_activation>());
    detail::Call(moert_manifest_layer_activation, get(), index, &out.first, &out.second);
    return out;
  }
  moert_weight_info LayerWeight(uint32_t index, uint32_t weight_index) const {
    return detail::GetInfo<moert_weight_info>(moert_manifest_layer_weight, get(), index,
                                              weight_index);
  }
};

class Layer : public Handle<moert_layer> {
 public:
  using Handle::Handle;
  static Layer Create(const Device& device, const moert_layer_desc& desc) {
    return Layer(detail::Get<moert_layer*>(moert_layer_create, device.get(), &desc));
  }
  static Layer Open(const Device& device, const Manifest& manifest, uint32_t index,
                    const moert_layer_open_desc* desc = nullptr) {
    return Layer(
        detail::Get<moert_layer*>(moert_layer_open, device.get(), manifest.get(), index, desc));
  }
  moert_layer_info Info() const {
    return detail::GetInfo<moert_layer_info>(moert_layer_get_info, get());
  }
  moert_matrix Weight(moert_role role, int32_t expert) const {
    return detail::Get<moert_matrix>(moert_layer_weight, get(), role, expert);
  }
  uint64_t WorkspaceSize(const moert_layer_forward_args& args) const {
    return detail::Get<uint64_t>(moert_layer_workspace_size, get(), &args);
  }
  void Forward(Stream& stream, const moert_layer_forward_args& args) const {
    detail::Call(moert_layer_forward, get(), stream.get(), &args);
  }
  uint64_t SavedSize(const moert_layer_forward_args& args) const {
    return detail::Get<uint64_t>(moert_layer_saved_size, get(), &args);
  }
  uint64_t BackwardWorkspaceSize(const moert_layer_backward_args& args) const {
    return detail::Get<uint64_t>(moert_layer_backward_workspace_size, get(), &args);
  }
  void Backward(Stream& stream, const moert_layer_backward_args& args) const {
    detail::Call(moert_layer_backward, get(), stream.get(), &args);
  }
};

class Router : public Handle<moert_router> {
 public:
  using Handle::Handle;
  static Router Create(const Device& device, const moert_router_desc& desc) {
    return Router(detail::Get<moert_router*>(moert_router_create, device.get(), &desc));
  }
  uint64_t WorkspaceSize(const moert_router_forward_args& args) const {
    return detail::Get<uint64_t>(moert_router_workspace_size, get(), &args);
  }
  void Forward(Stream& stream, const moert_router_forward_args& args) const {
    detail::Call(moert_router_forward, get(), stream.get(), &args);
  }
};

class Gate : public Handle<moert_gate> {
 public:
  using Handle::Handle;
  static Gate Create(const Device& device, const moert_gate_desc& desc) {
    return Gate(detail::Get<moert_gate*>(moert_gate_create, device.get(), &desc));
  }
  void Forward(Stream& stream, const moert_gate_forward_args& args) const {
    detail::Call(moert_gate_forward, get(), stream.get(), &args);
  }
};

class Optimizer : public Handle<moert_optimizer> {
 public:
  using Handle::Handle;
  static Optimizer Create(const Device& device, const moert_optimizer_desc& desc) {
    return Optimizer(detail::Get<moert_optimizer*>(moert_optimizer_create, device.get(), &desc));
  }
  void Step(Stream& stream, const moert_parameter* parameters, uint32_t num_parameters,
            const moert_option* options = nullptr, uint32_t num_options = 0) {
    detail::Call(moert_optimizer_step, get(), stream.get(), parameters, num_parameters, options,
                 num_options);
  }
};

}  // namespace client
}  // namespace moert

#endif  // MOERT_MOERT_HPP_
