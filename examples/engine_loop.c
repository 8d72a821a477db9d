/* SPDX-License-Identifier: Apache-2.0 */
/* A game's frame loop with an MoE layer beside it. The layer runs on an asynchronous stream: a
 * frame submits it or asks, without waiting, whether it is done. No frame blocks on the layer or
 * allocates. Prints how long frames take without the layer and with it. engine_loop [frames]
 * [frames a second] */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "moert/moert.h"

enum {
  kExperts = 16,
  kTopK = 2,
  kHidden = 256,
  kIntermediate = 512,
  kTokens = 8,
  kMaxFrames = 10000
};

/* Counts what the library allocates, so that the loop can show that frames need nothing. */
static _Atomic long allocations;

static void* count_alloc(void* user_data, uint64_t bytes, uint64_t alignment) {
  void* memory = NULL;
  (void)user_data;
  ++allocations;
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void count_free(void* user_data, void* block, uint64_t bytes, uint64_t alignment) {
  (void)user_data, (void)bytes, (void)alignment;
  free(block);
}

/* Everything the loop uses, made before the first frame. */
struct engine {
  moert_runtime* runtime;
  moert_device* device;
  moert_stream* stream;
  moert_event* done;
  moert_layer* layer;
  float x[kTokens * kHidden];
  float y[kTokens * kHidden];
  moert_matrix x_view, y_view;
  moert_layer_forward_args args;
  int in_flight;
  int submitted, finished;
  moert_error error;
};

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_until(double when) {
  struct timespec until;
  until.tv_sec = (time_t)when;
  until.tv_nsec = (long)(1e9 * (when - (double)until.tv_sec));
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) continue;
}

/* `count` values in -scale..scale. */
static float* random_weights(size_t count, float scale) {
  float* values = malloc(count * sizeof(float));
  size_t i;
  if (values == NULL) exit(1);
  for (i = 0; i < count; ++i) values[i] = scale * (2 * (float)rand() / (float)RAND_MAX - 1);
  return values;
}

static moert_weight make_weight(moert_role role, int64_t rows, int64_t cols, const float* data) {
  moert_weight weight = MOERT_WEIGHT_INIT;
  weight.role = role;
  weight.dtype = MOERT_DTYPE_FLOAT32;
  weight.rows = rows;
  weight.cols = cols;
  weight.data = data;
  return weight;
}

static moert_status make_layer(struct engine* engine) {
  const size_t matrix = (size_t)kHidden * kIntermediate;
  float* router = random_weights((size_t)kExperts * kHidden, 0.1f);
  float* gate = random_weights(kExperts * matrix, 0.05f);
  float* up = random_weights(kExperts * matrix, 0.05f);
  float* down = random_weights(kExperts * matrix, 0.05f);
  const moert_weight weights[] = {
      make_weight(MOERT_ROLE_ROUTER, kExperts, kHidden, router),
      make_weight(MOERT_ROLE_EXPERT_GATE, kIntermediate, kHidden, gate),
      make_weight(MOERT_ROLE_EXPERT_UP, kIntermediate, kHidden, up),
      make_weight(MOERT_ROLE_EXPERT_DOWN, kHidden, kIntermediate, down),
  };
  moert_routing routing = MOERT_ROUTING_INIT;
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  moert_status status;
  routing.num_experts = kExperts;
  routing.top_k = kTopK;
  routing.renormalize = MOERT_RENORMALIZE_SUM;
  desc.hidden = kHidden;
  desc.intermediate = kIntermediate;
  desc.routing = &routing;
  desc.weights = weights;
  desc.num_weights = sizeof(weights) / sizeof(weights[0]);
  status = moert_layer_create(engine->device, &desc, &engine->layer, &engine->error);
  free(router), free(gate), free(up), free(down); /* The layer has copied them. */
  return status;
}

static moert_status open_engine(struct engine* engine) {
  moert_allocator allocator = MOERT_ALLOCATOR_INIT;
  moert_runtime_desc runtime = MOERT_RUNTIME_DESC_INIT;
  moert_stream_desc stream = MOERT_STREAM_DESC_INIT;
  moert_error* error = &engine->error;
  moert_status status;
  uint64_t scratch = 0;
  allocator.alloc = count_alloc;
  allocator.free = count_free;
  runtime.allocator = &allocator;
  stream.flags = MOERT_STREAM_FLAG_ASYNC;
  moert_matrix_init(&engine->x_view, engine->x, kTokens, kHidden, MOERT_DTYPE_FLOAT32);
  moert_matrix_init(&engine->y_view, engine->y, kTokens, kHidden, MOERT_DTYPE_FLOAT32);
  moert_layer_forward_args_init(&engine->args);
  engine->args.x = &engine->x_view;
  engine->args.y = &engine->y_view;
  if ((status = moert_runtime_create(&runtime, &engine->runtime, error)) != 0 ||
      (status = moert_device_create(engine->runtime, "cpu", NULL, &engine->device, error)) != 0 ||
      (status = moert_stream_create(engine->device, &stream, &engine->stream, error)) != 0 ||
      (status = moert_event_create(engine->device, &engine->done, error)) != 0 ||
      (status = make_layer(engine)) != 0 ||
      (status = moert_layer_workspace_size(engine->layer, &engine->args, &scratch, error)) != 0) {
    return status;
  }
  return moert_stream_reserve(engine->stream, scratch, error);
}

