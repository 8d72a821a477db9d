/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file moert_loader.h
 * For hosts that load moert at run time instead of linking it: moert_load fills a table with one
 * function pointer per function of moert.h, without the "moert_" in front of its name.
 *
 *   struct moert_api moert;
 *   char why[512];
 *   if (moert_load(&moert, NULL, why, sizeof why) != MOERT_STATUS_OK) { ...no moert here: why... }
 *   moert.runtime_create(NULL, &runtime, &error);
 *   ...
 *   moert_unload(&moert);
 *
 * The functions are static: include this in the files that load. Where dlopen is not part of libc
 * (glibc before 2.34), link with -ldl. Written by tests/abi/write_loader.sh; do not edit.
 */
#ifndef MOERT_MOERT_LOADER_H_
#define MOERT_MOERT_LOADER_H_

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "moert/moert.h"

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#if defined(__GNUC__)
#define MOERT_LOADER_FUNCTION static __attribute__((unused))
#else
#define MOERT_LOADER_FUNCTION static
#endif

/** Every function of the ABI. The pointers are valid until moert_unload. */
struct moert_api {
  uint32_t (*abi_version)(void);
  const char* (*version_string)(void);
  const char* (*status_name)(moert_status status);
  const char* (*dtype_name)(moert_dtype dtype);
  uint32_t (*dtype_bits)(moert_dtype dtype);
  void (*matrix_init)(moert_matrix* matrix, void* data, int64_t rows, int64_t cols,
                      moert_dtype dtype);
  moert_status (*runtime_create)(const moert_runtime_desc* desc, moert_runtime** out,
                                 moert_error* error);
  void (*runtime_retain)(const moert_runtime* runtime);
  void (*runtime_release)(const moert_runtime* runtime);
  moert_status (*runtime_num_devices)(const moert_runtime* runtime, uint32_t* out,
                                      moert_error* error);
  moert_status (*runtime_device_info)(const moert_runtime* runtime, uint32_t index,
                                      moert_device_info* out, moert_error* error);
  moert_status (*device_create)(const moert_runtime* runtime, const char* name,
                                const moert_device_desc* desc, moert_device** out,
                                moert_error* error);
  void (*device_retain)(const moert_device* device);
  void (*device_release)(const moert_device* device);
  moert_status (*device_get_info)(const moert_device* device, moert_device_info* out,
                                  moert_error* error);
  moert_status (*device_alloc)(const moert_device* device, uint64_t bytes, void** out,
                               moert_error* error);
  void (*device_free)(const moert_device* device, void* memory);
  moert_status (*host_alloc)(const moert_device* device, uint64_t bytes, void** out,
                             moert_error* error);
  void (*host_free)(const moert_device* device, void* memory);
  moert_status (*stream_create)(const moert_device* device, const moert_stream_desc* desc,
                                moert_stream** out, moert_error* error);
  moert_status (*stream_import)(const moert_device* device, void* native, moert_stream** out,
                                moert_error* error);
  void (*stream_retain)(const moert_stream* stream);
  void (*stream_release)(const moert_stream* stream);
  void* (*stream_native)(const moert_stream* stream);
  moert_status (*stream_copy)(moert_stream* stream, void* destination, const void* source,
                              uint64_t bytes, moert_error* error);
  moert_status (*stream_reserve)(moert_stream* stream, uint64_t bytes, moert_error* error);
  moert_status (*stream_synchronize)(moert_stream* stream, moert_error* error);
  moert_status (*stream_check)(moert_stream* stream, moert_error* error);
  moert_status (*event_create)(const moert_device* device, moert_event** out, moert_error* error);
  void (*event_retain)(const moert_event* event);
  void (*event_release)(const moert_event* event);
  moert_status (*event_record)(moert_event* event, moert_stream* stream, moert_error* error);
  moert_status (*event_query)(const moert_event* event, moert_error* error);
  moert_status (*event_wait)(const moert_event* event, moert_error* error);
  moert_status (*stream_wait_event)(moert_stream* stream, const moert_event* event,
                                    moert_error* error);
  moert_status (*manifest_pack)(const moert_runtime* runtime, const moert_pack_desc* desc,
                                moert_pack_result* result, moert_error* error);
  const char* (*family_names)(void);
  moert_status (*manifest_open)(const moert_runtime* runtime, const moert_manifest_desc* desc,
                                moert_manifest** out, moert_error* error);
  void (*manifest_retain)(const moert_manifest* manifest);
  void (*manifest_release)(const moert_manifest* manifest);
  moert_status (*manifest_verify)(const moert_manifest* manifest, moert_progress_fn progress,
                                  void* user_data, moert_error* error);
  moert_status (*manifest_get_info)(const moert_manifest* manifest, moert_manifest_info* out,
                                    moert_error* error);
  moert_status (*manifest_file)(const moert_manifest* manifest, uint32_t index,
                                moert_file_info* out, moert_error* error);
  moert_status (*manifest_tensor)(const moert_manifest* manifest, uint64_t index,
                                  moert_tensor_info* out, moert_error* error);
  moert_status (*manifest_find_tensor)(const moert_manifest* manifest, const char* name,
                                       uint64_t* out, moert_error* error);
  moert_status (*manifest_tensor_data)(const moert_manifest* manifest, uint64_t index,
                                       const void** out, moert_error* error);
  moert_status (*manifest_layer)(const moert_manifest* manifest, uint32_t index,
                                 moert_layer_info* out, moert_error* error);
  moert_status (*manifest_find_layer)(const moert_manifest* manifest, int32_t model_layer,
                                      uint32_t* out, moert_error* error);
  moert_status (*manifest_layer_routing)(const moert_manifest* manifest, uint32_t index,
                                         moert_routing* out, moert_error* error);
  moert_status (*manifest_layer_activation)(const moert_manifest* manifest, uint32_t index,
                                            moert_activation* experts, moert_activation* shared,
                                            moert_error* error);
  moert_status (*manifest_layer_weight)(const moert_manifest* manifest, uint32_t index,
                                        uint32_t weight_index, moert_weight_info* out,
                                        moert_error* error);
  moert_status (*layer_create)(const moert_device* device, const moert_layer_desc* desc,
                               moert_layer** out, moert_error* error);
  moert_status (*layer_open)(const moert_device* device, const moert_manifest* manifest,
                             uint32_t index, const moert_layer_open_desc* desc, moert_layer** out,
                             moert_error* error);
  void (*layer_retain)(const moert_layer* layer);
  void (*layer_release)(const moert_layer* layer);
  moert_status (*layer_get_info)(const moert_layer* layer, moert_layer_info* out,
                                 moert_error* error);
  moert_status (*layer_weight)(const moert_layer* layer, moert_role role, int32_t expert,
                               moert_matrix* out, moert_error* error);
  moert_status (*layer_workspace_size)(const moert_layer* layer,
                                       const moert_layer_forward_args* args, uint64_t* out,
                                       moert_error* error);
  moert_status (*layer_forward)(const moert_layer* layer, moert_stream* stream,
                                const moert_layer_forward_args* args, moert_error* error);
  moert_status (*router_create)(const moert_device* device, const moert_router_desc* desc,
                                moert_router** out, moert_error* error);
  void (*router_retain)(const moert_router* router);
  void (*router_release)(const moert_router* router);
  moert_status (*router_workspace_size)(const moert_router* router,
                                        const moert_router_forward_args* args, uint64_t* out,
                                        moert_error* error);
  moert_status (*router_forward)(const moert_router* router, moert_stream* stream,
                                 const moert_router_forward_args* args, moert_error* error);
  moert_status (*gate_create)(const moert_device* device, const moert_gate_desc* desc,
                              moert_gate** out, moert_error* error);
  void (*gate_retain)(const moert_gate* gate);
  void (*gate_release)(const moert_gate* gate);
  moert_status (*gate_forward)(const moert_gate* gate, moert_stream* stream,
                               const moert_gate_forward_args* args, moert_error* error);
  moert_status (*layer_saved_size)(const moert_layer* layer, const moert_layer_forward_args* args,
                                   uint64_t* out, moert_error* error);
  moert_status (*layer_backward_workspace_size)(const moert_layer* layer,
                                                const moert_layer_backward_args* args,
                                                uint64_t* out, moert_error* error);
  moert_status (*layer_backward)(const moert_layer* layer, moert_stream* stream,
                                 const moert_layer_backward_args* args, moert_error* error);
  moert_status (*optimizer_create)(const moert_device* device, const moert_optimizer_desc* desc,
                                   moert_optimizer** out, moert_error* error);
  void (*optimizer_retain)(const moert_optimizer* optimizer);
  void (*optimizer_release)(const moert_optimizer* optimizer);
  moert_status (*optimizer_step)(moert_optimizer* optimizer, moert_stream* stream,
                                 const moert_parameter* parameters, uint32_t num_parameters,
                                 const moert_option* options, uint32_t num_options,
                                 moert_error* error);
  void (*error_init)(moert_error* value);
  void (*allocator_init)(moert_allocator* value);
  void (*log_sink_init)(moert_log_sink* value);
  void (*scheduler_init)(moert_scheduler* value);
  void (*runtime_desc_init)(moert_runtime_desc* value);
  void (*device_info_init)(moert_device_info* value);
  void (*device_desc_init)(moert_device_desc* value);
  void (*stream_desc_init)(moert_stream_desc* value);
  void (*routing_init)(moert_routing* value);
  void (*activation_init)(moert_activation* value);
  void (*weight_init)(moert_weight* value);
  void (*pack_desc_init)(moert_pack_desc* value);
  void (*pack_result_init)(moert_pack_result* value);
  void (*file_source_init)(moert_file_source* value);
  void (*manifest_desc_init)(moert_manifest_desc* value);
  void (*manifest_info_init)(moert_manifest_info* value);
  void (*file_info_init)(moert_file_info* value);
  void (*tensor_info_init)(moert_tensor_info* value);
  void (*layer_info_init)(moert_layer_info* value);
  void (*weight_info_init)(moert_weight_info* value);
  void (*layer_desc_init)(moert_layer_desc* value);
  void (*layer_open_desc_init)(moert_layer_open_desc* value);
  void (*layer_forward_args_init)(moert_layer_forward_args* value);
  void (*router_desc_init)(moert_router_desc* value);
  void (*router_forward_args_init)(moert_router_forward_args* value);
  void (*gate_desc_init)(moert_gate_desc* value);
  void (*gate_forward_args_init)(moert_gate_forward_args* value);
  void (*gradient_init)(moert_gradient* value);
  void (*layer_backward_args_init)(moert_layer_backward_args* value);
  void (*parameter_init)(moert_parameter* value);
  void (*optimizer_callbacks_init)(moert_optimizer_callbacks* value);
  void (*optimizer_desc_init)(moert_optimizer_desc* value);
  void* library; /**< What the system calls the loaded library. */
};

