// SPDX-License-Identifier: Apache-2.0
// Experts, routers and gates of the CPU beyond their math: bits that don't depend on threads,
// workspaces kept to the byte, the floating-point state, levels by name, reports of bad routing,
// views of weights.
#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "layer/compose.h"
#include "unit/cpu_support.h"

namespace moert::test {
namespace {

struct LayerSize {
  int32_t experts, top_k;
  int64_t hidden, intermediate, latent, shared;
};

WeightMatrix Packed(const std::vector<char>& data, moert_dtype dtype, int64_t in) {
  return {data.data(), dtype, in, 1};
}

// A layer's weights in memory of their own.
struct TestLayer {
  TestLayer(Random& random, Allocator& allocator, const LayerSize& size, moert_dtype dtype)
      : spec(&allocator), weights(&allocator) {
    spec.dtype = dtype;
    spec.hidden = size.hidden;
    spec.intermediate = size.intermediate;
    spec.latent = size.latent;
    spec.shared_intermediate = size.shared;
    spec.routing.num_experts = size.experts;
    spec.routing.top_k = size.top_k;
    spec.routing.renormalize = MOERT_RENORMALIZE_SUM;
    spec.routing.routed_scaling_factor = spec.routing.input_multiplier = 1;
    spec.routing.num_groups = spec.routing.top_k_groups = 1;
    spec.activation.alpha = spec.shared_activation.alpha = 1;
    const int64_t width = spec.expert_width();
    const auto make = [&](int64_t out, int64_t in) {
      storage.push_back(random.Values(dtype, out * in, 1.0f / 8));
      return Packed(storage.back(), dtype, in);
    };
    for (int32_t e = 0; e < size.experts; ++e) {
      spec.local_experts.push_back(e);
      ExpertWeights& expert = weights.experts.emplace_back();
      expert.gate = make(size.intermediate, width);
      expert.up = make(size.intermediate, width);
      expert.down = make(width, size.intermediate);
      expert.down_bias = make(1, width);
    }
    weights.router.router = make(size.experts, size.hidden);
    if (size.latent != 0) {
      weights.latent_in = make(size.latent, size.hidden);
      weights.latent_out = make(size.hidden, size.latent);
    }
    if (size.shared != 0) {
      weights.shared.gate = make(size.shared, size.hidden);
      weights.shared.up = make(size.shared, size.hidden);
      weights.shared.down = make(size.hidden, size.shared);
      weights.shared_expert_gate = make(1, size.hidden);
    }
  }

