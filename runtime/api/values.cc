// SPDX-License-Identifier: Apache-2.0
// Plain values of the ABI: versions, names, defaults.
#include <cstddef>

#include "moert/moert.h"

#define MOERT_STRING_(x) #x
#define MOERT_STRING(x) MOERT_STRING_(x)

extern "C" {

uint32_t moert_abi_version(void) { return MOERT_ABI_VERSION; }

const char* moert_version_string(void) {
  return MOERT_STRING(MOERT_VERSION_MAJOR) "." MOERT_STRING(MOERT_VERSION_MINOR) "." MOERT_STRING(
      MOERT_VERSION_PATCH);
}

const char* moert_status_name(moert_status status) {
  static constexpr const char* kNames[] = {"OK",
                                           "INVALID_ARGUMENT",
                                           "UNSUPPORTED",
                                           "UNAVAILABLE",
                                           "OUT_OF_MEMORY",
                                           "NOT_FOUND",
                                           "IO_ERROR",
                                           "CORRUPT_DATA",
                                           "FILE_CHANGED",
                                           "WORKSPACE_TOO_SMALL",
                                           "INVALID_ROUTING",
                                           "NOT_READY",
                                           "DEVICE_ERROR",
                                           "DEVICE_LOST",
                                           "CALLBACK_FAILED",
                                           "INTERNAL"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == MOERT_STATUS_INTERNAL + 1);
  return status >= 0 && status <= MOERT_STATUS_INTERNAL ? kNames[status] : "UNKNOWN";
}

// Names as safetensors spells them where it has the type.
static constexpr struct {
  const char* name;
  uint32_t bits;
} kDtypes[] = {{"NONE", 0},    {"F32", 32},    {"BF16", 16}, {"F16", 16}, {"F64", 64},
               {"I8", 8},      {"U8", 8},      {"I16", 16},  {"U16", 16}, {"I32", 32},
               {"U32", 32},    {"I64", 64},    {"U64", 64},  {"BOOL", 8}, {"F8_E4M3", 8},
               {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},    {"I4", 4},   {"C64", 64}};
static_assert(sizeof(kDtypes) / sizeof(kDtypes[0]) == MOERT_DTYPE_COMPLEX64 + 1);

const char* moert_dtype_name(moert_dtype dtype) {
  return dtype >= 0 && dtype <= MOERT_DTYPE_COMPLEX64 ? kDtypes[dtype].name : "?";
}

uint32_t moert_dtype_bits(moert_dtype dtype) {
  return dtype >= 0 && dtype <= MOERT_DTYPE_COMPLEX64 ? kDtypes[dtype].bits : 0;
}

void moert_matrix_init(moert_matrix* matrix, void* data, int64_t rows, int64_t cols,
                       moert_dtype dtype) {
  if (matrix != nullptr) *matrix = moert_matrix{data, rows, cols, cols, dtype, 0};
}

#define MOERT_DEFINE_INIT(name)                   \
  void moert_##name##_init(moert_##name* value) { \
    if (value == nullptr) return;                 \
    *value = moert_##name{};                      \
    value->struct_size = sizeof(*value);          \
  }
MOERT_DEFINE_INIT(error)
MOERT_DEFINE_INIT(allocator)
MOERT_DEFINE_INIT(log_sink)
MOERT_DEFINE_INIT(scheduler)
MOERT_DEFINE_INIT(runtime_desc)
MOERT_DEFINE_INIT(device_info)
MOERT_DEFINE_INIT(device_desc)
MOERT_DEFINE_INIT(stream_desc)
MOERT_DEFINE_INIT(routing)
MOERT_DEFINE_INIT(activation)
MOERT_DEFINE_INIT(weight)
MOERT_DEFINE_INIT(pack_desc)
MOERT_DEFINE_INIT(pack_result)
MOERT_DEFINE_INIT(file_source)
MOERT_DEFINE_INIT(manifest_desc)
MOERT_DEFINE_INIT(manifest_info)
MOERT_DEFINE_INIT(file_info)
MOERT_DEFINE_INIT(tensor_info)
MOERT_DEFINE_INIT(layer_info)
MOERT_DEFINE_INIT(weight_info)
MOERT_DEFINE_INIT(layer_desc)
MOERT_DEFINE_INIT(layer_open_desc)
MOERT_DEFINE_INIT(layer_forward_args)
MOERT_DEFINE_INIT(router_desc)
MOERT_DEFINE_INIT(router_forward_args)
MOERT_DEFINE_INIT(gate_desc)
MOERT_DEFINE_INIT(gate_forward_args)
MOERT_DEFINE_INIT(gradient)
MOERT_DEFINE_INIT(layer_backward_args)
MOERT_DEFINE_INIT(parameter)
MOERT_DEFINE_INIT(optimizer_callbacks)
MOERT_DEFINE_INIT(optimizer_desc)
#undef MOERT_DEFINE_INIT

}  // extern "C"
