// SPDX-License-Identifier: Apache-2.0
// What only a GPU shows: captured calls, contexts, imported streams, threads. Runs where
// MOERT_TEST_DEVICES names cuda:0; elsewhere every case says that it is skipped.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "cuda_api.h"
#include "support/layers.h"

namespace moert::test {
namespace {

constexpr int kCaptureModes[] = {0, 1, 2};  // global, thread-local, relaxed
constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};

void OnGpu(const std::function<void(Device&)>& body) {
  const char* devices = std::getenv("MOERT_TEST_DEVICES");
  if (devices == nullptr || std::strstr(devices, "cuda:0") == nullptr) {
    MESSAGE("skipped: MOERT_TEST_DEVICES does not name cuda:0");
    return;
  }
  Device device("cuda:0");
  const PrimaryContext context;
  body(device);
}

// A layer call whose matrices stay where they are while their contents change.
struct Call {
  Call(Device& device, const moert_layer* layer, const RefLayer& reference, int64_t tokens)
      : layer(layer),
        x(device, tokens, reference.hidden, reference.dtype),
        y(device, tokens, reference.hidden, reference.dtype),
        ids(device, tokens, reference.top_k(), MOERT_DTYPE_INT32) {
    args.x = x.view();
    args.y = y.view();
    args.ids = ids.view();
    uint64_t bytes = 0;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &bytes, &error));
    workspace = Workspace(device, bytes);
    args.workspace = workspace.data();
    args.workspace_size = bytes;
  }
  void Enqueue(moert_stream* stream) {
    REQUIRE_OK(moert_layer_forward(layer, stream, &args, &error));
  }

  const moert_layer* layer;
  MatrixBuffer x, y, ids;
  DeviceBuffer workspace;
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
};

Mat RandomRows(Rng& rng, int64_t rows, int64_t cols, moert_dtype dtype, bool alike) {
  Mat x = rng.NormalMat(rows, cols, 1.0, dtype);
  // All rows alike send every token to the same experts.
  for (int64_t r = 1; alike && r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) x(r, c) = x(0, c);
  }
  return x;
}

TEST_CASE("a captured layer replays with new data and routing, in every capture mode") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    for (const moert_dtype dtype : kDtypes) {
      const Shape shape{.experts = 16, .top_k = 4, .hidden = 64, .intermediate = 40, .shared = 24};
      const RefLayer reference = RandomLayer(rng, shape, dtype);
      WeightStyle style;
      style.dtype = style.router_dtype = dtype;
      const Layer layer = MakeLayer(device, reference, style);
      for (const int mode : kCaptureModes) {
        for (const int64_t tokens : {int64_t{1}, int64_t{9}, int64_t{400}}) {
          Call call(device, layer, reference, tokens), plain(device, layer, reference, tokens);
          Call larger(device, layer, reference, 3 * tokens);
          larger.x.Set(RandomRows(rng, 3 * tokens, shape.hidden, dtype, false));
          void* stream = moert_stream_native(device.stream);
          const Graph graph(stream, mode, [&] { call.Enqueue(device.stream); });
          for (int replay = 0; replay < 6; ++replay) {
            const Mat x = RandomRows(rng, tokens, shape.hidden, dtype, replay % 2 == 0);
            call.x.Set(x), plain.x.Set(x);
            call.y.Poison(), plain.y.Poison();
            larger.Enqueue(device.stream);
            graph.Launch(stream);
            plain.Enqueue(device.stream);
            device.Synchronize();
            REQUIRE(call.y.Bytes() == plain.y.Bytes());
            REQUIRE(call.ids.GetInts() == plain.ids.GetInts());
            REQUIRE(call.y.GuardsIntact());
          }
        }
      }
    }
  });
}