  LayerSpec spec;
  LayerWeights weights;
  std::vector<std::vector<char>> storage;
};

struct Tokens {
  Tokens(Random& random, const TestLayer& layer, int64_t count) : tokens(count) {
    const LayerSpec& spec = layer.spec;
    x = random.Values(spec.dtype, count * spec.hidden);
    for (int64_t i = 0; i < count * spec.routing.top_k; ++i) {
      ids.push_back(static_cast<int32_t>(random.Int(-1, spec.routing.num_experts - 1)));
      weights.push_back(random.Normal());
    }
  }
  int64_t tokens;
  std::vector<char> x;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

constexpr char kPoison = 0x7f;

// y of given routing; the workspace is exactly the size asked for, with poison around it.
std::vector<char> RunExperts(BackendDevice& device, BackendStream& stream, const TestLayer& layer,
                             Tokens& in) {
  Owned<PreparedExperts> experts;
  REQUIRE(device.PrepareExperts(layer.spec, layer.weights, WeightSource::kCopy, &experts).ok());
  const moert_dtype dtype = layer.spec.dtype;
  std::vector<char> y(in.x.size(), kPoison);
  ExpertsCall call;
  call.tokens = in.tokens;
  call.x = Matrix(in.x.data(), in.tokens, layer.spec.hidden, dtype);
  call.y = Matrix(y.data(), in.tokens, layer.spec.hidden, dtype);
  call.ids = Matrix(in.ids.data(), in.tokens, layer.spec.routing.top_k, MOERT_DTYPE_INT32);
  call.weights =
      Matrix(in.weights.data(), in.tokens, layer.spec.routing.top_k, MOERT_DTYPE_FLOAT32);
  const uint64_t size = experts->WorkspaceSize(call);
  void* block;
  REQUIRE(device.Allocate(size + 512, &block).ok());
  auto* bytes = static_cast<char*>(block);
  std::memset(bytes, kPoison, size + 512);
  call.workspace = {bytes + 256, size};
  REQUIRE(experts->Run(stream, call).ok());
  experts.reset();  // waits
  for (int i = 0; i < 256; ++i) {
    REQUIRE(bytes[i] == kPoison);
    REQUIRE(bytes[256 + size + i] == kPoison);
  }
  device.Free(block);
  return y;
}

const LayerSize kSizes[] = {{5, 2, 33, 70, 0, 0}, {8, 3, 130, 65, 40, 77}, {3, 3, 64, 600, 0, 64}};

TEST_CASE("y has the same bits on any number of threads, inline or queued") {
  for (const LayerSize& size : kSizes) {
    for (moert_dtype dtype : kDtypes) {
      Random random;
      CAPTURE(random.seed);
      Allocator allocator(nullptr);
      const TestLayer layer(random, allocator, size, dtype);
      Tokens in(random, layer, random.Int(1, 90));
      CpuFixture one(1);
      const auto want = RunExperts(*one.device, *one.Stream(), layer, in);
      for (uint32_t threads : {2u, 3u, 7u}) {
        CpuFixture more(threads);
        CHECK(RunExperts(*more.device, *more.Stream(), layer, in) == want);
        CHECK(RunExperts(*more.device, *more.Stream(true), layer, in) == want);
      }
    }
  }
}

TEST_CASE("a row's bits do not depend on the other rows, nor on the chunk it falls into") {
  for (const LayerSize& size : kSizes) {
    Random random;
    CAPTURE(random.seed);
    Allocator allocator(nullptr);
    const TestLayer layer(random, allocator, size, MOERT_DTYPE_BFLOAT16);
    CpuFixture cpu;
    const auto stream = cpu.Stream();
    const int64_t tokens = 1100;  // more than one chunk
    const int64_t kept = random.Int(0, tokens - 1);
    Tokens in(random, layer, tokens), other(random, layer, tokens);
    const auto row = static_cast<size_t>(layer.spec.hidden * 2);
    const auto k = static_cast<size_t>(layer.spec.routing.top_k);
    const auto at = static_cast<size_t>(kept);
    std::memcpy(&other.x[at * row], &in.x[at * row], row);
    std::copy_n(&in.ids[at * k], k, &other.ids[at * k]);
    std::copy_n(&in.weights[at * k], k, &other.weights[at * k]);
    const auto a = RunExperts(*cpu.device, *stream, layer, in);
    const auto b = RunExperts(*cpu.device, *stream, layer, other);
    CHECK(std::memcmp(&a[at * row], &b[at * row], row) == 0);
  }
}

TEST_CASE("workspaces of experts and routers grow with the tokens and need none for none") {
  Random random;
  Allocator allocator(nullptr);
  CpuFixture cpu(3);
  for (const LayerSize& size : kSizes) {
    const TestLayer layer(random, allocator, size, MOERT_DTYPE_FLOAT32);
    Owned<PreparedExperts> experts;
    REQUIRE(cpu.device->PrepareExperts(layer.spec, layer.weights, WeightSource::kBorrow, &experts)
                .ok());
    Owned<PreparedRouter> router;
    const RouterSpec spec{layer.spec.routing, layer.spec.dtype, layer.spec.hidden};
    REQUIRE(
        cpu.device->PrepareRouter(spec, layer.weights.router, WeightSource::kBorrow, &router).ok());
    uint64_t experts_before = 0, router_before = 0;
    for (int64_t tokens = 0; tokens < 3000; tokens += tokens < 70 ? 1 : 97) {
      ExpertsCall experts_call;
      experts_call.tokens = tokens;
      RouteCall route_call;
      route_call.tokens = tokens;
      const uint64_t experts_size = experts->WorkspaceSize(experts_call);
      const uint64_t router_size = router->WorkspaceSize(route_call);
      if (tokens == 0) CHECK(experts_size + router_size == 0);
      CHECK(experts_size >= experts_before);
      CHECK(router_size >= router_before);
      experts_before = experts_size;
      router_before = router_size;
    }
  }
}

TEST_CASE("an id out of range is reported with its place, and every other slot counts") {
  Random random;
  CAPTURE(random.seed);
  Allocator allocator(nullptr);
  const TestLayer layer(random, allocator, kSizes[0], MOERT_DTYPE_FLOAT32);
  CpuFixture cpu;
  const auto stream = cpu.Stream();
  Tokens in(random, layer, 4);
  in.ids = {0, 1, 2, 3, 4, 5, -2, 1};
  const auto bad = RunExperts(*cpu.device, *stream, layer, in);
  const Status status = stream->Check();
  CHECK(status.code() == MOERT_STATUS_INVALID_ROUTING);
  CHECK(std::string(status.message()) == "token 2, slot 1: expert id 5 is outside -1..4");
  in.ids = {0, 1, 2, 3, 4, -1, -1, 1};
  CHECK(RunExperts(*cpu.device, *stream, layer, in) == bad);
  CHECK(stream->Check().ok());
}

#if defined(__x86_64__)
TEST_CASE("the caller's floating-point control word is neither obeyed nor changed") {
  Random random;
  CAPTURE(random.seed);
  Allocator allocator(nullptr);
  const TestLayer layer(random, allocator, kSizes[1], MOERT_DTYPE_FLOAT32);
  CpuFixture cpu(1);
  const auto stream = cpu.Stream();
  Tokens in(random, layer, 3);
  for (float& weight : in.weights) weight *= 1e-41f;  // results are denormal
  const auto want = RunExperts(*cpu.device, *stream, layer, in);
  CHECK(std::count(want.begin(), want.end(), 0) < static_cast<int64_t>(want.size()) * 3 / 4);
  const unsigned before = _mm_getcsr();
  const unsigned host = 0x1f80 | 0x8040 | 0x6000;  // flush to zero, denormals are zero, truncate
  _mm_setcsr(host);
  const auto got = RunExperts(*cpu.device, *stream, layer, in);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((after & ~0x3fu) == host);
  CHECK(got == want);
}
#endif

// Sets MOERT_CPU_ISA for as long as it lives.
class Environment {
 public:
  explicit Environment(const char* level) {
    const char* old = std::getenv("MOERT_CPU_ISA");
    had_ = old != nullptr;
    if (had_) old_ = old;
    setenv("MOERT_CPU_ISA", level, 1);
  }
  ~Environment() {
    if (had_) {
      setenv("MOERT_CPU_ISA", old_.c_str(), 1);
    } else {
      unsetenv("MOERT_CPU_ISA");
    }
  }

