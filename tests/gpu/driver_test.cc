// SPDX-License-Identifier: Apache-2.0
// The GPU backend against a driver that misbehaves: a clear status each time, nothing leaked, and
// the CPU works on. Runs on machines without a GPU.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "fake_cuda.h"
#include "kernels/args.h"

namespace moert {
namespace {

FakeCuda& Fake() {
  static FakeCuda* state = [] {
    void* library = dlopen(MOERT_FAKE_CUDA, RTLD_NOW);
    REQUIRE(library != nullptr);
    return reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "FakeCudaState"))();
  }();
  return *state;
}

// A backend on the fake driver, and a check that all it took is given back.
struct Setup {
  Setup() : backend(Make()) {
    data = "kernels\nmoert-kernels abi=" + std::to_string(MOERT_KERNEL_ABI) +
           " toolkit=13.0 targets=sm_80,sm_90a,compute_80\n";
    options.kernel_data = data.data();
    options.kernel_size = data.size();
  }
  ~Setup() {
    device.reset();
    backend.reset();
    const FakeCuda& fake = Fake();
    CHECK(fake.memory == 0);
    CHECK(fake.host_memory == 0);
    CHECK(fake.streams == 0);
    CHECK(fake.events == 0);
    CHECK(fake.modules == 0);
    CHECK(fake.contexts == 0);
    CHECK(fake.pushed == 0);
    CHECK(fake.strict_calls == 0);
    Fake() = FakeCuda();
  }
  Owned<Backend> Make() {
    Fake() = FakeCuda();
    return MakeCudaBackend({&allocator, &log, nullptr}, MOERT_FAKE_CUDA);
  }
  Status Open() { return backend->OpenDevice(0, options, &device); }
  uint32_t Count(Status* why) { return backend->NumDevices(why); }
  void MustOpen() {
    Status why;
    REQUIRE(Count(&why) == 1);
    const Status status = Open();
    INFO(status.message());
    REQUIRE(status.ok());
  }

  Allocator allocator{nullptr};
  Logger log{nullptr};
  Owned<Backend> backend;
  DeviceOptions options;
  std::string data;
  Owned<BackendDevice> device;
};

bool Says(const Status& status, const std::string& text) {
  INFO(status.message());
  return std::string(status.message()).find(text) != std::string::npos;
}

// A layer with weights on the host.
struct Layer {
  explicit Layer(Allocator* allocator) : spec(allocator), weights(allocator) {
    spec.hidden = 16, spec.intermediate = 8;
    spec.routing.num_experts = 4, spec.routing.top_k = 2;
    spec.routing.num_groups = spec.routing.top_k_groups = 1;
    spec.activation.alpha = 1;
    spec.local_experts = {0, 1, 2, 3};
    values.assign(16 * 8, 0.5f);
    for (int e = 0; e < 4; ++e) {
      ExpertWeights expert;
      expert.gate = expert.up = {values.data(), MOERT_DTYPE_FLOAT32, 16, 1};
      expert.down = {values.data(), MOERT_DTYPE_FLOAT32, 8, 1};
      weights.experts.push_back(expert);
    }
  }
  LayerSpec spec;
  LayerWeights weights;
  std::vector<float> values;
};

Status Prepare(Setup& setup, Owned<PreparedExperts>* out) {
  const Layer layer(&setup.allocator);
  return setup.device->PrepareExperts(layer.spec, layer.weights, WeightSource::kCopy, out);
}

ExpertsCall MakeCall(std::vector<float>& memory) {
  memory.assign(1 << 16, 0);
  ExpertsCall call;
  call.tokens = 3;
  call.x = Matrix(memory.data(), 3, 16, MOERT_DTYPE_FLOAT32);
  call.y = Matrix(memory.data() + 64, 3, 16, MOERT_DTYPE_FLOAT32);
  call.ids = Matrix(memory.data() + 128, 3, 2, MOERT_DTYPE_INT32);
  call.weights = Matrix(memory.data() + 192, 3, 2, MOERT_DTYPE_FLOAT32);
  call.workspace = {memory.data() + 256, 200000};
  return call;
}

TEST_CASE("a machine without the driver says which library was looked for") {
  Allocator allocator(nullptr);
  Logger log(nullptr);
  auto backend = MakeCudaBackend({&allocator, &log, nullptr}, "/nowhere/libcuda.so.1");
  Status why;
  CHECK(backend->NumDevices(&why) == 0);
  CHECK(why.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(why, "/nowhere/libcuda.so.1"));
}

