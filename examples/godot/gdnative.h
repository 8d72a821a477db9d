/* SPDX-License-Identifier: Apache-2.0 */
/* The few entry points of Godot 3's GDNative 1.0 that moert_layer.c calls. Declared here by the
 * published layout because no Debian package ships Godot's own headers; a project that has those
 * (github.com/godotengine/godot-headers, branch 3.x) includes <gdnative_api_struct.gen.h> instead.
 */
#ifndef MOERT_EXAMPLES_GODOT_GDNATIVE_H_
#define MOERT_EXAMPLES_GODOT_GDNATIVE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define GDN_EXPORT __declspec(dllexport)
#else
#define GDN_EXPORT __attribute__((visibility("default")))
#endif

/* Values whose insides are Godot's. */
typedef void godot_object;
typedef struct {
  uint64_t opaque[3];
} godot_variant;
typedef struct {
  void* opaque;
} godot_string, godot_char_string, godot_pool_real_array;
typedef struct godot_read_access godot_read_access;
typedef struct godot_write_access godot_write_access;

/* X(index, result, name, arguments): the index is the place in the core table, which is that of
 * modules/gdnative/gdnative_api.json, version 1.0. Later versions are tables of their own. */
#define GODOT_CORE_FUNCTIONS(X)                                                             \
  X(187, void, pool_real_array_new, (godot_pool_real_array*))                               \
  X(196, void, pool_real_array_resize, (godot_pool_real_array*, int))                       \
  X(197, godot_read_access*, pool_real_array_read, (const godot_pool_real_array*))          \
  X(198, godot_write_access*, pool_real_array_write, (godot_pool_real_array*))              \
  X(201, int, pool_real_array_size, (const godot_pool_real_array*))                         \
  X(202, void, pool_real_array_destroy, (godot_pool_real_array*))                           \
  X(276, const float*, pool_real_array_read_access_ptr, (const godot_read_access*))         \
  X(278, void, pool_real_array_read_access_destroy, (godot_read_access*))                   \
  X(304, float*, pool_real_array_write_access_ptr, (const godot_write_access*))             \
  X(306, void, pool_real_array_write_access_destroy, (godot_write_access*))                 \
  X(509, void, variant_new_nil, (godot_variant*))                                           \
  X(510, void, variant_new_bool, (godot_variant*, bool))                                    \
  X(532, void, variant_new_pool_real_array, (godot_variant*, const godot_pool_real_array*)) \
  X(539, int64_t, variant_as_int, (const godot_variant*))                                   \
  X(541, godot_string, variant_as_string, (const godot_variant*))                           \
  X(559, godot_pool_real_array, variant_as_pool_real_array, (const godot_variant*))         \
  X(572, const char*, char_string_get_data, (const godot_char_string*))                     \
  X(573, void, char_string_destroy, (godot_char_string*))                                   \
  X(678, godot_char_string, string_utf8, (const godot_string*))                             \
  X(721, void, string_destroy, (godot_string*))                                             \
  X(741, void, print_error, (const char*, const char*, const char*, int))

typedef void (*godot_function)(void);

/* Every table begins with this. */
typedef struct godot_table {
  unsigned type; /* 0: core, 1: NativeScript. */
  unsigned major, minor;
  const struct godot_table* next;
} godot_table;

struct godot_core_table {
  godot_table header;
  unsigned num_extensions;
  const godot_table* const* extensions;
  godot_function functions[];
};

/* A method of a class: gets the object, method_data, what create_func returned, and the arguments.
 */
typedef struct {
  godot_variant (*method)(godot_object*, void*, void*, int, godot_variant**);
  void* method_data;
  void (*free_func)(void*);
} godot_instance_method;
typedef struct {
  void* (*create_func)(godot_object*, void*);
  void* method_data;
  void (*free_func)(void*);
} godot_instance_create_func;
typedef struct {
  void (*destroy_func)(godot_object*, void*, void*);
  void* method_data;
  void (*free_func)(void*);
} godot_instance_destroy_func;
typedef struct {
  int rpc_type; /* 0: not called over the network. */
} godot_method_attributes;

struct godot_nativescript_table {
  godot_table header;
  void (*register_class)(void* handle, const char* name, const char* base,
                         godot_instance_create_func, godot_instance_destroy_func);
  godot_function register_tool_class;
  void (*register_method)(void* handle, const char* class_name, const char* name,
                          godot_method_attributes, godot_instance_method);
};

/* What godot_gdnative_init gets. */
typedef struct {
  bool in_editor;
  uint64_t core_api_hash, editor_api_hash, no_api_hash;
  godot_function report_version_mismatch;
  void (*report_loading_error)(const godot_object* library, const char* what);
  godot_object* gd_native_library;
  const struct godot_core_table* core;
  const godot_string* active_library_path;
} godot_gdnative_init_options;

/* The functions above by name, and the NativeScript table. */
struct godot_api {
#define GODOT_MEMBER(index, result, name, arguments) result(*name) arguments;
  GODOT_CORE_FUNCTIONS(GODOT_MEMBER)
#undef GODOT_MEMBER
  const struct godot_nativescript_table* nativescript;
};

/* Fills `api`; false where Godot offers another version. */
static inline bool godot_load(struct godot_api* api, const struct godot_core_table* core) {
  if (core->header.type != 0 || core->header.major != 1) return false;
#define GODOT_LOAD(index, result, name, arguments) \
  api->name = (result(*) arguments)core->functions[index];
  GODOT_CORE_FUNCTIONS(GODOT_LOAD)
#undef GODOT_LOAD
  for (unsigned i = 0; i < core->num_extensions; ++i) {
    const godot_table* table = core->extensions[i];
    if (table->type == 1 && table->major == 1) {
      api->nativescript = (const struct godot_nativescript_table*)table;
    }
  }
  return api->nativescript != NULL;
}

#endif /* MOERT_EXAMPLES_GODOT_GDNATIVE_H_ */
