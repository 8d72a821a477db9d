/* SPDX-License-Identifier: Apache-2.0 */
/* Loads moert with dlopen, makes a small layer from plain arrays, runs it and prints the result.
 * C89; nothing of moert is linked: gcc -std=c89 -pedantic -I include examples/c_dlopen.c -o
 * c_dlopen -ldl
 *   ./c_dlopen [path of libmoert.so.0] */
#include <stdio.h>

#include "moert/moert_loader.h"

/* Two experts, hidden 2, intermediate 1. Each is y = down * max(up . x, 0)^2, and a token goes to
 * the expert whose row of the router it agrees with more. */
static const float router[2][2] = {{1, 0}, {0, 1}}; /* [experts, hidden] */
static const float up[2][2] = {{1, 0}, {0, 1}};     /* [experts][1, hidden] */
static const float down[2][2] = {{1, 2}, {-1, 1}};  /* [experts][hidden, 1] */

static void set_weight(moert_weight* weight, moert_role role, const float* data, int64_t rows,
                       int64_t cols) {
  static const moert_weight empty = MOERT_WEIGHT_INIT;
  *weight = empty;
  weight->role = role;
  weight->dtype = MOERT_DTYPE_FLOAT32;
  weight->rows = rows;
  weight->cols = cols;
  weight->data = data;
}

static moert_status make_layer(const struct moert_api* moert, moert_device* device,
                               moert_layer** layer, moert_error* error) {
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  moert_weight weights[3];
  routing.num_experts = 2;
  routing.top_k = 1;
  routing.renormalize = MOERT_RENORMALIZE_SUM; /* One expert a token: its weight is 1. */
  activation.kind = MOERT_ACTIVATION_KIND_RELU2;
  activation.flags = MOERT_ACTIVATION_FLAG_UNGATED;
  set_weight(&weights[0], MOERT_ROLE_ROUTER, &router[0][0], 2, 2);
  set_weight(&weights[1], MOERT_ROLE_EXPERT_UP, &up[0][0], 1, 2);
  set_weight(&weights[2], MOERT_ROLE_EXPERT_DOWN, &down[0][0], 2, 1);
  desc.hidden = 2;
  desc.intermediate = 1;
  desc.routing = &routing;
  desc.activation = &activation;
  desc.weights = weights;
  desc.num_weights = 3;
  return moert->layer_create(device, &desc, layer, error);
}

static moert_status print_devices(const struct moert_api* moert, const moert_runtime* runtime,
                                  moert_error* error) {
  uint32_t count = 0, i;
  moert_status status = moert->runtime_num_devices(runtime, &count, error);
  for (i = 0; i < count && status == MOERT_STATUS_OK; ++i) {
    moert_device_info info = MOERT_DEVICE_INFO_INIT;
    status = moert->runtime_device_info(runtime, i, &info, error);
    if (status == MOERT_STATUS_OK) printf("device %s: %s, %s\n", info.id, info.name, info.arch);
  }
  return status;
}

/* Runs the layer on three tokens. The device is the CPU, so its memory is ours. */
static moert_status run_layer(const struct moert_api* moert, const moert_layer* layer,
                              moert_stream* stream, moert_error* error) {
  float x[3][2] = {{3, 1}, {1, 2}, {-1, -2}};
  float y[3][2];
  int32_t ids[3];
  moert_matrix x_view, y_view, ids_view;
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  uint64_t scratch = 0;
  moert_status status;
  int t;
  moert->matrix_init(&x_view, x, 3, 2, MOERT_DTYPE_FLOAT32);
  moert->matrix_init(&y_view, y, 3, 2, MOERT_DTYPE_FLOAT32);
  moert->matrix_init(&ids_view, ids, 3, 1, MOERT_DTYPE_INT32);
  args.x = &x_view;
  args.y = &y_view;
  args.ids = &ids_view;
  status = moert->layer_workspace_size(layer, &args, &scratch, error);
  if (status == MOERT_STATUS_OK) status = moert->stream_reserve(stream, scratch, error);
  if (status == MOERT_STATUS_OK) status = moert->layer_forward(layer, stream, &args, error);
  if (status == MOERT_STATUS_OK) status = moert->stream_synchronize(stream, error);
  for (t = 0; t < 3 && status == MOERT_STATUS_OK; ++t) {
    printf("x (%g, %g) -> expert %d -> y (%g, %g)\n", x[t][0], x[t][1], (int)ids[t], y[t][0],
           y[t][1]);
  }
  return status;
}

int main(int argc, char** argv) {
  struct moert_api moert;
  moert_runtime* runtime = NULL;
  moert_device* device = NULL;
  moert_stream* stream = NULL;
  moert_layer* layer = NULL;
  moert_error error = MOERT_ERROR_INIT;
  moert_status status;
  char why[512];

  if (moert_load(&moert, argc > 1 ? argv[1] : NULL, why, sizeof(why)) != MOERT_STATUS_OK) {
    fprintf(stderr, "c_dlopen: %s\n", why);
    return 1;
  }
  printf("moert %s\n", moert.version_string());

  status = moert.runtime_create(NULL, &runtime, &error);
  if (status == MOERT_STATUS_OK) status = print_devices(&moert, runtime, &error);
  if (status == MOERT_STATUS_OK) {
    status = moert.device_create(runtime, "cpu", NULL, &device, &error);
  }
  if (status == MOERT_STATUS_OK) status = moert.stream_create(device, NULL, &stream, &error);
  if (status == MOERT_STATUS_OK) status = make_layer(&moert, device, &layer, &error);
  if (status == MOERT_STATUS_OK) status = run_layer(&moert, layer, stream, &error);
  if (status != MOERT_STATUS_OK) fprintf(stderr, "c_dlopen: %s\n", error.message);

  moert.layer_release(layer); /* Releasing NULL is fine. */
  moert.stream_release(stream);
  moert.device_release(device);
  moert.runtime_release(runtime);
  moert_unload(&moert);
  return status == MOERT_STATUS_OK ? 0 : 1;
}
