// SPDX-License-Identifier: Apache-2.0
// Devices: instruction levels of the CPU, the environment, and what runtimes and threads share.
#include <cstdlib>
#include <memory>
#include <thread>

#include "support/layers.h"

namespace moert::test {
namespace {

constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};
TEST_CASE("handles are made and dropped on one thread while another runs a layer") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(rng, {.experts = 4, .hidden = 16}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(9, 16, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference);
    LayerSource source(device, reference, {});
    const auto want = RunForward(device, layer, reference, input);
    std::thread other([&] {
      for (int i = 0; i < Scaled(50); ++i) {
        moert_layer* made = nullptr;
        if (moert_layer_create(device.handle, &source.desc, &made, nullptr) == MOERT_STATUS_OK) {
          moert_layer_release(made);
        }
      }
    });
    for (int i = 0; i < Scaled(20); ++i) {
      CHECK(RunForward(device, layer, reference, input).y_bytes == want.y_bytes);
    }
    other.join();
  });
}

TEST_CASE("two runtimes of a process do not meet") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(rng, {.experts = 4, .hidden = 16}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(9, 16, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& shared) {
    auto first = std::make_unique<Device>(shared.id);
    Device second(shared.id);
    const Layer layer = MakeLayer(second, reference);
    {
      const Layer gone = MakeLayer(*first, reference);
      CheckForward(rng, *first, gone, reference, input);
    }
    first.reset();
    CheckForward(rng, second, layer, reference, input);
  });
}

// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (had_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool had_;
  std::string before_;
};

// The instruction levels that MOERT_CPU_ISA takes, from the message about one that there is not.
std::vector<std::string> CpuLevels(const moert_runtime* runtime) {
  const Environment unknown("MOERT_CPU_ISA", "abacus");
  DeviceHandle none;
  Error error;
  CHECK(moert_device_create(const_cast<moert_runtime*>(runtime), "cpu", nullptr, none.out(),
                            &error) == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(error.Says("abacus"));
  const std::string message = error.message;
  std::vector<std::string> levels;
  const std::string before = "accepted are ";
  size_t start = message.find(before);
  REQUIRE(start != std::string::npos);
  for (start += before.size(); start < message.size();) {
    const size_t end = std::min(message.find(", ", start), message.size());
    levels.push_back(message.substr(start, end - start));
    start = end + 2;
  }
  return levels;
}

TEST_CASE("every instruction level that this CPU has gives the same ids, and y within tolerance") {
  Rng rng;
  CAPTURE(rng.seed);
  const Runtime runtime = MakeRuntime();
  const auto levels = CpuLevels(runtime);
  CHECK(levels.size() >= 1);
  for (moert_dtype dtype : kDtypes) {
    WeightStyle style;
    style.dtype = dtype;
    const RefLayer reference = RandomLayer(
        rng, {.experts = 11, .top_k = 3, .hidden = 67, .intermediate = 45, .shared = 19}, dtype,
        style);
    for (int64_t tokens : {1, 6, 70}) {
      ForwardInput input;
      input.x = rng.NormalMat(tokens, 67, 1, dtype);
      Ints ids;
      for (const std::string& level : levels) {
        CAPTURE(level);
        const Environment wanted("MOERT_CPU_ISA", level.c_str());
        DeviceHandle probe;
        const moert_status status =
            moert_device_create(runtime, "cpu", nullptr, probe.out(), nullptr);
        if (status == MOERT_STATUS_UNAVAILABLE) continue;
        Device device("cpu");
        CHECK(device.info.arch == level);
        const Layer layer = MakeLayer(device, reference, style);
        CheckForward(rng, device, layer, reference, input);
        const auto out = RunForward(device, layer, reference, input);
        if (ids.empty()) ids = out.ids;
        const auto margins = RefChoose(reference.router, out.logits).margins;
        for (int64_t t = 0; t < tokens; ++t) {
          if (margins[t] < 1e-5) continue;  // float32 sums in another order may decide otherwise
          CHECK(RowIds(out.ids, t, 3) == RowIds(ids, t, 3));
        }
      }
    }
  }
}

TEST_CASE("the CPU is listed as it would open, also where the environment is wrong") {
  const Runtime runtime = MakeRuntime();
  const auto listed = [&] {
    moert_device_info info = MOERT_DEVICE_INFO_INIT;
    REQUIRE_OK(moert_runtime_device_info(runtime, 0, &info, &error));
    return std::string(info.arch);
  };
  const std::string best = listed();
  {
    const Environment lowest("MOERT_CPU_ISA", CpuLevels(runtime).front().c_str());
    CHECK(listed() == Device("cpu").info.arch);
  }
  const Environment unknown("MOERT_CPU_ISA", "abacus");
  CHECK(listed() == best);
}

TEST_CASE("more CPU threads than any machine has are refused") {
  const Runtime runtime = MakeRuntime();
  moert_device_desc desc = MOERT_DEVICE_DESC_INIT;
  for (uint32_t threads : {1025u, ~0u}) {
    desc.cpu_threads = threads;
    DeviceHandle none;
    CHECK_REFUSED(moert_device_create(runtime, "cpu", &desc, none.out(), &error),
                  MOERT_STATUS_INVALID_ARGUMENT, std::to_string(threads));
  }
}

TEST_CASE("a device can be told to ignore the environment") {
  const Environment unknown("MOERT_CPU_ISA", "abacus");
  moert_device_desc desc = MOERT_DEVICE_DESC_INIT;
  desc.flags = MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT;
  const Device device("cpu", nullptr, &desc);
  CHECK(std::string(device.info.arch) != "abacus");
}

}  // namespace
}  // namespace moert::test
