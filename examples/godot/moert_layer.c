/* SPDX-License-Identifier: Apache-2.0 */
/* A GDNative library with one class, MoertLayer, that runs an MoE layer of a manifest beside a
 * Godot 3 game. moert is loaded at run time, so the game starts where it is absent. For GDScript:
 *
 *   open(library, manifest, layer, tokens) -> bool   library "": libmoert.so.0 where the system
 * looks submit(x) -> bool           starts y = layer(x), x a PoolRealArray of tokens * hidden;
 * returns at once, false while an earlier x is in work poll() -> PoolRealArray     y, once for each
 * x that was submitted; null while it is not ready
 *
 * What goes wrong is printed as Godot's errors are, and open and submit then return false. */
#include <stdlib.h>
#include <string.h>

#include "gdnative.h"
#include "moert/moert_loader.h"

static struct godot_api godot; /* Set once, before any class exists. */

/* An object of the class. Until open has succeeded everything is zero. */
struct layer {
  struct moert_api moert;
  moert_runtime* runtime;
  moert_device* device;
  moert_stream* stream;
  moert_event* done;
  moert_manifest* manifest;
  moert_layer* layer;
  float* x; /* [tokens, hidden], read and written by the layer while it is in flight. */
  float* y;
  moert_matrix x_view, y_view;
  moert_layer_forward_args args;
  bool in_flight;
};

#define REPORT(message) godot.print_error(message, __func__, __FILE__, __LINE__)

static godot_variant make_bool(bool value) {
  godot_variant variant;
  godot.variant_new_bool(&variant, value);
  return variant;
}

/* A copy of a string argument, for free(). */
static char* copy_text(const godot_variant* argument) {
  godot_string text = godot.variant_as_string(argument);
  godot_char_string utf8 = godot.string_utf8(&text);
  const char* data = godot.char_string_get_data(&utf8);
  char* copy = malloc(strlen(data) + 1);
  if (copy != NULL) strcpy(copy, data);
  godot.char_string_destroy(&utf8);
  godot.string_destroy(&text);
  return copy;
}

/* Releasing the stream waits for work in flight, so the buffers go after it. */
static void close_layer(struct layer* self) {
  if (self->moert.library != NULL) {
    self->moert.stream_release(self->stream);
    self->moert.event_release(self->done);
    self->moert.layer_release(self->layer);
    self->moert.manifest_release(self->manifest);
    self->moert.device_release(self->device);
    self->moert.runtime_release(self->runtime);
    moert_unload(&self->moert);
  }
  free(self->x);
  free(self->y);
  memset(self, 0, sizeof(*self));
}

static moert_status open_handles(struct layer* self, const char* path, uint32_t index,
                                 moert_error* error) {
  const struct moert_api* moert = &self->moert;
  moert_stream_desc stream = MOERT_STREAM_DESC_INIT;
  moert_manifest_desc file = MOERT_MANIFEST_DESC_INIT;
  moert_layer_open_desc options = MOERT_LAYER_OPEN_DESC_INIT;
  moert_status status;
  stream.flags = MOERT_STREAM_FLAG_ASYNC;
  file.path = path;
  options.dtype = MOERT_DTYPE_FLOAT32;
  if ((status = moert->runtime_create(NULL, &self->runtime, error)) != 0 ||
      (status = moert->device_create(self->runtime, "cpu", NULL, &self->device, error)) != 0 ||
      (status = moert->stream_create(self->device, &stream, &self->stream, error)) != 0 ||
      (status = moert->event_create(self->device, &self->done, error)) != 0 ||
      (status = moert->manifest_open(self->runtime, &file, &self->manifest, error)) != 0) {
    return status;
  }
  return moert->layer_open(self->device, self->manifest, index, &options, &self->layer, error);
}

/* Allocates all that the frames need. */
static moert_status make_buffers(struct layer* self, int64_t tokens, moert_error* error) {
  const struct moert_api* moert = &self->moert;
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  moert_status status = moert->layer_get_info(self->layer, &info, error);
  uint64_t scratch = 0;
  if (status != MOERT_STATUS_OK) return status;
  self->x = calloc((size_t)(tokens * info.hidden), sizeof(float));
  self->y = calloc((size_t)(tokens * info.hidden), sizeof(float));
  if (self->x == NULL || self->y == NULL) {
    strcpy(error->message, "out of memory");
    return MOERT_STATUS_OUT_OF_MEMORY;
  }
  moert->matrix_init(&self->x_view, self->x, tokens, info.hidden, MOERT_DTYPE_FLOAT32);
  moert->matrix_init(&self->y_view, self->y, tokens, info.hidden, MOERT_DTYPE_FLOAT32);
  moert->layer_forward_args_init(&self->args);
  self->args.x = &self->x_view;
  self->args.y = &self->y_view;
  status = moert->layer_workspace_size(self->layer, &self->args, &scratch, error);
  return status != 0 ? status : moert->stream_reserve(self->stream, scratch, error);
}

static bool open_layer(struct layer* self, const char* library, const char* manifest, int64_t index,
                       int64_t tokens) {
  moert_error error = MOERT_ERROR_INIT;
  if (index < 0 || index > UINT32_MAX || tokens < 1 || tokens > 4096) {
    REPORT("open takes a layer from 0 and 1 to 4096 tokens");
    return false;
  }
  if (moert_load(&self->moert, library[0] != '\0' ? library : NULL, error.message,
                 sizeof(error.message)) != MOERT_STATUS_OK ||
      open_handles(self, manifest, (uint32_t)index, &error) != MOERT_STATUS_OK ||
      make_buffers(self, tokens, &error) != MOERT_STATUS_OK) {
    REPORT(error.message);
    return false;
  }
  return true;
}

