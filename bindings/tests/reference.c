/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what the C ABI computes from random numbers, for the tests of the bindings to compare with
 * bit by bit. A line is a name, the number of values and the values' 32 bits in hexadecimal; the
 * inputs stand beside the outputs.
 *
 *   reference SEED > FILE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moert/moert.h"

enum { T = 5, H = 12, I = 7, E = 6, K = 2, S = 9 };

static uint32_t random_state;
static moert_error error = MOERT_ERROR_INIT;

static void check(moert_status status) {
  if (status != MOERT_STATUS_OK) {
    fprintf(stderr, "%s: %s\n", moert_status_name(status), error.message);
    exit(1);
  }
}

/* xorshift32; values from -1 to 1. */
static void fill(float* values, int count) {
  for (int i = 0; i < count; ++i) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    values[i] = (float)(int32_t)random_state / 2147483648.0f;
  }
}

static void print(const char* name, const void* values, int count) {
  printf("%s %d", name, count);
  for (int i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, (const char*)values + 4 * i, 4);
    printf(" %08" PRIx32, bits);
  }
  printf("\n");
}

static void print_bf16(const char* name, const uint16_t* values, int count) {
  printf("%s %d", name, count);
  for (int i = 0; i < count; ++i) printf(" %08x", values[i]);
  printf("\n");
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static moert_matrix matrix(void* data, int64_t rows, int64_t cols, moert_dtype dtype) {
  moert_matrix m;
  moert_matrix_init(&m, data, rows, cols, dtype);
  return m;
}

typedef struct {
  moert_role role;
  const char* name;
  int64_t rows, cols;
  int count; /* Experts, stacked. */
  float values[E * I * H];
  uint16_t bf16[E * I * H];
} weight;

static weight weights[] = {
    {MOERT_ROLE_ROUTER, "router", E, H, 1, {0}, {0}},
    {MOERT_ROLE_EXPERT_GATE, "expert_gate", I, H, E, {0}, {0}},
    {MOERT_ROLE_EXPERT_UP, "expert_up", I, H, E, {0}, {0}},
    {MOERT_ROLE_EXPERT_DOWN, "expert_down", H, I, E, {0}, {0}},
    {MOERT_ROLE_SHARED_GATE, "shared_gate", S, H, 1, {0}, {0}},
    {MOERT_ROLE_SHARED_UP, "shared_up", S, H, 1, {0}, {0}},
    {MOERT_ROLE_SHARED_DOWN, "shared_down", H, S, 1, {0}, {0}},
    {MOERT_ROLE_SHARED_EXPERT_GATE, "shared_expert_gate", 1, H, 1, {0}, {0}},
};
enum { kWeights = sizeof(weights) / sizeof(weights[0]) };

static moert_routing routing(void) {
  moert_routing r = MOERT_ROUTING_INIT;
  r.num_experts = E;
  r.top_k = K;
  r.renormalize = MOERT_RENORMALIZE_SUM;
  return r;
}

static moert_layer* make_layer(moert_device* device, moert_dtype dtype) {
  moert_weight list[kWeights];
  for (int i = 0; i < kWeights; ++i) {
    moert_weight_init(&list[i]);
    list[i].role = weights[i].role;
    list[i].dtype = dtype;
    list[i].rows = weights[i].rows;
    list[i].cols = weights[i].cols;
    list[i].data = dtype == MOERT_DTYPE_FLOAT32 ? (void*)weights[i].values : weights[i].bf16;
  }
  moert_routing r = routing();
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  desc.dtype = dtype;
  desc.hidden = H;
  desc.intermediate = I;
  desc.shared_intermediate = S;
  desc.routing = &r;
  desc.weights = list;
  desc.num_weights = kWeights;
  moert_layer* layer;
  check(moert_layer_create(device, &desc, &layer, &error));
  return layer;
}

static void forward(const moert_layer* layer, moert_stream* stream,
                    const moert_layer_forward_args* args) {
  uint64_t bytes;
  check(moert_layer_workspace_size(layer, args, &bytes, &error));
  check(moert_stream_reserve(stream, bytes, &error));
  check(moert_layer_forward(layer, stream, args, &error));
  check(moert_stream_synchronize(stream, &error));
}

static void run_float32(moert_device* device, moert_stream* stream, float* x) {
  static float y[T * H], expert_weights[T * K], logits[T * E];
  static int32_t ids[T * K], counts[E];
  moert_layer* layer = make_layer(device, MOERT_DTYPE_FLOAT32);
  const moert_matrix mx = matrix(x, T, H, MOERT_DTYPE_FLOAT32);
  const moert_matrix my = matrix(y, T, H, MOERT_DTYPE_FLOAT32);
  const moert_matrix mids = matrix(ids, T, K, MOERT_DTYPE_INT32);
  const moert_matrix mweights = matrix(expert_weights, T, K, MOERT_DTYPE_FLOAT32);
  const moert_matrix mlogits = matrix(logits, T, E, MOERT_DTYPE_FLOAT32);
  const moert_matrix mcounts = matrix(counts, 1, E, MOERT_DTYPE_INT32);
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  args.x = &mx;
  args.y = &my;
  args.ids = &mids;
  args.weights = &mweights;
  args.logits = &mlogits;
  args.expert_counts = &mcounts;
  forward(layer, stream, &args);
  print("y", y, T * H);
  print("ids", ids, T * K);
  print("weights", expert_weights, T * K);
  print("logits", logits, T * E);
  print("expert_counts", counts, E);

  /* Caller's routing: the first slot is skipped, shared expert left out, added to y. */
  for (int i = 0; i < T * K; ++i) ids[i] = i % 4 - 1;
  args.logits = NULL;
  args.expert_counts = NULL;
  args.flags = MOERT_FORWARD_FLAG_GIVEN_ROUTING | MOERT_FORWARD_FLAG_ACCUMULATE |
               MOERT_FORWARD_FLAG_SKIP_SHARED;
  forward(layer, stream, &args);
  print("given_ids", ids, T * K);
  print("given_y", y, T * H);
  moert_layer_release(layer);
}

static void run_bfloat16(moert_device* device, moert_stream* stream, const float* x) {
  static uint16_t narrow[T * H], y[T * H];
  for (int i = 0; i < T * H; ++i) narrow[i] = to_bf16(x[i]);
  moert_layer* layer = make_layer(device, MOERT_DTYPE_BFLOAT16);
  const moert_matrix mx = matrix(narrow, T, H, MOERT_DTYPE_BFLOAT16);
  const moert_matrix my = matrix(y, T, H, MOERT_DTYPE_BFLOAT16);
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  args.x = &mx;
  args.y = &my;
  forward(layer, stream, &args);
  print_bf16("x_bf16", narrow, T * H);
  print_bf16("y_bf16", y, T * H);
  moert_layer_release(layer);
}

static void run_router(moert_device* device, moert_stream* stream) {
  static float given[T * E], expert_weights[T * K];
  static int32_t ids[T * K];
  fill(given, T * E);
  moert_routing r = routing();
  moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
  desc.routing = &r;
  moert_router* router;
  check(moert_router_create(device, &desc, &router, &error));
  const moert_matrix mgiven = matrix(given, T, E, MOERT_DTYPE_FLOAT32);
  const moert_matrix mids = matrix(ids, T, K, MOERT_DTYPE_INT32);
  const moert_matrix mweights = matrix(expert_weights, T, K, MOERT_DTYPE_FLOAT32);
  moert_router_forward_args args = MOERT_ROUTER_FORWARD_ARGS_INIT;
  args.given_logits = &mgiven;
  args.ids = &mids;
  args.weights = &mweights;
  uint64_t bytes;
  check(moert_router_workspace_size(router, &args, &bytes, &error));
  check(moert_stream_reserve(stream, bytes, &error));
  check(moert_router_forward(router, stream, &args, &error));
  check(moert_stream_synchronize(stream, &error));
  print("router_given", given, T * E);
  print("router_ids", ids, T * K);
  print("router_weights", expert_weights, T * K);
  moert_router_release(router);
}

static void run_gate(moert_device* device, moert_stream* stream, float* x) {
  static float g[T], out[T * H];
  fill(g, T);
  fill(out, T * H);
  moert_gate_desc desc = MOERT_GATE_DESC_INIT;
  desc.kind = MOERT_GATE_KIND_ADD_ROWS;
  desc.width = H;
  moert_gate* gate;
  check(moert_gate_create(device, &desc, &gate, &error));
  const moert_matrix mx = matrix(x, T, H, MOERT_DTYPE_FLOAT32);
  const moert_matrix mg = matrix(g, T, 1, MOERT_DTYPE_FLOAT32);
  const moert_matrix mout = matrix(out, T, H, MOERT_DTYPE_FLOAT32);
  moert_gate_forward_args args = MOERT_GATE_FORWARD_ARGS_INIT;
  args.x = &mx;
  args.g = &mg;
  args.out = &mout;
  print("gate_g", g, T);
  print("gate_acc", out, T * H);
  check(moert_gate_forward(gate, stream, &args, &error));
  check(moert_stream_synchronize(stream, &error));
  print("gate_out", out, T * H);
  moert_gate_release(gate);
}

int main(int argc, char** argv) {
  static float x[T * H];
  moert_runtime* runtime;
  moert_device* device;
  moert_stream* stream;
  const int32_t shape[] = {T, H, I, E, K, S};
  if (argc != 2) {
    fprintf(stderr, "usage: reference SEED\n");
    return 1;
  }
  random_state = (uint32_t)strtoul(argv[1], NULL, 10) | 1;
  check(moert_runtime_create(NULL, &runtime, &error));
  check(moert_device_create(runtime, "cpu", NULL, &device, &error));
  check(moert_stream_create(device, NULL, &stream, &error));
  print("shape", shape, 6);
  fill(x, T * H);
  print("x", x, T * H);
  for (int i = 0; i < kWeights; ++i) {
    const int count = (int)(weights[i].rows * weights[i].cols) * weights[i].count;
    fill(weights[i].values, count);
    for (int j = 0; j < count; ++j) weights[i].bf16[j] = to_bf16(weights[i].values[j]);
    print(weights[i].name, weights[i].values, count);
  }
  run_float32(device, stream, x);
  run_bfloat16(device, stream, x);
  run_router(device, stream);
  run_gate(device, stream, x);
  moert_stream_release(stream);
  moert_device_release(device);
  moert_runtime_release(runtime);
  return 0;
}