TEST_CASE("a driver that lacks an entry point is refused by its name") {
  for (const char* name : {"cuMemAlloc", "cuLaunchKernel", "cuThreadExchangeStreamCaptureMode"}) {
    Setup setup;
    Fake().missing = name;
    Status why;
    CHECK(setup.Count(&why) == 0);
    CHECK(why.code() == MOERT_STATUS_UNAVAILABLE);
    CHECK(Says(why, name));
  }
}

TEST_CASE("an old driver is refused with its version") {
  Setup setup;
  Fake().version = 9000;
  Status why;
  CHECK(setup.Count(&why) == 0);
  CHECK(why.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(why, "9.0"));
}

TEST_CASE("a driver without an optional entry point works") {
  Setup setup;
  Fake().missing = "cuFuncLoad";
  setup.MustOpen();
}

TEST_CASE("a driver that does not start or finds no device is unavailable") {
  {
    Setup setup;
    Fake().init_code = 999;
    Status why;
    CHECK(setup.Count(&why) == 0);
    CHECK(why.code() == MOERT_STATUS_UNAVAILABLE);
    CHECK(why.native_code() == 999);
  }
  Setup setup;
  Fake().devices = 0;
  Status why;
  CHECK(setup.Count(&why) == 0);
  CHECK(why.code() == MOERT_STATUS_UNAVAILABLE);
}

TEST_CASE("a kernel file that is not one, of another ABI or nowhere is refused") {
  Setup setup;
  Status why;
  REQUIRE(setup.Count(&why) == 1);
  setup.options.kernel_size = 7;
  Status status = setup.Open();
  CHECK(status.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(status, "not a kernel file"));

  const std::string other = "\nmoert-kernels abi=999 toolkit=13.0 targets=sm_80\n";
  setup.options.kernel_data = other.data();
  setup.options.kernel_size = other.size();
  status = setup.Open();
  CHECK(status.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(status, "999"));

  setup.options.kernel_data = nullptr;
  setup.options.kernel_path = "/nowhere/moert.fatbin";
  status = setup.Open();
  CHECK(status.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(status, "/nowhere/moert.fatbin"));
}

TEST_CASE("a file without code for the device names both architectures and the compiler's log") {
  for (const int code : {200, 209, 218, 221, 222}) {
    Setup setup;
    Fake().major = 6, Fake().minor = 1;
    Fake().module_code = code;
    Fake().module_log = "the compiler's words";
    Status why;
    REQUIRE(setup.Count(&why) == 1);
    const Status status = setup.Open();
    CHECK(status.code() == MOERT_STATUS_UNAVAILABLE);
    CHECK(status.native_code() == code);
    CHECK(Says(status, "sm_61"));
    CHECK(Says(status, "sm_80,sm_90a,compute_80"));
    CHECK(Says(status, "the compiler's words"));
  }
}

TEST_CASE("a file that lacks a kernel is refused when the device is opened") {
  Setup setup;
  Fake().missing_kernel = "moert_combine";
  Status why;
  REQUIRE(setup.Count(&why) == 1);
  const Status status = setup.Open();
  CHECK(status.code() == MOERT_STATUS_UNAVAILABLE);
  CHECK(Says(status, "moert_combine"));
}

TEST_CASE("memory that runs out at any allocation leaves nothing behind") {
  for (int n = 1; n < 64; ++n) {
    INFO("allocation ", n);
    Setup setup;
    setup.MustOpen();
    Fake().fail_allocation = n;
    Owned<PreparedExperts> experts;
    Owned<BackendStream> stream;
    Status status = Prepare(setup, &experts);
    if (status.ok()) status = setup.device->CreateStream(0, &stream);
    if (status.ok()) status = stream->Reserve(1 << 20);
    if (status.ok()) {
      REQUIRE(n > 5);
      return;
    }
    CHECK(status.code() == MOERT_STATUS_OUT_OF_MEMORY);
    CHECK(status.native_code() == 2);
  }
  FAIL("no end of allocations");
}

TEST_CASE("streams and events that cannot be made leave nothing behind") {
  for (int n = 1; n <= 4; ++n) {
    Setup setup;
    setup.MustOpen();
    Fake().fail_create = n;
    Owned<PreparedExperts> experts;
    Owned<BackendStream> stream;
    Owned<BackendEvent> event;
    Status status = Prepare(setup, &experts);
    if (status.ok()) status = setup.device->CreateStream(0, &stream);
    if (status.ok()) status = setup.device->CreateEvent(&event);
    CHECK(status.code() == MOERT_STATUS_OUT_OF_MEMORY);
  }
}