/* Appends to the caller's error text, cutting what does not fit. */
MOERT_LOADER_FUNCTION void moert_loader_append(char* error, size_t size, const char* text) {
  size_t used;
  if (error == NULL || size == 0) return;
  used = strlen(error);
  while (used + 1 < size && *text != '\0') error[used++] = *text++;
  error[used] = '\0';
}

MOERT_LOADER_FUNCTION void* moert_loader_open(const char* path, char* error, size_t size) {
#ifdef _WIN32
  char code[64];
  void* library = (void*)LoadLibraryA(path);
  if (library != NULL) return library;
  sprintf(code, ": LoadLibrary failed with error %lu", (unsigned long)GetLastError());
  moert_loader_append(error, size, path);
  moert_loader_append(error, size, code);
  return NULL;
#else
  const char* why;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) return library;
  why = dlerror();
  moert_loader_append(error, size, why != NULL ? why : path);
  return NULL;
#endif
}

/** Unloads the library; every handle must have been released. NULL and an empty table are fine. */
MOERT_LOADER_FUNCTION void moert_unload(struct moert_api* api) {
  if (api == NULL) return;
  if (api->library != NULL) {
#ifdef _WIN32
    FreeLibrary((HMODULE)api->library);
#else
    dlclose(api->library);
#endif
  }
  memset(api, 0, sizeof(*api));
}

