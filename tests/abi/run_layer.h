/* SPDX-License-Identifier: Apache-2.0 */
/**
 * RunLayer: makes a runtime, a CPU device and a layer of two experts, runs two tokens and compares
 * with numbers worked out by hand. Whoever includes this defines CALL(name) as the function
 * moert_<name>: linked, or from a table. Returns 0, or says on stderr what went wrong.
 */
#ifndef MOERT_TESTS_ABI_RUN_LAYER_H_
#define MOERT_TESTS_ABI_RUN_LAYER_H_

#include <stdio.h>

#include "moert/moert.h"

/*
 * hidden 2, intermediate 1, top_k 1. The router is the identity, so a token goes to the expert of
 * its larger element, with weight 1 after renormalisation. Expert 0: y = max(x0, 0)^2 * (1, 0);
 * expert 1: y = max(x0 + x1, 0)^2 * (1, 2).
 */
static moert_status CreateTestLayer(moert_device* device, moert_layer** layer, moert_error* error) {
  static const float router[] = {1, 0, 0, 1};
  static const float up[] = {1, 0, 1, 1};
  static const float down[] = {1, 0, 1, 2};
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_weight weights[3] = {MOERT_WEIGHT_INIT, MOERT_WEIGHT_INIT, MOERT_WEIGHT_INIT};
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  int i;

  routing.num_experts = 2;
  routing.top_k = 1;
  routing.renormalize = MOERT_RENORMALIZE_SUM;
  activation.kind = MOERT_ACTIVATION_KIND_RELU2;
  activation.flags = MOERT_ACTIVATION_FLAG_UNGATED;
  weights[0].role = MOERT_ROLE_ROUTER;
  weights[0].data = router;
  weights[0].rows = 2;
  weights[0].cols = 2;
  weights[1].role = MOERT_ROLE_EXPERT_UP;
  weights[1].data = up;
  weights[1].rows = 1;
  weights[1].cols = 2;
  weights[2].role = MOERT_ROLE_EXPERT_DOWN;
  weights[2].data = down;
  weights[2].rows = 2;
  weights[2].cols = 1;
  for (i = 0; i < 3; ++i) weights[i].dtype = MOERT_DTYPE_FLOAT32;
  desc.hidden = 2;
  desc.intermediate = 1;
  desc.routing = &routing;
  desc.activation = &activation;
  desc.weights = weights;
  desc.num_weights = 3;
  return CALL(layer_create)(device, &desc, layer, error);
}

static moert_status ForwardTestLayer(moert_layer* layer, moert_stream* stream, float* y,
                                     moert_error* error) {
  float x[] = {1, 2, 3, -1};
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  moert_matrix x_matrix, y_matrix;
  uint64_t bytes = 0;
  moert_status status;

  CALL(matrix_init)(&x_matrix, x, 2, 2, MOERT_DTYPE_FLOAT32);
  CALL(matrix_init)(&y_matrix, y, 2, 2, MOERT_DTYPE_FLOAT32);
  args.x = &x_matrix;
  args.y = &y_matrix;
  status = CALL(layer_workspace_size)(layer, &args, &bytes, error);
  if (status == MOERT_STATUS_OK) status = CALL(stream_reserve)(stream, bytes, error);
  if (status == MOERT_STATUS_OK) status = CALL(layer_forward)(layer, stream, &args, error);
  if (status == MOERT_STATUS_OK) status = CALL(stream_synchronize)(stream, error);
  return status;
}

static int RunLayer(void) {
  static const float expected[] = {9, 18, 9, 0};
  float y[4] = {-1, -1, -1, -1};
  moert_error error = MOERT_ERROR_INIT;
  moert_runtime* runtime = NULL;
  moert_device* device = NULL;
  moert_stream* stream = NULL;
  moert_layer* layer = NULL;
  moert_status status;
  int i;
  int wrong = 0;

  status = CALL(runtime_create)(NULL, &runtime, &error);
  if (status == MOERT_STATUS_OK)
    status = CALL(device_create)(runtime, "cpu", NULL, &device, &error);
  if (status == MOERT_STATUS_OK) status = CALL(stream_create)(device, NULL, &stream, &error);
  if (status == MOERT_STATUS_OK) status = CreateTestLayer(device, &layer, &error);
  if (status == MOERT_STATUS_OK) status = ForwardTestLayer(layer, stream, y, &error);
  if (status != MOERT_STATUS_OK) {
    fprintf(stderr, "%s: %s\n", CALL(status_name)(status), error.message);
  }
  /* In an order that a garbage collector might choose. */
  CALL(runtime_release)(runtime);
  CALL(device_release)(device);
  CALL(layer_release)(layer);
  CALL(stream_release)(stream);
  for (i = 0; i < 4; ++i) {
    if (y[i] == expected[i]) continue;
    fprintf(stderr, "y[%d] is %g, not %g\n", i, y[i], expected[i]);
    wrong = 1;
  }
  return status != MOERT_STATUS_OK || wrong;
}

#endif /* MOERT_TESTS_ABI_RUN_LAYER_H_ */