TEST_CASE("captured routers and gates replay") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    void* stream = moert_stream_native(device.stream);
    moert_routing routing = MOERT_ROUTING_INIT;
    routing.num_experts = 24, routing.top_k = 5;
    const RefRouter reference = RandomRouter(rng, routing, 48, MOERT_DTYPE_FLOAT32);
    const Router router = MakeRouter(device, reference, MOERT_DTYPE_FLOAT32, 48);
    moert_gate_desc desc = MOERT_GATE_DESC_INIT;
    desc.width = 48;
    Gate gate;
    REQUIRE_OK(moert_gate_create(device.handle, &desc, gate.out(), &error));
    MatrixBuffer x(device, 50, 48, MOERT_DTYPE_FLOAT32), out(device, 50, 48, MOERT_DTYPE_FLOAT32);
    MatrixBuffer ids(device, 50, 5, MOERT_DTYPE_INT32), weights(device, 50, 5, MOERT_DTYPE_FLOAT32);
    MatrixBuffer counts(device, 1, 24, MOERT_DTYPE_INT32);
    moert_router_forward_args args = MOERT_ROUTER_FORWARD_ARGS_INIT;
    args.x = x.view(), args.ids = ids.view(), args.weights = weights.view();
    args.expert_counts = counts.view();
    uint64_t bytes = 0;
    REQUIRE_OK(moert_router_workspace_size(router, &args, &bytes, &error));
    const DeviceBuffer workspace = Workspace(device, bytes);
    args.workspace = workspace.data(), args.workspace_size = bytes;
    moert_gate_forward_args gate_args = MOERT_GATE_FORWARD_ARGS_INIT;
    gate_args.x = gate_args.g = x.view(), gate_args.out = out.view();
    for (const int mode : kCaptureModes) {
      const Graph graph(stream, mode, [&] {
        REQUIRE_OK(moert_router_forward(router, device.stream, &args, &error));
        REQUIRE_OK(moert_gate_forward(gate, device.stream, &gate_args, &error));
      });
      for (int replay = 0; replay < 3; ++replay) {
        const Mat values = rng.NormalMat(50, 48, 1.0, MOERT_DTYPE_FLOAT32);
        x.Set(values);
        ids.Poison(), weights.Poison(), counts.Poison(), out.Poison();
        graph.Launch(stream);
        device.Synchronize();
        CHECK(counts.GetInts() == RefCounts(24, ids.GetInts()));
        Mat gated = values;
        for (double& v : gated.v) v *= RefSigmoid(v);
        CHECK(RelativeError(out.Get(), gated) < Tolerance(MOERT_DTYPE_FLOAT32));
        CHECK(DistinctAndInRange(RowIds(ids.GetInts(), 49, 5), 24));
      }
    }
  });
}

TEST_CASE("a capture on one thread does not mind objects made and released on another") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    const RefLayer reference = RandomLayer(rng, Shape{}, MOERT_DTYPE_FLOAT32);
    const Layer layer = MakeLayer(device, reference);
    Call call(device, layer, reference, 5);
    call.x.Set(RandomRows(rng, 5, reference.hidden, reference.dtype, false));
    void* stream = moert_stream_native(device.stream);
    std::atomic<bool> stop{false};
    std::atomic<int> made{0};
    std::thread other([&] {
      Device mine("cuda:0");
      Rng own;
      const RefLayer small = RandomLayer(own, Shape{}, MOERT_DTYPE_FLOAT32);
      while (!stop) {
        const Layer made_here = MakeLayer(mine, small);
        const Stream stream_here = mine.NewStream();
        ++made;
      }
    });
    while (made == 0) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) {
      const int before = made;
      const Graph graph(stream, 0, [&] {
        call.Enqueue(device.stream);
        while (made < before + 2) std::this_thread::yield();
      });
      graph.Launch(stream);
      device.Synchronize();
    }
    stop = true;
    other.join();
  });
}

TEST_CASE("a call during capture without a workspace is refused and leaves the capture whole") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    const RefLayer reference = RandomLayer(rng, Shape{}, MOERT_DTYPE_FLOAT32);
    const Layer layer = MakeLayer(device, reference);
    Call call(device, layer, reference, 5);
    REQUIRE_OK(moert_stream_reserve(device.stream, call.args.workspace_size, &error));
    const moert_layer_forward_args with = call.args;
    void* stream = moert_stream_native(device.stream);
    const Graph graph(stream, 0, [&] {
      call.args.workspace = nullptr;
      call.args.workspace_size = 0;
      CHECK_REFUSED(moert_layer_forward(layer, device.stream, &call.args, &error),
                    MOERT_STATUS_INVALID_ARGUMENT, "workspace");
      call.args = with;
      call.Enqueue(device.stream);
    });
    graph.Launch(stream);
    device.Synchronize();
  });
}

