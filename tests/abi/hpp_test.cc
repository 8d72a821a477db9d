// SPDX-License-Identifier: Apache-2.0
// moert.hpp: each class is created, shared, moved and used once.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "moert/moert.hpp"

namespace {

struct Cpu {
  moert::Runtime runtime = moert::Runtime::Create();
  moert::Device device = moert::Device::Create(runtime);
  moert::Stream stream = moert::Stream::Create(device);
};

// Two experts, hidden 2, intermediate 1, top_k 1: a token goes to the expert of its larger element.
// Expert 0: y = max(x0, 0)^2 * (1, 0); expert 1: y = max(x0 + x1, 0)^2 * (1, 2).
struct LayerParts {
  std::vector<float> router{1, 0, 0, 1};
  std::vector<float> up{1, 0, 1, 1};
  std::vector<float> down{1, 0, 1, 2};
  moert_routing routing = moert::Init<moert_routing>();
  moert_activation activation = moert::Init<moert_activation>();
  std::vector<moert_weight> weights;
  moert_layer_desc desc = moert::Init<moert_layer_desc>();

  LayerParts() {
    routing.num_experts = 2;
    routing.top_k = 1;
    routing.renormalize = MOERT_RENORMALIZE_SUM;
    activation.kind = MOERT_ACTIVATION_KIND_RELU2;
    activation.flags = MOERT_ACTIVATION_FLAG_UNGATED;
    AddWeight(MOERT_ROLE_ROUTER, router, 2, 2);
    AddWeight(MOERT_ROLE_EXPERT_UP, up, 1, 2);
    AddWeight(MOERT_ROLE_EXPERT_DOWN, down, 2, 1);
    desc.hidden = 2;
    desc.intermediate = 1;
    desc.routing = &routing;
    desc.activation = &activation;
    desc.weights = weights.data();
    desc.num_weights = static_cast<uint32_t>(weights.size());
  }