static godot_variant method_open(godot_object* object, void* data, void* user_data, int count,
                                 godot_variant** arguments) {
  struct layer* self = user_data;
  char *library, *manifest;
  bool opened = false;
  (void)object, (void)data;
  if (count != 4) {
    REPORT("open takes library, manifest, layer and tokens");
    return make_bool(false);
  }
  close_layer(self);
  library = copy_text(arguments[0]);
  manifest = copy_text(arguments[1]);
  if (library == NULL || manifest == NULL) {
    REPORT("out of memory");
  } else {
    opened = open_layer(self, library, manifest, godot.variant_as_int(arguments[2]),
                        godot.variant_as_int(arguments[3]));
  }
  free(library);
  free(manifest);
  if (!opened) close_layer(self);
  return make_bool(opened);
}

/* Enqueues the layer on what is in self->x, and the event behind it. */
static bool start(struct layer* self) {
  moert_error error = MOERT_ERROR_INIT;
  if (self->moert.layer_forward(self->layer, self->stream, &self->args, &error) != 0 ||
      self->moert.event_record(self->done, self->stream, &error) != 0) {
    REPORT(error.message);
    self->moert.stream_synchronize(self->stream, NULL); /* So that x and y are free again. */
    return false;
  }
  return true;
}

static godot_variant method_submit(godot_object* object, void* data, void* user_data, int count,
                                   godot_variant** arguments) {
  struct layer* self = user_data;
  const int64_t size = self->x_view.rows * self->x_view.cols;
  godot_pool_real_array array;
  godot_read_access* access;
  (void)object, (void)data;
  if (self->in_flight) return make_bool(false);
  if (self->layer == NULL || count != 1) {
    REPORT(self->layer == NULL ? "submit before open" : "submit takes one PoolRealArray");
    return make_bool(false);
  }
  array = godot.variant_as_pool_real_array(arguments[0]);
  if (godot.pool_real_array_size(&array) == size) {
    access = godot.pool_real_array_read(&array);
    memcpy(self->x, godot.pool_real_array_read_access_ptr(access), (size_t)size * sizeof(float));
    godot.pool_real_array_read_access_destroy(access);
    self->in_flight = start(self);
  } else {
    REPORT("submit takes tokens * hidden numbers");
  }
  godot.pool_real_array_destroy(&array);
  return make_bool(self->in_flight);
}

static godot_variant method_poll(godot_object* object, void* data, void* user_data, int count,
                                 godot_variant** arguments) {
  struct layer* self = user_data;
  const int64_t size = self->y_view.rows * self->y_view.cols;
  moert_error error = MOERT_ERROR_INIT;
  moert_status status = MOERT_STATUS_NOT_READY;
  godot_pool_real_array array;
  godot_write_access* access;
  godot_variant result;
  (void)object, (void)data, (void)count, (void)arguments;
  if (self->in_flight) status = self->moert.event_query(self->done, &error);
  if (status == MOERT_STATUS_NOT_READY) {
    godot.variant_new_nil(&result);
    return result;
  }
  self->in_flight = false;
  godot.pool_real_array_new(&array);
  if (status == MOERT_STATUS_OK) {
    godot.pool_real_array_resize(&array, (int)size);
    access = godot.pool_real_array_write(&array);
    memcpy(godot.pool_real_array_write_access_ptr(access), self->y, (size_t)size * sizeof(float));
    godot.pool_real_array_write_access_destroy(access);
  } else {
    REPORT(error.message);
  }
  godot.variant_new_pool_real_array(&result, &array);
  godot.pool_real_array_destroy(&array);
  return result;
}

static void* create(godot_object* object, void* data) {
  (void)object, (void)data;
  return calloc(1, sizeof(struct layer));
}

static void destroy(godot_object* object, void* data, void* user_data) {
  (void)object, (void)data;
  close_layer(user_data);
  free(user_data);
}

/* The three functions below are what Godot looks for, by name. */
GDN_EXPORT void godot_gdnative_init(godot_gdnative_init_options* options) {
  if (!godot_load(&godot, options->core)) {
    options->report_loading_error(options->gd_native_library, "GDNative 1.0 is needed");
  }
}

GDN_EXPORT void godot_gdnative_terminate(void* options) { (void)options; }

GDN_EXPORT void godot_nativescript_init(void* handle) {
  static const struct {
    const char* name;
    godot_instance_method method;
  } methods[] = {{"open", {method_open, NULL, NULL}},
                 {"submit", {method_submit, NULL, NULL}},
                 {"poll", {method_poll, NULL, NULL}}};
  const godot_instance_create_func creator = {create, NULL, NULL};
  const godot_instance_destroy_func destroyer = {destroy, NULL, NULL};
  const godot_method_attributes local = {0};
  if (godot.nativescript == NULL) return;
  godot.nativescript->register_class(handle, "MoertLayer", "Reference", creator, destroyer);
  for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); ++i) {
    godot.nativescript->register_method(handle, "MoertLayer", methods[i].name, local,
                                        methods[i].method);
  }
}