TEST_CASE("the current context is the caller's before and after every call") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    void* own = nullptr;
    REQUIRE(Cuda().context_create(&own, 0, Cuda().device) == 0);
    void* popped = nullptr;
    REQUIRE(Cuda().pop(&popped) == 0);
    WeightStyle style;
    style.dtype = style.router_dtype = MOERT_DTYPE_BFLOAT16;
    const RefLayer reference = RandomLayer(rng, Shape{}, MOERT_DTYPE_BFLOAT16, style);
    const auto use = [&] {
      void* before = nullptr;
      REQUIRE(Cuda().current(&before) == 0);
      const auto same = [&] {
        void* now = nullptr;
        REQUIRE(Cuda().current(&now) == 0);
        REQUIRE(now == before);
      };
      {
        Device mine("cuda:0");
        same();
        const Layer layer = MakeLayer(mine, reference, style);
        same();
        ForwardInput input;
        input.x = rng.NormalMat(7, reference.hidden, 1.0, MOERT_DTYPE_BFLOAT16);
        CheckForward(rng, mine, layer, reference, input);
        same();
        Event event;
        REQUIRE_OK(moert_event_create(mine.handle, event.out(), &error));
        REQUIRE_OK(moert_event_record(event, mine.stream, &error));
        REQUIRE_OK(moert_event_wait(event, &error));
        same();
      }
      same();
    };
    use();
    REQUIRE(Cuda().push(own) == 0);
    use();
    REQUIRE(Cuda().pop(&popped) == 0);
    REQUIRE(Cuda().context_destroy(own) == 0);
    std::thread(use).join();  // a thread without a context
    void* event = nullptr;    // the host's own objects in the primary context still work
    REQUIRE(Cuda().event_create(&event, 0) == 0);
    REQUIRE(Cuda().event_record(event, moert_stream_native(device.stream)) == 0);
    REQUIRE(Cuda().event_wait(event) == 0);
    Cuda().event_destroy(event);
  });
}

TEST_CASE("streams of the primary context are imported, others refused") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    void* native = nullptr;
    REQUIRE(Cuda().stream_create(&native, 1) == 0);
    const RefLayer reference = RandomLayer(rng, Shape{}, MOERT_DTYPE_FLOAT32);
    const Layer layer = MakeLayer(device, reference);
    {
      Stream imported;
      REQUIRE_OK(moert_stream_import(device.handle, native, imported.out(), &error));
      CHECK(moert_stream_native(imported) == native);
      Call call(device, layer, reference, 5), plain(device, layer, reference, 5);
      const Mat x = RandomRows(rng, 5, reference.hidden, reference.dtype, false);
      call.x.Set(x), plain.x.Set(x);
      call.Enqueue(imported);
      plain.Enqueue(device.stream);
      REQUIRE(Cuda().stream_synchronize(native) == 0);
      device.Synchronize();
      CHECK(call.y.Bytes() == plain.y.Bytes());
    }
    REQUIRE(Cuda().stream_destroy(native) == 0);
    void *own = nullptr, *foreign = nullptr, *popped = nullptr;
    REQUIRE(Cuda().context_create(&own, 0, Cuda().device) == 0);
    REQUIRE(Cuda().stream_create(&foreign, 1) == 0);
    REQUIRE(Cuda().pop(&popped) == 0);
    Stream refused;
    CHECK_REFUSED(moert_stream_import(device.handle, foreign, refused.out(), &error),
                  MOERT_STATUS_INVALID_ARGUMENT, "context");
    REQUIRE(Cuda().context_destroy(own) == 0);
  });
}

