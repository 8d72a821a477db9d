// SPDX-License-Identifier: Apache-2.0
// Where memory comes from: forward calls take none, everything else comes from the host's
// allocator, goes back to it, and may be refused at any point.
#include <functional>

#include "support/allocations.h"
#include "support/layers.h"

namespace moert::test {
namespace {

RefLayer SmallLayer(Rng& rng) {
  RefLayer out = RandomLayer(
      rng, {.experts = 6, .top_k = 3, .hidden = 24, .intermediate = 17, .shared = 9, .latent = 11},
      MOERT_DTYPE_FLOAT32);
  out.router.bias = rng.NormalMat(1, 6, 1, MOERT_DTYPE_FLOAT32);
  return out;
}

TEST_CASE("forward calls allocate nothing") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = SmallLayer(rng);
  ForEachDevice([&](Device& shared) {
    CountingAllocator allocator;
    moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
    desc.allocator = allocator.get();
    Device device(shared.id, &desc);
    const Layer layer = MakeLayer(device, reference);
    moert_gate_desc gate_desc = MOERT_GATE_DESC_INIT;
    gate_desc.width = 24;
    Gate gate;
    REQUIRE_OK(moert_gate_create(device.handle, &gate_desc, gate.out(), &error));
    for (uint32_t flags : {0u, uint32_t{MOERT_STREAM_FLAG_ASYNC}}) {
      const Stream stream = device.NewStream(flags);
      for (int64_t tokens : {1, 3, 64, 200}) {
        MatrixBuffer x(device, rng.NormalMat(tokens, 24, 1, MOERT_DTYPE_FLOAT32),
                       MOERT_DTYPE_FLOAT32);
        MatrixBuffer y(device, tokens, 24, MOERT_DTYPE_FLOAT32);
        moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
        args.x = x.view();
        args.y = y.view();
        moert_gate_forward_args gate_args = MOERT_GATE_FORWARD_ARGS_INIT;
        gate_args.x = gate_args.g = x.view();
        gate_args.out = y.view();
        uint64_t size = 0;
        REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
        REQUIRE_OK(moert_stream_reserve(stream, size, &error));

        const uint64_t from_host = allocator.allocations();
        const uint64_t from_heap = HeapAllocations();
        moert_status status = MOERT_STATUS_OK;
        for (int run = 0; run < 5 && status == MOERT_STATUS_OK; ++run) {
          status = moert_layer_forward(layer, stream, &args, nullptr);
          if (status == MOERT_STATUS_OK) {
            status = moert_gate_forward(gate, stream, &gate_args, nullptr);
          }
        }
        if (status == MOERT_STATUS_OK) status = moert_stream_synchronize(stream, nullptr);
        const uint64_t heap_used = HeapAllocations() - from_heap;
        CHECK(status == MOERT_STATUS_OK);
        CHECK(allocator.allocations() == from_host);
        // The test device's own queue does allocate.
        if (device.info.kind != MOERT_DEVICE_KIND_OTHER) CHECK(heap_used == 0);
      }
    }
  });
}

TEST_CASE("all memory of a runtime goes back to its allocator, as it was asked for") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = SmallLayer(rng);
  ForEachDevice([&](Device& shared) {
    CountingAllocator allocator;
    {
      moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
      desc.allocator = allocator.get();
      Device device(shared.id, &desc);
      const Layer layer = MakeLayer(device, reference);
      ForwardInput input;
      input.x = rng.NormalMat(5, 24, 1, MOERT_DTYPE_FLOAT32);
      CheckForward(rng, device, layer, reference, input);
      CHECK(allocator.live_blocks() > 0);
      CHECK(allocator.freed() == 0);
    }
    CHECK(allocator.live_blocks() == 0);
    CHECK(allocator.wrong_frees() == 0);
    CHECK(allocator.freed() == 1);
  });
}