/* Fills the pointers, which come first in the table and are all of one size. */
MOERT_LOADER_FUNCTION int moert_loader_resolve(struct moert_api* api, char* error, size_t size) {
  static const char* const names[] = {"moert_abi_version",
                                      "moert_version_string",
                                      "moert_status_name",
                                      "moert_dtype_name",
                                      "moert_dtype_bits",
                                      "moert_matrix_init",
                                      "moert_runtime_create",
                                      "moert_runtime_retain",
                                      "moert_runtime_release",
                                      "moert_runtime_num_devices",
                                      "moert_runtime_device_info",
                                      "moert_device_create",
                                      "moert_device_retain",
                                      "moert_device_release",
                                      "moert_device_get_info",
                                      "moert_device_alloc",
                                      "moert_device_free",
                                      "moert_host_alloc",
                                      "moert_host_free",
                                      "moert_stream_create",
                                      "moert_stream_import",
                                      "moert_stream_retain",
                                      "moert_stream_release",
                                      "moert_stream_native",
                                      "moert_stream_copy",
                                      "moert_stream_reserve",
                                      "moert_stream_synchronize",
                                      "moert_stream_check",
                                      "moert_event_create",
                                      "moert_event_retain",
                                      "moert_event_release",
                                      "moert_event_record",
                                      "moert_event_query",
                                      "moert_event_wait",
                                      "moert_stream_wait_event",
                                      "moert_manifest_pack",
                                      "moert_family_names",
                                      "moert_manifest_open",
                                      "moert_manifest_retain",
                                      "moert_manifest_release",
                                      "moert_manifest_verify",
                                      "moert_manifest_get_info",
                                      "moert_manifest_file",
                                      "moert_manifest_tensor",
                                      "moert_manifest_find_tensor",
                                      "moert_manifest_tensor_data",
                                      "moert_manifest_layer",
                                      "moert_manifest_find_layer",
                                      "moert_manifest_layer_routing",
                                      "moert_manifest_layer_activation",
                                      "moert_manifest_layer_weight",
                                      "moert_layer_create",
                                      "moert_layer_open",
                                      "moert_layer_retain",
                                      "moert_layer_release",
                                      "moert_layer_get_info",
                                      "moert_layer_weight",
                                      "moert_layer_workspace_size",
                                      "moert_layer_forward",
                                      "moert_router_create",
                                      "moert_router_retain",
                                      "moert_router_release",
                                      "moert_router_workspace_size",
                                      "moert_router_forward",
                                      "moert_gate_create",
                                      "moert_gate_retain",
                                      "moert_gate_release",
                                      "moert_gate_forward",
                                      "moert_layer_saved_size",
                                      "moert_layer_backward_workspace_size",
                                      "moert_layer_backward",
                                      "moert_optimizer_create",
                                      "moert_optimizer_retain",
                                      "moert_optimizer_release",
                                      "moert_optimizer_step",
                                      "moert_error_init",
                                      "moert_allocator_init",
                                      "moert_log_sink_init",
                                      "moert_scheduler_init",
                                      "moert_runtime_desc_init",
                                      "moert_device_info_init",
                                      "moert_device_desc_init",
                                      "moert_stream_desc_init",
                                      "moert_routing_init",
                                      "moert_activation_init",
                                      "moert_weight_init",
                                      "moert_pack_desc_init",
                                      "moert_pack_result_init",
                                      "moert_file_source_init",
                                      "moert_manifest_desc_init",
                                      "moert_manifest_info_init",
                                      "moert_file_info_init",
                                      "moert_tensor_info_init",
                                      "moert_layer_info_init",
                                      "moert_weight_info_init",
                                      "moert_layer_desc_init",
                                      "moert_layer_open_desc_init",
                                      "moert_layer_forward_args_init",
                                      "moert_router_desc_init",
                                      "moert_router_forward_args_init",
                                      "moert_gate_desc_init",
                                      "moert_gate_forward_args_init",
                                      "moert_gradient_init",
                                      "moert_layer_backward_args_init",
                                      "moert_parameter_init",
                                      "moert_optimizer_callbacks_init",
                                      "moert_optimizer_desc_init"};
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
#ifdef _WIN32
    FARPROC symbol = GetProcAddress((HMODULE)api->library, names[i]);
#else
    void* symbol = dlsym(api->library, names[i]);
#endif
    if (symbol == NULL) {
      moert_loader_append(error, size, "the library has no ");
      moert_loader_append(error, size, names[i]);
      return 0;
    }
    memcpy((char*)api + i * sizeof(symbol), &symbol, sizeof(symbol));
  }
  return 1;
}