TEST_CASE("two threads with a stream each, on one layer, a thousand rounds: the serial bits") {
  OnGpu([](Device& device) {
    Rng rng;
    CAPTURE(rng.seed);
    const Shape shape{.experts = 32, .top_k = 4, .hidden = 128, .intermediate = 64};
    const RefLayer reference = RandomLayer(rng, shape, MOERT_DTYPE_BFLOAT16);
    WeightStyle style;
    style.dtype = style.router_dtype = MOERT_DTYPE_BFLOAT16;
    const Layer layer = MakeLayer(device, reference, style);
    const int64_t tokens[] = {13, 700};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    std::deque<Call> calls;
    std::deque<std::vector<uint8_t>> want;
    std::deque<Stream> streams;
    for (int i = 0; i < 2; ++i) {
      calls.emplace_back(device, layer, reference, tokens[i]);
      calls[i].x.Set(RandomRows(rng, tokens[i], shape.hidden, reference.dtype, false));
      calls[i].Enqueue(device.stream);
      device.Synchronize();
      want.push_back(calls[i].y.Bytes());
      streams.push_back(device.NewStream());
    }
    std::deque<std::vector<MatrixBuffer>> outputs(2);
    constexpr int kRounds = 1000, kBuffers = 20;
    for (int i = 0; i < 2; ++i) {
      for (int b = 0; b < kBuffers; ++b) {
        outputs[i].emplace_back(device, tokens[i], shape.hidden, reference.dtype);
      }
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < kRounds; ++round) {
          moert_layer_forward_args args = calls[i].args;
          args.y = outputs[i][round % kBuffers].view();
          if (moert_layer_forward(layer, streams[i], &args, nullptr) != MOERT_STATUS_OK) ++wrong;
          if (moert_stream_synchronize(streams[i], nullptr) != MOERT_STATUS_OK) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    for (int i = 0; i < 2; ++i) {
      for (const MatrixBuffer& y : outputs[i]) CHECK(y.Bytes() == want[i]);
    }
  });
}

TEST_CASE("weights from host memory load near the rate of a plain pinned copy") {
  OnGpu([](Device& device) {
    constexpr int64_t kExperts = 64, kHidden = 2048, kIntermediate = 1408;
    const size_t elements = size_t{kExperts} * 3 * kHidden * kIntermediate;
    std::vector<uint16_t> values(elements, 0x3c00);
    const uint64_t bytes = elements * sizeof(uint16_t);
    const auto seconds_of = [&](const std::function<void()>& work) {
      const auto start = std::chrono::steady_clock::now();
      work();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    moert_routing routing = MOERT_ROUTING_INIT;
    routing.num_experts = kExperts, routing.top_k = 2;
    moert_weight weights[3] = {MOERT_WEIGHT_INIT, MOERT_WEIGHT_INIT, MOERT_WEIGHT_INIT};
    const moert_role roles[3] = {MOERT_ROLE_EXPERT_GATE, MOERT_ROLE_EXPERT_UP,
                                 MOERT_ROLE_EXPERT_DOWN};
    for (int i = 0; i < 3; ++i) {
      weights[i].role = roles[i];
      weights[i].dtype = MOERT_DTYPE_BFLOAT16;
      weights[i].rows = i < 2 ? kIntermediate : kHidden;
      weights[i].cols = i < 2 ? kHidden : kIntermediate;
      weights[i].data = values.data() + i * (elements / 3);
    }
    moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
    desc.dtype = MOERT_DTYPE_BFLOAT16;
    desc.hidden = kHidden, desc.intermediate = kIntermediate;
    desc.routing = &routing, desc.weights = weights, desc.num_weights = 3;
    double load = 1e9, copy = 1e9;
    for (int run = 0; run < 3; ++run) {
      Layer layer;
      load = std::min(load, seconds_of([&] {
                        REQUIRE_OK(moert_layer_create(device.handle, &desc, layer.out(), &error));
                      }));
    }
    void *pinned = nullptr, *memory = nullptr;
    constexpr uint64_t kCopied = 512u << 20;
    REQUIRE_OK(moert_host_alloc(device.handle, kCopied, &pinned, &error));
    REQUIRE_OK(moert_device_alloc(device.handle, kCopied, &memory, &error));
    for (int run = 0; run < 3; ++run) {
      copy =
          std::min(copy, seconds_of([&] {
                     REQUIRE_OK(moert_stream_copy(device.stream, memory, pinned, kCopied, &error));
                     device.Synchronize();
                   }));
    }
    moert_host_free(device.handle, pinned);
    moert_device_free(device.handle, memory);
    const double load_rate = bytes / load / 1e9, copy_rate = kCopied / copy / 1e9;
    MESSAGE("loading ", load_rate, " GB/s, pinned copy ", copy_rate, " GB/s, share ",
            load_rate / copy_rate);
    CHECK(load_rate > 0.4 * copy_rate);
  });
}

}  // namespace
}  // namespace moert::test