TEST_CASE("a stream of another context is refused") {
  Setup setup;
  setup.MustOpen();
  Owned<BackendStream> stream;
  int native;
  Fake().foreign_stream = true;
  CHECK(setup.device->ImportStream(&native, &stream).code() == MOERT_STATUS_INVALID_ARGUMENT);
  Fake().foreign_stream = false;
  CHECK(setup.device->ImportStream(&native, &stream).ok());
  CHECK(stream->native() == &native);
}

TEST_CASE("a launch that fails is reported by the call") {
  Setup setup;
  setup.MustOpen();
  Owned<PreparedExperts> experts;
  Owned<BackendStream> stream;
  REQUIRE(Prepare(setup, &experts).ok());
  REQUIRE(setup.device->CreateStream(0, &stream).ok());
  Fake().launch_code = 1;
  std::vector<float> memory;
  const Status status = experts->Run(*stream, MakeCall(memory));
  CHECK(status.code() == MOERT_STATUS_DEVICE_ERROR);
  CHECK(status.native_code() == 1);
  CHECK(Says(status, "moert_group_small"));
  Fake().launch_code = 0;
  CHECK(experts->Run(*stream, MakeCall(memory)).ok());
}

TEST_CASE("a lost device stays lost on all that it made") {
  Setup setup;
  setup.MustOpen();
  Owned<PreparedExperts> experts;
  Owned<BackendStream> stream, other;
  Owned<BackendEvent> event;
  REQUIRE(Prepare(setup, &experts).ok());
  REQUIRE(setup.device->CreateStream(0, &stream).ok());
  REQUIRE(setup.device->CreateStream(0, &other).ok());
  REQUIRE(setup.device->CreateEvent(&event).ok());
  Fake().synchronize_code = 719;
  CHECK(stream->Synchronize().code() == MOERT_STATUS_DEVICE_LOST);
  Fake().synchronize_code = 0;
  std::vector<float> memory;
  CHECK(stream->Check().code() == MOERT_STATUS_DEVICE_LOST);
  CHECK(stream->Check().code() == MOERT_STATUS_DEVICE_LOST);
  CHECK(other->Check().code() == MOERT_STATUS_DEVICE_LOST);
  CHECK(event->Query().code() == MOERT_STATUS_DEVICE_LOST);
  CHECK(experts->Run(*other, MakeCall(memory)).code() == MOERT_STATUS_DEVICE_LOST);
  void* block;
  CHECK(setup.device->Allocate(256, &block).code() == MOERT_STATUS_DEVICE_LOST);
}

TEST_CASE("an event that is not reached says so") {
  Setup setup;
  setup.MustOpen();
  Owned<BackendEvent> event;
  REQUIRE(setup.device->CreateEvent(&event).ok());
  Fake().synchronize_code = 600;
  CHECK(event->Query().code() == MOERT_STATUS_NOT_READY);
  Fake().synchronize_code = 0;
  CHECK(event->Query().ok());
}

TEST_CASE("a capturing stream takes no scratch of its own and is not waited for") {
  Setup setup;
  setup.MustOpen();
  Owned<PreparedExperts> experts;
  Owned<BackendStream> stream;
  REQUIRE(Prepare(setup, &experts).ok());
  REQUIRE(setup.device->CreateStream(0, &stream).ok());
  REQUIRE(stream->Reserve(4096).ok());
  Workspace workspace;
  CHECK(stream->Scratch(&workspace).ok());
  CHECK(workspace.size == 4096);
  Fake().capturing = true;
  CHECK(stream->Scratch(&workspace).code() == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(stream->Reserve(8192).code() == MOERT_STATUS_INVALID_ARGUMENT);
  std::vector<float> memory;
  CHECK(experts->Run(*stream, MakeCall(memory)).ok());
}

TEST_CASE("a call launches and does nothing else") {
  Setup setup;
  setup.MustOpen();
  Owned<PreparedExperts> experts;
  Owned<BackendStream> stream;
  REQUIRE(Prepare(setup, &experts).ok());
  REQUIRE(setup.device->CreateStream(0, &stream).ok());
  std::vector<float> memory;
  const FakeCuda before = Fake();
  CHECK(experts->Run(*stream, MakeCall(memory)).ok());
  CHECK(Fake().launches > before.launches);
  CHECK(Fake().memory == before.memory);
  CHECK(Fake().host_memory == before.host_memory);
}

TEST_CASE("borrowed weights that the device cannot reach are refused") {
  Setup setup;
  setup.MustOpen();
  const Layer layer(&setup.allocator);
  Owned<PreparedExperts> experts;
  const Status status =
      setup.device->PrepareExperts(layer.spec, layer.weights, WeightSource::kBorrow, &experts);
  CHECK(status.code() == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(Says(status, "BORROW_WEIGHTS"));
}

}  // namespace
}  // namespace moert
