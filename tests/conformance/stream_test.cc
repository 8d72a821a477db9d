// SPDX-License-Identifier: Apache-2.0
// The order of work: streams, events, copies, and handles released while work is under way.
#include <atomic>
#include <mutex>
#include <thread>

#include "support/layers.h"

namespace moert::test {
namespace {

// A layer call whose arguments live until it is done, on any stream.
struct PendingCall {
  PendingCall(Rng& rng, Device& device_in, uint32_t stream_flags, int64_t tokens)
      : device(device_in),
        reference(RandomLayer(rng, {.experts = 6, .top_k = 2, .hidden = 40, .intermediate = 33},
                              MOERT_DTYPE_FLOAT32)),
        layer(MakeLayer(device, reference)),
        stream(device.NewStream(stream_flags)),
        values(rng.NormalMat(tokens, 40, 1, MOERT_DTYPE_FLOAT32)),
        x(device, values, MOERT_DTYPE_FLOAT32),
        y(device, tokens, 40, MOERT_DTYPE_FLOAT32) {
    args.x = x.view();
    args.y = y.view();
    uint64_t size = 0;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
    REQUIRE_OK(moert_stream_reserve(stream, size, &error));
    ForwardInput input;
    input.x = values;
    want = RunForward(device, layer, reference, input).y;
  }
  void Enqueue() { REQUIRE_OK(moert_layer_forward(layer, stream, &args, &error)); }

  Device& device;
  RefLayer reference;
  Layer layer;
  Stream stream;
  Mat values;
  MatrixBuffer x, y;
  Mat want;
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
};

constexpr uint32_t kFlags[] = {0, MOERT_STREAM_FLAG_ASYNC};

TEST_CASE("copies run in stream order, between host and device in every direction") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      const Stream stream = device.NewStream(flags);
      std::vector<uint8_t> first(1000), second(1000), read(1000), again(1000);
      for (auto& byte : first) byte = static_cast<uint8_t>(rng.Int(0, 255));
      for (auto& byte : second) byte = static_cast<uint8_t>(rng.Int(0, 255));
      DeviceBuffer a(device, 1000), b(device, 1000);
      CHECK_OK(moert_stream_copy(stream, a.data(), first.data(), 1000, &error));
      CHECK_OK(moert_stream_copy(stream, b.data(), a.data(), 1000, &error));
      CHECK_OK(moert_stream_copy(stream, a.data(), second.data(), 1000, &error));
      CHECK_OK(moert_stream_copy(stream, read.data(), b.data(), 1000, &error));
      CHECK_OK(moert_stream_copy(stream, again.data(), a.data(), 1000, &error));
      CHECK_OK(moert_stream_synchronize(stream, &error));
      CHECK(read == first);
      CHECK(again == second);
      CHECK_OK(moert_stream_copy(stream, read.data(), again.data(), 1000, &error));
      CHECK_OK(moert_stream_copy(stream, nullptr, nullptr, 0, &error));
      CHECK_OK(moert_stream_synchronize(stream, &error));
      CHECK(read == second);
    }
  });
}

TEST_CASE("work on another stream waits for an event") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      PendingCall call(rng, device, flags, 65);
      const Stream reader = device.NewStream(flags);
      MatrixBuffer copy(device, 65, 40, MOERT_DTYPE_FLOAT32);
      Event event;
      REQUIRE_OK(moert_event_create(device.handle, event.out(), &error));
      for (int round = 0; round < 10; ++round) {
        call.y.Poison();
        call.Enqueue();
        CHECK_OK(moert_event_record(event, call.stream, &error));
        CHECK_OK(moert_stream_wait_event(reader, event, &error));
        CHECK_OK(
            moert_stream_copy(reader, copy.view()->data, call.y.view()->data, 65 * 40 * 4, &error));
        CHECK_OK(moert_stream_synchronize(reader, &error));
        REQUIRE(copy.Get().v == call.want.v);
      }
    }
  });
}

TEST_CASE("an event counts as reached until it is recorded, and then once its stream gets there") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      PendingCall call(rng, device, flags, 33);
      Event event;
      REQUIRE_OK(moert_event_create(device.handle, event.out(), &error));
      CHECK_OK(moert_event_query(event, &error));
      CHECK_OK(moert_event_wait(event, &error));
      CHECK_OK(moert_stream_wait_event(call.stream, event, &error));
      for (int round = 0; round < 5; ++round) {
        call.y.Poison();
        call.Enqueue();
        CHECK_OK(moert_event_record(event, call.stream, &error));
        moert_status status;
        while ((status = moert_event_query(event, nullptr)) == MOERT_STATUS_NOT_READY) {
          std::this_thread::yield();
        }
        CHECK(status == MOERT_STATUS_OK);
        CHECK_OK(moert_event_wait(event, &error));
        REQUIRE(call.y.Get().v == call.want.v);
      }
    }
  });
}

TEST_CASE("an event reports the failure of its stream and leaves it for the stream's check") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      PendingCall call(rng, device, flags, 2);
      MatrixBuffer ids(device, Ints{0, 1, 66, 2}, 2);
      MatrixBuffer weights(device, Mat(2, 2, {1, 1, 1, 1}), MOERT_DTYPE_FLOAT32);
      call.args.flags = MOERT_FORWARD_FLAG_GIVEN_ROUTING;
      call.args.ids = ids.view();
      call.args.weights = weights.view();
      Event event;
      REQUIRE_OK(moert_event_create(device.handle, event.out(), &error));
      call.Enqueue();
      CHECK_OK(moert_event_record(event, call.stream, &error));
      CHECK_REFUSED(moert_event_wait(event, &error), MOERT_STATUS_INVALID_ROUTING, "66");
      CHECK_REFUSED(moert_event_query(event, &error), MOERT_STATUS_INVALID_ROUTING, "66");
      CHECK_REFUSED(moert_stream_check(call.stream, &error), MOERT_STATUS_INVALID_ROUTING, "66");
      CHECK_OK(moert_stream_check(call.stream, &error));
    }
  });
}