/* The ABI number is compared first: libraries of another ABI may lack functions. */
MOERT_LOADER_FUNCTION int moert_loader_check_abi(struct moert_api* api, char* error, size_t size) {
  uint32_t (*abi_version)(void);
  char text[96];
#ifdef _WIN32
  FARPROC symbol = GetProcAddress((HMODULE)api->library, "moert_abi_version");
#else
  void* symbol = dlsym(api->library, "moert_abi_version");
#endif
  if (symbol == NULL) {
    moert_loader_append(error, size, "the library has no moert_abi_version: it is not moert");
    return 0;
  }
  memcpy(&abi_version, &symbol, sizeof(symbol));
  if (abi_version() == MOERT_ABI_VERSION) return 1;
  sprintf(text, "the library has moert ABI %lu, this program was built for %lu",
          (unsigned long)abi_version(), (unsigned long)MOERT_ABI_VERSION);
  moert_loader_append(error, size, text);
  return 0;
}

/**
 * Loads the library and fills `api`.
 * @param path   The library; NULL: libmoert.so.0, then libmoert.so (moert.dll on Windows).
 * @param error  May be NULL; else says on failure what was tried, in up to `error_size` bytes.
 * @return OK or UNAVAILABLE; then `api` is all zeros and nothing stays loaded.
 */
MOERT_LOADER_FUNCTION moert_status moert_load(struct moert_api* api, const char* path, char* error,
                                              size_t error_size) {
#ifdef _WIN32
  static const char* const defaults[] = {"moert.dll"};
#else
  static const char* const defaults[] = {"libmoert.so.0", "libmoert.so"};
#endif
  const size_t count = path != NULL ? 1 : sizeof(defaults) / sizeof(defaults[0]);
  size_t i;
  memset(api, 0, sizeof(*api));
  if (error != NULL && error_size != 0) error[0] = '\0';
  for (i = 0; i < count && api->library == NULL; ++i) {
    if (i != 0) moert_loader_append(error, error_size, "; ");
    api->library = moert_loader_open(path != NULL ? path : defaults[i], error, error_size);
  }
  if (api->library == NULL) return MOERT_STATUS_UNAVAILABLE;
  if (error != NULL && error_size != 0) error[0] = '\0';
  if (moert_loader_check_abi(api, error, error_size) &&
      moert_loader_resolve(api, error, error_size)) {
    return MOERT_STATUS_OK;
  }
  moert_unload(api);
  return MOERT_STATUS_UNAVAILABLE;
}

#endif /* MOERT_MOERT_LOADER_H_ */