TEST_CASE("an allocator is freed after the last block, whichever handle goes last") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = SmallLayer(rng);
  Device source_device("cpu");
  LayerSource source(source_device, reference, {});
  for (int last = 0; last < 7; ++last) {
    CAPTURE(last);
    CountingAllocator allocator;
    moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
    desc.allocator = allocator.get();
    moert_router_desc router_desc = MOERT_ROUTER_DESC_INIT;
    router_desc.routing = source.desc.routing;
    moert_gate_desc gate_desc = MOERT_GATE_DESC_INIT;
    gate_desc.width = 8;
    Runtime runtime;
    DeviceHandle device;
    Stream stream;
    Event event;
    Layer layer;
    Router router;
    Gate gate;
    REQUIRE_OK(moert_runtime_create(&desc, runtime.out(), &error));
    REQUIRE_OK(moert_device_create(runtime, "cpu", nullptr, device.out(), &error));
    REQUIRE_OK(moert_stream_create(device, nullptr, stream.out(), &error));
    REQUIRE_OK(moert_event_create(device, event.out(), &error));
    REQUIRE_OK(moert_layer_create(device, &source.desc, layer.out(), &error));
    REQUIRE_OK(moert_router_create(device, &router_desc, router.out(), &error));
    REQUIRE_OK(moert_gate_create(device, &gate_desc, gate.out(), &error));
    const std::function<void()> drops[] = {
        [&] { runtime = Runtime(); }, [&] { device = DeviceHandle(); }, [&] { stream = Stream(); },
        [&] { event = Event(); },     [&] { layer = Layer(); },         [&] { router = Router(); },
        [&] { gate = Gate(); }};
    for (int i = 1; i <= 7; ++i) {
      CHECK(allocator.freed() == 0);
      drops[(last + i) % 7]();
    }
    CHECK(allocator.live_blocks() == 0);
    CHECK(allocator.wrong_frees() == 0);
    CHECK(allocator.freed() == 1);
  }
}

// Creates everything that a host creates; false at the first call that fails, which must say that
// memory ran out and leave its output alone.
bool CreateAll(const moert_runtime_desc& desc, const std::string& id, LayerSource& source) {
  Error error;
  bool all = true;
  auto made = [&](moert_status status, const void* handle) {
    if (status == MOERT_STATUS_OK) return true;
    CHECK(status == MOERT_STATUS_OUT_OF_MEMORY);
    CHECK(handle == nullptr);
    all = false;
    return false;
  };
  Runtime runtime;
  DeviceHandle device;
  Stream stream;
  Event event;
  Layer layer;
  Router router;
  Gate gate;
  moert_router_desc router_desc = MOERT_ROUTER_DESC_INIT;
  router_desc.routing = source.desc.routing;
  moert_gate_desc gate_desc = MOERT_GATE_DESC_INIT;
  gate_desc.width = 8;
  if (made(moert_runtime_create(&desc, runtime.out(), &error), runtime) &&
      made(moert_device_create(runtime, id.c_str(), nullptr, device.out(), &error), device) &&
      made(moert_stream_create(device, nullptr, stream.out(), &error), stream) &&
      made(moert_event_create(device, event.out(), &error), event) &&
      made(moert_layer_create(device, &source.desc, layer.out(), &error), layer) &&
      made(moert_router_create(device, &router_desc, router.out(), &error), router) &&
      made(moert_gate_create(device, &gate_desc, gate.out(), &error), gate)) {
    made(moert_stream_reserve(stream, 10000, &error), nullptr);
  }
  return all;
}

TEST_CASE("memory that runs out at any point gives an error, and nothing is lost") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = SmallLayer(rng);
  Device scratch("cpu");
  LayerSource source(scratch, reference, {});
  CountingAllocator allocator;
  moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
  desc.allocator = allocator.get();
  bool done = false;
  int attempts = 0;
  for (; !done && attempts < 1000; ++attempts) {
    CAPTURE(attempts);
    allocator.FailAfter(attempts);
    done = CreateAll(desc, "cpu", source);
    REQUIRE(allocator.live_blocks() == 0);
    REQUIRE(allocator.wrong_frees() == 0);
    REQUIRE(allocator.freed() == attempts + 1);
  }
  CHECK(done);
  CHECK(attempts > 5);
}

}  // namespace
}  // namespace moert::test