 private:
  bool had_;
  std::string old_;
};

TEST_CASE("MOERT_CPU_ISA names a level, unless the device ignores the environment") {
  CpuFixture cpu;
  const std::string best = [&] {
    DeviceOptions options;
    options.ignore_environment = true;
    Owned<BackendDevice> device;
    REQUIRE(cpu.backend->OpenDevice(0, options, &device).ok());
    return std::string(device->info().arch);
  }();
  for (const cpu::Kernels* kernels : Levels()) {
    const Environment environment(kernels->name);
    Owned<BackendDevice> device;
    DeviceOptions options;
    REQUIRE(cpu.backend->OpenDevice(0, options, &device).ok());
    CHECK(std::string(device->info().arch) == kernels->name);
    options.ignore_environment = true;
    REQUIRE(cpu.backend->OpenDevice(0, options, &device).ok());
    CHECK(device->info().arch == best);
  }
  const Environment environment("avx3");
  Owned<BackendDevice> device;
  const Status status = cpu.backend->OpenDevice(0, DeviceOptions(), &device);
  CHECK(status.code() == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(status.message()).find("'avx3'; accepted are ") != std::string::npos);
}

TEST_CASE("all levels agree on the chosen experts and nearly on y") {
  Random random;
  CAPTURE(random.seed);
  Allocator allocator(nullptr);
  const TestLayer layer(random, allocator, kSizes[1], MOERT_DTYPE_FLOAT32);
  Tokens in(random, layer, 20);
  std::vector<char> first;
  for (const cpu::Kernels* kernels : Levels()) {
    const Environment environment(kernels->name);
    CpuFixture cpu;
    const auto y = RunExperts(*cpu.device, *cpu.Stream(), layer, in);
    if (first.empty()) first = y;
    for (size_t i = 0; i < y.size() / 4; ++i) {
      const auto at = static_cast<int64_t>(i);
      CHECK(
          LoadFloat(y.data(), MOERT_DTYPE_FLOAT32, at) ==
          doctest::Approx(LoadFloat(first.data(), MOERT_DTYPE_FLOAT32, at)).epsilon(1e-4).scale(1));
    }
  }
}

TEST_CASE("views of a trainable layer's weights are its weights, in the order they were given") {
  Allocator allocator(nullptr);
  CpuFixture cpu;
  for (bool interleaved : {false, true}) {
    for (WeightSource source :
         {WeightSource::kCopy, WeightSource::kBorrow, WeightSource::kMapped}) {
      CAPTURE(interleaved);
      Random random;
      CAPTURE(random.seed);
      TestLayer layer(random, allocator, {2, 1, 6, 5, 0, 0}, MOERT_DTYPE_FLOAT32);
      layer.spec.trainable = true;
      const std::vector<char> pair = random.Values(MOERT_DTYPE_FLOAT32, 2 * 5 * 6);
      const int64_t stride = interleaved ? 12 : 6, up_at = interleaved ? 6 : 30;
      layer.weights.experts[1].gate = {pair.data(), MOERT_DTYPE_FLOAT32, stride, 1};
      layer.weights.experts[1].up = {pair.data() + up_at * 4, MOERT_DTYPE_FLOAT32, stride, 1};
      Owned<PreparedExperts> experts;
      REQUIRE(cpu.device->PrepareExperts(layer.spec, layer.weights, source, &experts).ok());
      moert_matrix view;
      REQUIRE(experts->Weight(MOERT_ROLE_EXPERT_GATE_UP, 1, &view).ok());
      CHECK(view.rows == 10);
      CHECK(view.cols == 6);
      CHECK(view.row_stride == 6);
      CHECK(std::memcmp(view.data, pair.data(), pair.size()) == 0);
      CHECK((view.data == pair.data()) == (source == WeightSource::kBorrow));
      REQUIRE(experts->Weight(MOERT_ROLE_EXPERT_UP, 1, &view).ok());
      CHECK(view.rows == 5);
      CHECK(view.row_stride == stride);
      CHECK(std::memcmp(view.data, pair.data() + up_at * 4, 24) == 0);
      REQUIRE(experts->Weight(MOERT_ROLE_EXPERT_DOWN_BIAS, 0, &view).ok());
      CHECK(view.rows == 1);
      CHECK(view.cols == 6);
      CHECK(experts->Weight(MOERT_ROLE_SHARED_UP, 0, &view).code() == MOERT_STATUS_NOT_FOUND);
    }
  }
}

TEST_CASE("gate and up of one row each are a matrix of two rows") {
  Allocator allocator(nullptr);
  CpuFixture cpu;
  for (WeightSource source : {WeightSource::kCopy, WeightSource::kBorrow}) {
    Random random;
    CAPTURE(random.seed);
    TestLayer layer(random, allocator, {2, 1, 6, 1, 0, 0}, MOERT_DTYPE_FLOAT32);
    layer.spec.trainable = true;
    const std::vector<char> pair = random.Values(MOERT_DTYPE_FLOAT32, 2 * 6);
    layer.weights.experts[1].gate = {pair.data(), MOERT_DTYPE_FLOAT32, 6, 1};
    layer.weights.experts[1].up = {pair.data() + 6 * 4, MOERT_DTYPE_FLOAT32, 6, 1};
    Owned<PreparedExperts> experts;
    REQUIRE(cpu.device->PrepareExperts(layer.spec, layer.weights, source, &experts).ok());
    moert_matrix view;
    REQUIRE(experts->Weight(MOERT_ROLE_EXPERT_GATE_UP, 1, &view).ok());
    CHECK(view.rows == 2);
    CHECK(view.cols == 6);
    CHECK(view.row_stride == 6);
    CHECK(std::memcmp(view.data, pair.data(), 2 * 6 * 4) == 0);
  }
}

TEST_CASE("a write to the view of a trainable layer's router changes the choice") {
  Allocator allocator(nullptr);
  CpuFixture cpu;
  const auto stream = cpu.Stream();
  for (WeightSource source : {WeightSource::kCopy, WeightSource::kMapped}) {
    Random random;
    CAPTURE(random.seed);
    TestLayer layer(random, allocator, {4, 1, 6, 5, 0, 0}, MOERT_DTYPE_FLOAT32);
    layer.spec.trainable = true;
    Owned<PreparedLayer> prepared;
    REQUIRE(MakeLayer(allocator, *cpu.device, layer.spec, layer.weights, source, &prepared).ok());
    moert_matrix router;
    REQUIRE(prepared->Weight(MOERT_ROLE_ROUTER, 0, &router).ok());
    REQUIRE(router.rows == 4);
    REQUIRE(router.cols == 6);
    std::vector<float> x(6, 1.0f), y(6);
    int32_t id = -7;
    LayerCall call;
    call.tokens = 1;
    call.x = call.router_x = Matrix(x.data(), 1, 6, MOERT_DTYPE_FLOAT32);
    call.y = Matrix(y.data(), 1, 6, MOERT_DTYPE_FLOAT32);
    call.ids = Matrix(&id, 1, 1, MOERT_DTYPE_INT32);
    const uint64_t size = prepared->WorkspaceSize(call);
    REQUIRE(stream->Reserve(size).ok());
    REQUIRE(stream->Scratch(&call.workspace).ok());
    for (int32_t chosen : {2, 0, 3}) {
      for (int64_t e = 0; e < 4; ++e) {
        for (int64_t i = 0; i < 6; ++i) {
          static_cast<float*>(router.data)[e * router.row_stride + i] = e == chosen ? 1.0f : -1.0f;
        }
      }
      REQUIRE(prepared->Forward(*stream, call).ok());
      CHECK(id == chosen);
    }
  }
}

}  // namespace
}  // namespace moert::test