TEST_CASE("a layer, its stream and its device may be released while the work is under way") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& shared) {
    for (uint32_t flags : kFlags) {
      Device device(shared.id);
      PendingCall call(rng, device, flags, 129);
      call.Enqueue();
      call.layer = Layer();
      call.stream = Stream();  // the last reference: waits
      CHECK(call.y.Get().v == call.want.v);
    }
  });
}

TEST_CASE("handles may be released parents first") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& shared) {
    Device device(shared.id);
    PendingCall call(rng, device, 0, 5);
    const Event event = [&] {
      Event out;
      REQUIRE_OK(moert_event_create(device.handle, out.out(), &error));
      return out;
    }();
    // What `device` owns is given up here and taken back below; children keep it alive meanwhile.
    moert_runtime_release(device.runtime);
    moert_device_release(device.handle);
    call.Enqueue();
    CHECK_OK(moert_event_record(event, call.stream, &error));
    CHECK_OK(moert_event_wait(event, &error));
    CHECK(call.y.Get().v == call.want.v);
    moert_device_retain(device.handle);
    moert_runtime_retain(device.runtime);
  });
}

TEST_CASE("hundreds of calls may wait in one stream") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      PendingCall call(rng, device, flags, 3);
      MatrixBuffer sum(device, Mat(3, 40), MOERT_DTYPE_FLOAT32);
      call.args.flags = MOERT_FORWARD_FLAG_ACCUMULATE;
      call.args.y = sum.view();
      for (int i = 0; i < 700; ++i) call.Enqueue();
      CHECK_OK(moert_stream_synchronize(call.stream, &error));
      Mat want = call.want;
      for (double& value : want.v) value *= 700;
      CHECK(RelativeError(sum.Get(), want) < 1e-4);  // of 700 roundings
    }
  });
}

TEST_CASE("many streams run one layer at once") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      std::vector<std::unique_ptr<PendingCall>> calls;
      for (int i = 0; i < 6; ++i) {
        calls.push_back(std::make_unique<PendingCall>(rng, device, flags, 1 + 16 * i));
      }
      for (int round = 0; round < 5; ++round) {
        for (auto& call : calls) call->Enqueue();
      }
      for (auto& call : calls) CHECK_OK(moert_stream_synchronize(call->stream, &error));
      for (auto& call : calls) CHECK(call->y.Get().v == call->want.v);
    }
  });
}

TEST_CASE("threads share a layer, each with a stream of its own") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    for (uint32_t flags : kFlags) {
      PendingCall a(rng, device, flags, 9);
      PendingCall b(rng, device, flags, 30);
      // Both run b's layer; a's stream and buffers are its own.
      const RefLayer& reference = b.reference;
      ForwardInput input;
      input.x = a.values;
      const Mat want_a = RunForward(device, b.layer, reference, input).y;
      const int runs = Scaled(300);
      std::atomic<int> failures{0};
      auto run = [&](PendingCall& call) {
        for (int i = 0; i < runs; ++i) {
          if (moert_layer_forward(b.layer, call.stream, &call.args, nullptr) != MOERT_STATUS_OK ||
              moert_stream_synchronize(call.stream, nullptr) != MOERT_STATUS_OK) {
            ++failures;
          }
        }
      };
      std::thread other([&] { run(a); });
      run(b);
      other.join();
      CHECK(failures == 0);
      CHECK(a.y.Get().v == want_a.v);
      CHECK(b.y.Get().v == b.want.v);
    }
  });
}

TEST_CASE("a host's scheduler runs the work of the CPU, and is freed once") {
  struct Host {
    std::atomic<int> jobs{0};
    std::atomic<int> submitted{0};
    int freed = 0;
    std::mutex mutex;
    std::vector<std::thread> threads;
  } host;
  {
    moert_scheduler scheduler = MOERT_SCHEDULER_INIT;
    scheduler.concurrency = 3;
    scheduler.user_data = &host;
    scheduler.parallel_for = [](void* user_data, uint32_t count, moert_task_fn fn, void* task) {
      ++static_cast<Host*>(user_data)->jobs;
      for (uint32_t i = count; i-- > 0;) fn(task, i);
    };
    scheduler.submit = [](void* user_data, moert_task_fn fn, void* task) {
      auto& self = *static_cast<Host*>(user_data);
      ++self.submitted;
      std::lock_guard lock(self.mutex);
      self.threads.emplace_back(fn, task, 0);
    };
    scheduler.free_fn = [](void* user_data) { ++static_cast<Host*>(user_data)->freed; };
    moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
    desc.scheduler = &scheduler;
    Device device("cpu", &desc);
    Rng rng;
    CAPTURE(rng.seed);
    for (uint32_t flags : kFlags) {
      PendingCall call(rng, device, flags, 129);
      call.Enqueue();
      CHECK_OK(moert_stream_synchronize(call.stream, &error));
      CHECK(call.y.Get().v == call.want.v);
    }
    CHECK(host.jobs > 0);
    CHECK(host.submitted > 0);
    CHECK(device.info.concurrency == 3);
    for (std::thread& thread : host.threads) thread.join();
  }
  CHECK(host.freed == 1);
}

}  // namespace
}  // namespace moert::test