static void close_engine(struct engine* engine) {
  moert_layer_release(engine->layer);
  moert_event_release(engine->done);
  moert_stream_release(engine->stream);
  moert_device_release(engine->device);
  moert_runtime_release(engine->runtime);
}

/* The game's own work of a frame: about a millisecond of arithmetic. */
static float play(int frame) {
  const double until = seconds_now() + 1e-3;
  float position = (float)frame;
  while (seconds_now() < until) position = position * 0.999f + 0.5f;
  return position;
}

/* The layer's part of a frame: takes a result that is ready, then submits the next. Never waits. */
static moert_status think(struct engine* engine, float input) {
  moert_error* error = &engine->error;
  moert_status status;
  int i;
  if (engine->in_flight) {
    status = moert_event_query(engine->done, error);
    if (status == MOERT_STATUS_NOT_READY) return MOERT_STATUS_OK; /* Look again next frame. */
    if (status != MOERT_STATUS_OK) return status;
    engine->in_flight = 0;
    ++engine->finished; /* engine->y is the game's now. */
  }
  for (i = 0; i < kTokens * kHidden; ++i) engine->x[i] = input * (float)(i % 5 - 2) * 1e-3f;
  status = moert_layer_forward(engine->layer, engine->stream, &engine->args, error);
  if (status == MOERT_STATUS_OK) status = moert_event_record(engine->done, engine->stream, error);
  if (status != MOERT_STATUS_OK) return status;
  engine->in_flight = 1;
  ++engine->submitted;
  return MOERT_STATUS_OK;
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Runs `frames` frames at a fixed rate and prints how long their work took. */
static moert_status run_frames(struct engine* engine, const char* name, int with_layer, int frames,
                               double rate) {
  static double work[kMaxFrames];
  const double start = seconds_now();
  int frame;
  for (frame = 0; frame < frames; ++frame) {
    const double begin = seconds_now();
    const float input = play(frame);
    if (with_layer) {
      const moert_status status = think(engine, input);
      if (status != MOERT_STATUS_OK) return status;
    }
    work[frame] = seconds_now() - begin;
    sleep_until(start + (frame + 1) / rate);
  }
  qsort(work, (size_t)frames, sizeof(work[0]), compare_doubles);
  printf("%-14s %8.3f %8.3f %8.3f\n", name, 1e3 * work[frames / 2], 1e3 * work[frames * 99 / 100],
         1e3 * work[frames - 1]);
  return MOERT_STATUS_OK;
}

int main(int argc, char** argv) {
  static struct engine engine;
  const int frames = argc > 1 ? atoi(argv[1]) : 120;
  const double rate = argc > 2 ? atof(argv[2]) : 60;
  moert_status status;
  long before;
  if (frames < 1 || frames > kMaxFrames || !(rate > 0)) {
    fprintf(stderr, "usage: engine_loop [frames, 1 to %d] [frames a second, above 0]\n",
            kMaxFrames);
    return 1;
  }
  status = open_engine(&engine);
  if (status == MOERT_STATUS_OK) {
    printf("%d frames at %g a second; work of a frame in ms\n", frames, rate);
    printf("%-14s %8s %8s %8s\n", "", "median", "99 %", "longest");
    status = run_frames(&engine, "without layer", 0, frames, rate);
  }
  before = allocations;
  if (status == MOERT_STATUS_OK) status = run_frames(&engine, "with layer", 1, frames, rate);
  before = allocations - before;
  if (status == MOERT_STATUS_OK) status = moert_stream_synchronize(engine.stream, &engine.error);
  if (status == MOERT_STATUS_OK) {
    printf("%d layers submitted, %d finished within the frames, %ld allocations\n",
           engine.submitted, engine.finished, before);
  } else {
    fprintf(stderr, "engine_loop: %s\n", engine.error.message);
  }
  close_engine(&engine);
  return status == MOERT_STATUS_OK ? 0 : 1;
}