  void AddWeight(moert_role role, const std::vector<float>& data, int64_t rows, int64_t cols) {
    moert_weight weight = moert::Init<moert_weight>();
    weight.role = role;
    weight.dtype = MOERT_DTYPE_FLOAT32;
    weight.rows = rows;
    weight.cols = cols;
    weight.data = data.data();
    weights.push_back(weight);
  }
};

// The status that a call throws; OK if it does not.
template <class Function>
moert_status StatusOf(const Function& function) {
  try {
    function();
  } catch (const moert::Error& error) {
    CHECK(std::strlen(error.what()) > 0);
    return error.status();
  }
  return MOERT_STATUS_OK;
}

TEST_CASE("hpp: versions and names are the library's") {
  CHECK(moert::AbiVersion() == MOERT_ABI_VERSION);
  CHECK(moert::VersionString() == moert_version_string());
  CHECK(moert::StatusName(MOERT_STATUS_NOT_FOUND) == "NOT_FOUND");
  CHECK(moert::DtypeName(MOERT_DTYPE_BFLOAT16) == "BF16");
  CHECK(moert::DtypeBits(MOERT_DTYPE_FLOAT16) == 16);
  CHECK(moert::FamilyNames().find("mixtral") != std::string_view::npos);
}

TEST_CASE("hpp: an empty handle is false and may be copied, moved and destroyed") {
  moert::Layer empty;
  CHECK(!empty);
  CHECK(empty.get() == nullptr);
  moert::Layer copy = empty;
  moert::Layer moved = std::move(copy);
  moved = empty;
  CHECK(!moved);
}

TEST_CASE("hpp: a copy shares the handle, a move hands it over") {
  Cpu cpu;
  moert_device* const raw = cpu.device.get();
  moert::Device copy = cpu.device;
  CHECK(copy.get() == raw);
  cpu.device = moert::Device();
  CHECK(std::string(copy.Info().id) == "cpu");
  moert::Device moved = std::move(copy);
  CHECK(moved.get() == raw);
  moved = *&moved;
  CHECK(moved.get() == raw);
  moert_device* released = moved.release();
  CHECK(!moved);
  moert::Device adopted(released);
  CHECK(adopted.Info().kind == MOERT_DEVICE_KIND_CPU);
}

TEST_CASE("hpp: a failed call throws what it reports") {
  moert::Runtime runtime = moert::Runtime::Create();
  try {
    moert::Device::Create(runtime, "abacus");
    FAIL("an unknown device was created");
  } catch (const moert::Error& error) {
    CHECK(error.status() != MOERT_STATUS_OK);
    CHECK(std::string(error.what()).find("abacus") != std::string::npos);
  }
}

TEST_CASE("hpp: Runtime lists its devices") {
  moert::Runtime runtime = moert::Runtime::Create();
  REQUIRE(runtime.NumDevices() >= 1);
  CHECK(std::string(runtime.DeviceInfo(0).id) == "cpu");
}

TEST_CASE("hpp: Memory and Stream copy, Event marks a point") {
  Cpu cpu;
  moert::Memory device_memory = moert::Memory::OnDevice(cpu.device, 12);
  moert::Memory host_memory = moert::Memory::OnHost(cpu.device, 12);
  std::memcpy(host_memory.data(), "hello moert", 12);
  moert::Memory moved = std::move(device_memory);
  cpu.stream.Copy(moved.data(), host_memory.data(), 12);
  char back[12] = {};
  cpu.stream.Copy(back, moved.data(), 12);
  moert::Event event = moert::Event::Create(cpu.device);
  CHECK(event.Query());
  event.Record(cpu.stream);
  cpu.stream.Wait(event);
  event.Wait();
  CHECK(event.Query());
  cpu.stream.Synchronize();
  cpu.stream.Check();
  CHECK(std::string(back) == "hello moert");
  CHECK(cpu.stream.Native() == nullptr);
  CHECK(StatusOf([&] { moert::Stream::Import(cpu.device, back); }) != MOERT_STATUS_OK);
}

TEST_CASE("hpp: Layer runs forward") {
  Cpu cpu;
  LayerParts parts;
  moert::Layer layer = moert::Layer::Create(cpu.device, parts.desc);
  CHECK(layer.Info().num_experts == 2);
  std::vector<float> x{1, 2, 3, -1};
  std::vector<float> y(4, NAN);
  const moert_matrix x_matrix = moert::MakeMatrix(x.data(), 2, 2, MOERT_DTYPE_FLOAT32);
  const moert_matrix y_matrix = moert::MakeMatrix(y.data(), 2, 2, MOERT_DTYPE_FLOAT32);
  auto args = moert::Init<moert_layer_forward_args>();
  args.x = &x_matrix;
  args.y = &y_matrix;
  cpu.stream.Reserve(layer.WorkspaceSize(args));
  layer.Forward(cpu.stream, args);
  cpu.stream.Synchronize();
  CHECK(y == std::vector<float>{9, 18, 9, 0});
}

TEST_CASE("hpp: Router runs forward") {
  Cpu cpu;
  LayerParts parts;
  auto desc = moert::Init<moert_router_desc>();
  desc.hidden = 2;
  desc.routing = &parts.routing;
  desc.weights = parts.weights.data();
  desc.num_weights = 1;
  moert::Router router = moert::Router::Create(cpu.device, desc);
  std::vector<float> x{1, 2, 3, -1};
  std::vector<int32_t> ids(2, -7);
  std::vector<float> weights(2, NAN);
  const moert_matrix x_matrix = moert::MakeMatrix(x.data(), 2, 2, MOERT_DTYPE_FLOAT32);
  const moert_matrix id_matrix = moert::MakeMatrix(ids.data(), 2, 1, MOERT_DTYPE_INT32);
  const moert_matrix weight_matrix = moert::MakeMatrix(weights.data(), 2, 1, MOERT_DTYPE_FLOAT32);
  auto args = moert::Init<moert_router_forward_args>();
  args.x = &x_matrix;
  args.ids = &id_matrix;
  args.weights = &weight_matrix;
  cpu.stream.Reserve(router.WorkspaceSize(args));
  router.Forward(cpu.stream, args);
  cpu.stream.Synchronize();
  CHECK(ids == std::vector<int32_t>{1, 0});
  CHECK(weights == std::vector<float>{1, 1});
}

TEST_CASE("hpp: Gate runs forward") {
  Cpu cpu;
  auto desc = moert::Init<moert_gate_desc>();
  desc.width = 3;
  moert::Gate gate = moert::Gate::Create(cpu.device, desc);
  std::vector<float> x{2, -4, 6};
  std::vector<float> g{0, 0, 0};
  const moert_matrix x_matrix = moert::MakeMatrix(x.data(), 1, 3, MOERT_DTYPE_FLOAT32);
  const moert_matrix g_matrix = moert::MakeMatrix(g.data(), 1, 3, MOERT_DTYPE_FLOAT32);
  auto args = moert::Init<moert_gate_forward_args>();
  args.x = &x_matrix;
  args.g = &g_matrix;
  args.out = &x_matrix;
  gate.Forward(cpu.stream, args);
  cpu.stream.Synchronize();
  CHECK(x == std::vector<float>{1, -2, 3});
}

TEST_CASE("hpp: Manifest packs, opens and gives the model's layers") {
  Cpu cpu;
  const std::string model = MOERT_SOURCE_DIR "/examples/tiny-shakespeare-qwen2moe";
  const std::string output = MOERT_TEST_DIR "/hpp.moem";
  auto pack = moert::Init<moert_pack_desc>();
  pack.directory = model.c_str();
  pack.output = output.c_str();
  const moert_pack_result packed = moert::Manifest::Pack(cpu.runtime, pack);
  REQUIRE(packed.num_layers > 0);

  auto desc = moert::Init<moert_manifest_desc>();
  desc.path = output.c_str();
  desc.base_dir = model.c_str();
  moert::Manifest manifest = moert::Manifest::Open(cpu.runtime, desc);
  CHECK(StatusOf([&] { moert::Manifest::Open(cpu.runtime, "absent.moem"); }) ==
        MOERT_STATUS_NOT_FOUND);
  manifest.Verify();
  CHECK(manifest.Info().num_layers == packed.num_layers);
  CHECK(manifest.File(0).bytes > 0);
  const moert_tensor_info tensor = manifest.Tensor(0);
  CHECK(manifest.FindTensor(tensor.name) == 0);
  CHECK(manifest.TensorData(0) != nullptr);
  const moert_layer_info info = manifest.Layer(0);
  CHECK(manifest.FindLayer(info.model_layer) == 0);
  CHECK(manifest.LayerRouting(0).num_experts == info.num_experts);
  CHECK(manifest.LayerActivation(0).first.kind == MOERT_ACTIVATION_KIND_SILU);
  CHECK(manifest.LayerWeight(0, 0).num_tensors > 0);
  CHECK(StatusOf([&] { manifest.FindTensor("no such tensor"); }) == MOERT_STATUS_NOT_FOUND);

  moert::Layer layer = moert::Layer::Open(cpu.device, manifest, 0);
  manifest = moert::Manifest();
  CHECK(layer.Info().hidden == info.hidden);
}

TEST_CASE("hpp: threads make everything of one runtime and one device at once") {
  const moert::Runtime runtime = moert::Runtime::Create();
  const moert::Device device = moert::Device::Create(runtime);
  const LayerParts parts;
  auto router = moert::Init<moert_router_desc>();
  router.hidden = 2;
  router.routing = &parts.routing;
  router.weights = parts.weights.data();
  router.num_weights = 1;
  auto gate = moert::Init<moert_gate_desc>();
  gate.kind = MOERT_GATE_KIND_MULTIPLY_ROWS;
  gate.width = 2;
  std::vector<moert_status> statuses(4, MOERT_STATUS_INTERNAL);
  std::vector<std::thread> threads;
  for (moert_status& status : statuses) {
    threads.emplace_back([&] {
      status = StatusOf([&] {
        for (int i = 0; i < 10; ++i) {
          runtime.DeviceInfo(0);
          const moert::Device another = moert::Device::Create(runtime);
          moert::Stream stream = moert::Stream::Create(device);
          moert::Event::Create(device).Record(stream);
          moert::Layer::Create(device, parts.desc);
          moert::Router::Create(device, router);
          moert::Gate::Create(device, gate);
        }
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const moert_status status : statuses) CHECK(status == MOERT_STATUS_OK);
}

TEST_CASE("hpp: training calls pass through") {
  Cpu cpu;
  LayerParts parts;
  moert::Layer layer = moert::Layer::Create(cpu.device, parts.desc);
  auto backward = moert::Init<moert_layer_backward_args>();
  auto forward = moert::Init<moert_layer_forward_args>();
  auto desc = moert::Init<moert_optimizer_desc>();
  moert::Optimizer optimizer;
  CHECK(StatusOf([&] { layer.SavedSize(forward); }) != MOERT_STATUS_OK);
  CHECK(StatusOf([&] { layer.BackwardWorkspaceSize(backward); }) != MOERT_STATUS_OK);
  CHECK(StatusOf([&] { layer.Backward(cpu.stream, backward); }) != MOERT_STATUS_OK);
  CHECK(StatusOf([&] { layer.Weight(MOERT_ROLE_EXPERT_UP, 0); }) != MOERT_STATUS_OK);
  CHECK(StatusOf([&] { optimizer = moert::Optimizer::Create(cpu.device, desc); }) ==
        MOERT_STATUS_UNSUPPORTED);
  CHECK(StatusOf([&] { optimizer.Step(cpu.stream, nullptr, 0); }) != MOERT_STATUS_OK);
}

}  // namespace
