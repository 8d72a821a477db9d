// SPDX-License-Identifier: Apache-2.0
// Small layers that libraries of this kind are known to get wrong, with the right answers.
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "support/layers.h"

namespace moert::test {
namespace {

constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("two tokens choose ten of 512 experts") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(
      rng, {.experts = 512, .top_k = 10, .hidden = 24, .intermediate = 8}, MOERT_DTYPE_FLOAT32);
  for (int64_t tokens : {1, 2, 3, 70}) {
    ForwardInput input;
    input.x = rng.NormalMat(tokens, 24, 1, MOERT_DTYPE_FLOAT32);
    ForEachDevice([&](Device& device) {
      CheckForward(rng, device, MakeLayer(device, reference), reference, input);
    });
  }
}

TEST_CASE("an empty batch does nothing, and the next call is normal") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference =
      RandomLayer(rng, {.experts = 4, .hidden = 8, .shared = 3}, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference);
    moert_matrix empty, ids, weights;
    moert_matrix_init(&empty, nullptr, 0, 8, MOERT_DTYPE_FLOAT32);
    moert_matrix_init(&ids, nullptr, 0, 2, MOERT_DTYPE_INT32);
    moert_matrix_init(&weights, nullptr, 0, 2, MOERT_DTYPE_FLOAT32);
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    args.x = args.y = &empty;
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    args.ids = &ids;
    args.weights = &weights;
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    args.flags = MOERT_FORWARD_FLAG_GIVEN_ROUTING | MOERT_FORWARD_FLAG_ACCUMULATE;
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    device.Synchronize();

    // Nothing at all: not even the counts are written.
    MatrixBuffer counts(device, 1, 4, MOERT_DTYPE_INT32);
    counts.Poison();
    const Ints before = counts.GetInts();
    args.expert_counts = counts.view();
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    device.Synchronize();
    CHECK(counts.GetInts() == before);

    ForwardInput input;
    input.x = rng.NormalMat(4, 8, 1, MOERT_DTYPE_FLOAT32);
    CheckForward(rng, device, layer, reference, input);
  });
}

TEST_CASE("experts that nobody chose are no trouble, nor is one that everybody chose") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    WeightStyle style;
    style.dtype = dtype;
    const RefLayer reference = RandomLayer(rng, {.experts = 8, .hidden = 20}, dtype, style);
    std::vector<Ints> routings = {{0, 1, 1, 0, 0, 1, 1, 0}, Ints(8, 7), Ints(8, 2), Ints(8, -1)};
    for (const Ints& ids : routings) {
      ForwardInput input;
      input.x = rng.NormalMat(4, 20, 1, dtype);
      input.given = true;
      input.ids = ids;
      input.weights = rng.NormalMat(4, 2, 1, MOERT_DTYPE_FLOAT32);
      ForEachDevice([&](Device& device) {
        const Layer layer = MakeLayer(device, reference, style);
        CheckForward(rng, device, layer, reference, input);
      });
    }
  }
}

TEST_CASE("a slot of -1 adds exactly nothing, whatever its weight") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_weight_application application :
       {MOERT_WEIGHT_APPLICATION_OUTPUT, MOERT_WEIGHT_APPLICATION_INPUT}) {
    RefLayer reference =
        RandomLayer(rng, {.experts = 16, .top_k = 2, .hidden = 10}, MOERT_DTYPE_FLOAT32);
    reference.weight_application = application;
    reference.held = std::vector<bool>(16, false);
    for (int e : {4, 5, 6, 7}) reference.held[e] = true;
    ForwardInput input;
    input.x = rng.NormalMat(4, 10, 1, MOERT_DTYPE_FLOAT32);
    input.given = true;
    // Row 2's other expert is not held here.
    input.ids = {-1, 5, -1, -1, 6, 12, 0, 15};
    input.weights = Mat(4, 2, {kNan, 0.5, kNan, kInfinity, 0.25, kNan, kNan, kNan});
    ForEachDevice([&](Device& device) {
      const Layer layer = MakeLayer(device, reference);
      const auto out = RunForward(device, layer, reference, input);
      ForwardInput clean = input;
      clean.weights = Mat(4, 2, {0, 0.5, 0, 0, 0.25, 0, 0, 0});
      CheckOutput(rng, reference, clean, clean.ids, clean.weights, out.y);
      for (int64_t row : {1, 3}) {
        for (int64_t h = 0; h < 10; ++h) CHECK(out.y(row, h) == 0);
      }
    });
  }
}

TEST_CASE("ranks that hold some of the experts add up to the layer that holds all") {
  Rng rng;
  CAPTURE(rng.seed);
  RefLayer whole =
      RandomLayer(rng, {.experts = 8, .top_k = 6, .hidden = 21, .shared = 5}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(2, 21, 1, MOERT_DTYPE_FLOAT32);
  input.given = true;
  input.ids = {2, 3, 0, 5, 2, 7, 7, 6, 5, 4, 3, 2};
  input.weights = rng.NormalMat(2, 6, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    Mat sum(2, 21);
    for (int rank = 0; rank < 4; ++rank) {
      RefLayer part = whole;
      part.held = std::vector<bool>(8, false);
      part.held[2 * rank] = part.held[2 * rank + 1] = true;
      ForwardInput rank_input = input;
      rank_input.skip_shared = rank != 0;
      const Mat y = RunForward(device, MakeLayer(device, part), part, rank_input).y;
      for (size_t i = 0; i < sum.v.size(); ++i) sum.v[i] += y.v[i];
    }
    CHECK(RelativeError(sum, RefForward(whole, input.x, input.ids, input.weights)) < 1e-5);
  });
}

TEST_CASE("local experts in any order are found by their global ids") {
  Rng rng;
  CAPTURE(rng.seed);
  RefLayer reference = RandomLayer(rng, {.experts = 6, .hidden = 9}, MOERT_DTYPE_FLOAT32);
  reference.held = {true, false, true, true, false, true};
  const std::vector<int32_t> order = {5, 0, 3, 2};
  ForwardInput input;
  input.x = rng.NormalMat(7, 9, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    LayerSource source(device, reference, {});
    StoredWeights shuffled;
    shuffled.AddLayer(device, reference, order, {});
    source.desc.weights = shuffled.list().data();
    source.desc.local_experts = order.data();
    CheckForward(rng, device, source.Create(device), reference, input);
  });
}

TEST_CASE("all tokens on the last expert fit the workspace, which nothing writes beyond") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    WeightStyle style;
    style.dtype = dtype;
    const RefLayer reference = RandomLayer(
        rng, {.experts = 9, .top_k = 3, .hidden = 30, .intermediate = 41}, dtype, style);
    for (int64_t tokens : {1, 13, 129}) {
      ForwardInput input;
      input.x = rng.NormalMat(tokens, 30, 1, dtype);
      input.given = true;
      input.ids = Ints(tokens * 3, 8);
      input.weights = rng.NormalMat(tokens, 3, 1, MOERT_DTYPE_FLOAT32);
      ForEachDevice([&](Device& device) {
        CheckForward(rng, device, MakeLayer(device, reference, style), reference, input);
      });
    }
  }
}

// Memory that ends in a page without access, as close behind `bytes` bytes as 256-byte alignment
// lets.
class GuardedPages {
 public:
  explicit GuardedPages(uint64_t bytes) : bytes_((bytes / kPage + 2) * kPage) {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + bytes_, kPage, PROT_NONE) == 0);
    data_ = base_ + (bytes_ - bytes) / 256 * 256;
  }
  ~GuardedPages() { munmap(base_, bytes_ + kPage); }
  void* data() const { return data_; }

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t bytes_;
  uint8_t* base_;
  uint8_t* data_;
};

TEST_CASE("the CPU stays inside a workspace that ends at a page without access") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    if (!device.is_cpu()) return;
    for (int round = 0; round < Scaled(30); ++round) {
      WeightStyle style;
      const RefLayer reference = RandomAnyLayer(rng, rng.Pick({kDtypes[0], kDtypes[1]}), &style);
      const Layer layer = MakeLayer(device, reference, style);
      const int64_t tokens = rng.Int(1, 20);
      MatrixBuffer x(device, rng.NormalMat(tokens, reference.hidden, 1, reference.dtype),
                     reference.dtype);
      MatrixBuffer y(device, tokens, reference.hidden, reference.dtype);
      moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
      args.x = x.view();
      args.y = y.view();
      uint64_t size = 0;
      REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
      const GuardedPages workspace(size);
      args.workspace = workspace.data();
      args.workspace_size = size;
      CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
      device.Synchronize();
    }
  });
}

TEST_CASE("rows that lie gigabytes apart equal the packed ones") {
  constexpr int64_t kRows = 65, kStride = int64_t{1} << 25, kHidden = 24;
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference =
      RandomLayer(rng, {.experts = 4, .hidden = kHidden, .shared = 9}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(kRows, kHidden, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference);
    const Mat want = RunForward(device, layer, reference, input).y;
    const uint64_t bytes = ((kRows - 1) * kStride + kHidden) * sizeof(float);
    // Only pages that are touched take memory: on the CPU by mmap, on the test device anyway.
    auto allocate = [&]() -> void* {
      if (!device.is_cpu()) {
        void* memory = nullptr;
        Error error;
        if (moert_device_alloc(device.handle, bytes, &memory, &error) != MOERT_STATUS_OK) {
          throw Skip{error.message};
        }
        return memory;
      }
      void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      REQUIRE(memory != MAP_FAILED);
      return memory;
    };
    auto release = [&](void* memory) {
      if (device.is_cpu()) {
        munmap(memory, bytes);
      } else {
        moert_device_free(device.handle, memory);
      }
    };
    moert_matrix x, y;
    moert_matrix_init(&x, allocate(), kRows, kHidden, MOERT_DTYPE_FLOAT32);
    moert_matrix_init(&y, allocate(), kRows, kHidden, MOERT_DTYPE_FLOAT32);
    x.row_stride = y.row_stride = kStride;
    auto row = [=](const moert_matrix& m, int64_t t) {
      return static_cast<float*>(m.data) + t * kStride;
    };
    std::vector<float> values(input.x.v.begin(), input.x.v.end());
    for (int64_t t = 0; t < kRows; ++t) {
      REQUIRE_OK(moert_stream_copy(device.stream, row(x, t), values.data() + t * kHidden,
                                   kHidden * sizeof(float), &error));
    }
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    args.x = &x;
    args.y = &y;
    uint64_t size = 0;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
    REQUIRE_OK(moert_stream_reserve(device.stream, size, &error));
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    std::vector<float> got(values.size());
    for (int64_t t = 0; t < kRows; ++t) {
      REQUIRE_OK(moert_stream_copy(device.stream, got.data() + t * kHidden, row(y, t),
                                   kHidden * sizeof(float), &error));
    }
    device.Synchronize();
    CHECK(std::vector<double>(got.begin(), got.end()) == want.v);
    release(x.data);
    release(y.data);
  });
}

TEST_CASE("twenty runs of a wide bfloat16 layer are equal bit for bit") {
  Rng rng;
  CAPTURE(rng.seed);
  WeightStyle style;
  style.dtype = MOERT_DTYPE_BFLOAT16;
  const RefLayer reference =
      RandomLayer(rng, {.experts = 16, .top_k = 8, .hidden = 2048, .intermediate = 8},
                  MOERT_DTYPE_BFLOAT16, style);
  ForwardInput input;
  input.x = rng.NormalMat(Scaled(512), 2048, 1, MOERT_DTYPE_BFLOAT16);
  input.read_back = false;
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference, style);
    const auto first = RunForward(device, layer, reference, input).y_bytes;
    for (int run = 1; run < Scaled(20); ++run) {
      REQUIRE(RunForward(device, layer, reference, input).y_bytes == first);
    }
  });
}

TEST_CASE("a token of NaN leaves the outputs of other tokens as they are") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    WeightStyle style;
    style.dtype = dtype;
    const RefLayer reference =
        RandomLayer(rng, {.experts = 8, .hidden = 33, .shared = 7}, dtype, style);
    ForwardInput usual;
    usual.x = rng.NormalMat(3, 33, 1, dtype);
    ForEachDevice([&](Device& device) {
      const Layer layer = MakeLayer(device, reference, style);
      const auto want = RunForward(device, layer, reference, usual);
      for (double bad : {kNan, kInfinity}) {
        ForwardInput spoilt = usual;
        // With the input left as it is, NaN != NaN: RunForward compares them as equal.
        for (int64_t h = 0; h < 33; ++h) spoilt.x(1, h) = bad;
        const auto out = RunForward(device, layer, reference, spoilt);
        CHECK(DistinctAndInRange(RowIds(out.ids, 1, 2), 8));
        for (int64_t row : {0, 2}) {
          CHECK(RowIds(out.ids, row, 2) == RowIds(want.ids, row, 2));
          for (int64_t h = 0; h < 33; ++h) REQUIRE(out.y(row, h) == want.y(row, h));
        }
      }
    });
  }
}

// One expert of hidden 1 or more whose weights are given outright.
RefLayer OneExpert(int64_t hidden, int64_t intermediate, std::vector<double> gate,
                   std::vector<double> up, std::vector<double> down) {
  RefLayer out;
  out.hidden = hidden;
  out.intermediate = intermediate;
  out.router.routing.score = MOERT_SCORE_SIGMOID;
  out.router.routing.num_experts = out.router.routing.top_k = 1;
  out.router.weight = Mat(1, hidden);
  out.experts.push_back({Mat(intermediate, hidden, std::move(gate)),
                         Mat(intermediate, hidden, std::move(up)),
                         Mat(hidden, intermediate, std::move(down)),
                         {},
                         {},
                         {}});
  return out;
}

ForwardInput WithWeightOne(Mat x) {
  ForwardInput in;
  in.given = true;
  in.ids = Ints(x.rows, 0);
  in.weights = Mat(x.rows, 1, std::vector<double>(x.rows, 1));
  in.x = std::move(x);
  return in;
}

TEST_CASE("gate and up are not taken for each other in any packing and orientation") {
  const RefLayer reference = OneExpert(2, 1, {1, 0}, {0, 1}, {1, 0});
  ForEachDevice([&](Device& device) {
    for (bool packed : {false, true}) {
      for (moert_packing packing : {MOERT_PACKING_CONCATENATED, MOERT_PACKING_INTERLEAVED}) {
        for (moert_orientation orientation : {MOERT_ORIENTATION_OUT_IN, MOERT_ORIENTATION_IN_OUT}) {
          WeightStyle style;
          style.packed = packed;
          style.packing = packing;
          style.orientation = orientation;
          const Layer layer = MakeLayer(device, reference, style);
          const Mat y = RunForward(device, layer, reference, WithWeightOne(Mat(1, 2, {1, 2}))).y;
          CHECK(y(0, 0) == doctest::Approx(1.4621).epsilon(1e-4));
          CHECK(y(0, 1) == 0);
        }
      }
    }
  });
}

TEST_CASE("limits clamp the gate from above only and up on both sides") {
  // x = (g0, u0, g1, u1); the two intermediates go to outputs 0 and 1.
  const std::vector<double> gate = {1, 0, 0, 0, 0, 0, 1, 0}, up = {0, 1, 0, 0, 0, 0, 0, 1};
  RefLayer reference = OneExpert(4, 2, gate, up, {1, 0, 0, 1, 0, 0, 0, 0});
  ForEachDevice([&](Device& device) {
    WeightStyle style;
    style.packed = true;
    style.packing = MOERT_PACKING_INTERLEAVED;
    auto run = [&](Mat x) {
      return RunForward(device, MakeLayer(device, reference, style), reference,
                        WithWeightOne(std::move(x)))
          .y;
    };
    reference.activation.alpha = 1.702f;
    reference.activation.limit = 7;
    reference.activation.up_offset = 1;
    const Mat clamped = run(Mat(1, 4, {8, -9, 1, 2}));
    CHECK(clamped(0, 0) == doctest::Approx(-41.9997).epsilon(1e-5));
    CHECK(clamped(0, 1) == doctest::Approx(2.5374).epsilon(1e-4));
    // A gate of -100 stays -100, whose SiLU is nearly 0; clamped to -7 it would be -4.7e-5.
    CHECK(std::fabs(run(Mat(1, 4, {-100, 3, 0, 0}))(0, 0)) < 1e-30);
    reference.activation = MOERT_ACTIVATION_INIT;
    const Mat plain = run(Mat(1, 4, {8, -9, 1, 2}));
    CHECK(plain(0, 0) == doctest::Approx(-71.976).epsilon(1e-4));
    CHECK(plain(0, 1) == doctest::Approx(1.4621).epsilon(1e-4));
  });
}

TEST_CASE("the weight multiplies the input or the output, as the layer says") {
  RefLayer reference = OneExpert(1, 1, {1}, {1}, {1});
  ForwardInput input;
  input.x = Mat(1, 1, {2});
  ForEachDevice([&](Device& device) {
    reference.weight_application = MOERT_WEIGHT_APPLICATION_INPUT;
    // The weight is sigmoid(0) = 0.5: silu(1) * 1.
    CHECK(RunForward(device, MakeLayer(device, reference), reference, input).y(0, 0) ==
          doctest::Approx(0.7311).epsilon(1e-4));
    reference.weight_application = MOERT_WEIGHT_APPLICATION_OUTPUT;
    CHECK(RunForward(device, MakeLayer(device, reference), reference, input).y(0, 0) ==
          doctest::Approx(1.7616).epsilon(1e-4));
  });
}

// A layer of one square-ReLU expert with two intermediates that read x[0] and x[1].
RefLayer TwoSquares(moert_dtype dtype, std::vector<double> down) {
  RefLayer out = OneExpert(2, 2, {}, {1, 0, 0, 1}, std::move(down));
  out.dtype = dtype;
  out.experts[0].gate = Mat();
  out.activation.kind = MOERT_ACTIVATION_KIND_RELU2;
  out.activation.flags = MOERT_ACTIVATION_FLAG_UNGATED;
  return out;
}

TEST_CASE("the intermediate is rounded to the layer's dtype and an input-side weight rounds x*w") {
  WeightStyle style;
  style.dtype = MOERT_DTYPE_BFLOAT16;
  ForEachDevice([&](Device& device) {
    // The square of 1 + 3 * 2^-7 is 1 + 6 * 2^-7 + 9 * 2^-14, whose last part bfloat16 drops.
    RefLayer reference = TwoSquares(MOERT_DTYPE_BFLOAT16, {64, -64, 1, 0});
    const Mat y = RunForward(device, MakeLayer(device, reference, style), reference,
                             WithWeightOne(Mat(1, 2, {1 + 0x3p-7, 1})))
                      .y;
    CHECK(y(0, 0) == 3);
    CHECK(y(0, 1) == 1 + 0x6p-7);

    // 1 + 2^-9 rounds to 1; unrounded, its square would round to 1 + 2^-7.
    reference.weight_application = MOERT_WEIGHT_APPLICATION_INPUT;
    ForwardInput input = WithWeightOne(Mat(1, 2, {1, 0}));
    input.weights(0, 0) = 1 + 0x1p-9;
    CHECK(RunForward(device, MakeLayer(device, reference, style), reference, input).y(0, 1) == 1);
  });
}

TEST_CASE("weights multiply in float32, and slots are summed before the one rounding of y") {
  WeightStyle style;
  style.dtype = MOERT_DTYPE_FLOAT16;
  RefLayer reference = TwoSquares(MOERT_DTYPE_FLOAT16, {1, 0, 0, 1});
  reference.router.routing.num_experts = reference.router.routing.top_k = 2;
  reference.router.weight = Mat(2, 2);
  reference.experts.push_back(reference.experts[0]);
  ForwardInput input;
  input.x = Mat(1, 2, {1, 2});
  input.given = true;
  input.ids = {0, 1};
  input.weights = Mat(1, 2, {1 + 0x1p-13, -1});
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference, style);
    const Mat y = RunForward(device, layer, reference, input).y;
    CHECK(y(0, 0) == 0x1p-13);
    CHECK(y(0, 1) == 0x1p-11);
    // So is what was in y before.
    ForwardInput onto = input;
    onto.y_before = Mat(1, 2, {1, -4});
    onto.weights = Mat(1, 2, {0x1p-12, -1});
    CHECK(RunForward(device, layer, reference, onto).y(0, 0) == 0x1p-12);
  });
}

TEST_CASE("the routed scaling factor multiplies the routed part once and never the shared expert") {
  Rng rng;
  CAPTURE(rng.seed);
  RefLayer scaled =
      RandomLayer(rng, {.experts = 6, .top_k = 3, .hidden = 20, .shared = 11}, MOERT_DTYPE_FLOAT32);
  RefLayer plain = scaled;
  scaled.router.routing.routed_scaling_factor = 2.5f;
  ForwardInput input;
  input.x = rng.NormalMat(5, 20, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer with = MakeLayer(device, scaled), without = MakeLayer(device, plain);
    CheckForward(rng, device, with, scaled, input);
    ForwardInput routed_only = input;
    routed_only.skip_shared = true;
    const Mat y = RunForward(device, with, scaled, input).y;
    const Mat both = RunForward(device, without, plain, input).y;
    const Mat routed = RunForward(device, without, plain, routed_only).y;
    Mat want = both;
    for (size_t i = 0; i < want.v.size(); ++i) want.v[i] += 1.5 * routed.v[i];
    CHECK(RelativeError(y, want) < 1e-5);
  });
}

TEST_CASE("intermediate sizes that fill no tile, with gate and up in one tensor and biases") {
  Rng rng;
  CAPTURE(rng.seed);
  for (int64_t intermediate : {704, 928, 232}) {
    for (moert_dtype dtype : kDtypes) {
      WeightStyle style;
      style.dtype = dtype;
      style.packed = true;
      RefLayer reference = RandomLayer(
          rng, {.experts = 3, .hidden = 40, .intermediate = intermediate}, dtype, style);
      for (RefExpert& expert : reference.experts) {
        expert.gate_bias = rng.NormalMat(1, intermediate, 1, MOERT_DTYPE_FLOAT32);
        expert.up_bias = rng.NormalMat(1, intermediate, 1, MOERT_DTYPE_FLOAT32);
      }
      ForwardInput input;
      input.x = rng.NormalMat(5, 40, 1, dtype);
      ForEachDevice([&](Device& device) {
        CheckForward(rng, device, MakeLayer(device, reference, style), reference, input);
      });
    }
  }
}

TEST_CASE("a hidden size of 2880 writes 2880 columns") {
  Rng rng;
  CAPTURE(rng.seed);
  WeightStyle style;
  style.dtype = MOERT_DTYPE_BFLOAT16;
  for (const auto& [hidden, intermediate] : {std::pair{2880, 720}, std::pair{720, 2880}}) {
    const RefLayer reference =
        RandomLayer(rng, {.experts = 2, .top_k = 1, .hidden = hidden, .intermediate = intermediate},
                    MOERT_DTYPE_BFLOAT16, style);
    ForEachDevice([&](Device& device) {
      const Layer layer = MakeLayer(device, reference, style);
      for (int64_t tokens : {1, 3, 17}) {
        ForwardInput input;
        input.x = rng.NormalMat(tokens, reference.hidden, 1, MOERT_DTYPE_BFLOAT16);
        input.spacing.extra_stride = 7;
        CheckForward(rng, device, layer, reference, input);
      }
    });
  }
}

TEST_CASE("odd widths at addresses that are aligned to their element only") {
  Rng rng;
  CAPTURE(rng.seed);
  WeightStyle style;
  style.dtype = MOERT_DTYPE_BFLOAT16;
  style.byte_offset = 2;
  style.on_device = true;
  const RefLayer reference =
      RandomLayer(rng, {.experts = 4, .top_k = 1, .hidden = 1025, .intermediate = 512},
                  MOERT_DTYPE_BFLOAT16, style);
  ForwardInput input;
  input.x = rng.NormalMat(8, 1025, 1, MOERT_DTYPE_BFLOAT16);
  input.given = true;
  input.ids = {0, 0, 1, 1, 2, 2, 3, 3};
  input.weights = rng.NormalMat(8, 1, 1, MOERT_DTYPE_FLOAT32);
  input.spacing.offset = 1;
  ForEachDevice([&](Device& device) {
    LayerSource source(device, reference, style);
    CheckForward(rng, device, source.Create(device), reference, input);
    source.desc.flags = MOERT_LAYER_FLAG_BORROW_WEIGHTS;
    CheckForward(rng, device, source.Create(device), reference, input);
  });
}

TEST_CASE("every shape runs, whichever kernel was tuned for others") {
  for (int round = 0; round < Scaled(40); ++round) {
    Rng rng;
    CAPTURE(rng.seed);
    const moert_dtype dtype = rng.Pick({kDtypes[0], kDtypes[1], kDtypes[2]});
    WeightStyle style;
    style.dtype = dtype;
    Shape shape{.hidden = 16};
    shape.experts = rng.Pick({8, 60, 257, 288});
    shape.top_k = rng.Pick({1, 6, 8});
    if (shape.experts > 8 && rng.Chance(0.3)) shape.top_k = 9;
    shape.intermediate = rng.Pick<int64_t>({64, 192, 256, 320, 384, 704, 928});
    if (shape.experts > 60) shape.hidden = 5;
    const int64_t work = shape.top_k * shape.intermediate * shape.hidden;
    const int64_t tokens = std::min<int64_t>(rng.Int(1, 400), std::max<int64_t>(1, 3000000 / work));
    const RefLayer reference = RandomLayer(rng, shape, dtype, style);
    ForwardInput input;
    input.x = rng.NormalMat(tokens, shape.hidden, 1, dtype);
    ForEachDevice([&](Device& device) {
      CheckForward(rng, device, MakeLayer(device, reference, style), reference, input);
    });
  }
}

TEST_CASE("ids and weights may be columns of one wider matrix") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(rng, {.experts = 5, .hidden = 6}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(9, 6, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer layer = MakeLayer(device, reference);
    const auto want = RunForward(device, layer, reference, input);
    MatrixBuffer x(device, input.x, MOERT_DTYPE_FLOAT32), y(device, 9, 6, MOERT_DTYPE_FLOAT32);
    MatrixBuffer wide(device, 9, 5, MOERT_DTYPE_INT32);
    wide.Poison();
    const int32_t poison = wide.GetInts()[4];
    moert_matrix ids = *wide.view(), weights = *wide.view();
    ids.cols = weights.cols = 2;
    weights.dtype = MOERT_DTYPE_FLOAT32;
    weights.data = static_cast<int32_t*>(weights.data) + 2;
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    args.x = x.view();
    args.y = y.view();
    args.ids = &ids;
    args.weights = &weights;
    uint64_t size = 0;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
    REQUIRE_OK(moert_stream_reserve(device.stream, size, &error));
    REQUIRE_OK(moert_layer_forward(layer, device.stream, &args, &error));
    device.Synchronize();
    const auto bytes = wide.Bytes();
    const Ints got = wide.GetInts();
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t s = 0; s < 2; ++s) {
        CHECK(got[t * 5 + s] == want.ids[t * 2 + s]);
        CHECK(Decode(MOERT_DTYPE_FLOAT32, &bytes[(t * 5 + 2 + s) * 4]) == want.weights(t, s));
      }
      CHECK(got[t * 5 + 4] == poison);
    }
    CHECK(y.Get().v == want.y.v);
  });
}

TEST_CASE("gate and up may be two views into one stacked tensor") {
  Rng rng;
  CAPTURE(rng.seed);
  constexpr int64_t kI = 7, kH = 10;
  const RefLayer reference =
      RandomLayer(rng, {.experts = 3, .hidden = kH, .intermediate = kI}, MOERT_DTYPE_FLOAT32);
  ForwardInput input;
  input.x = rng.NormalMat(6, kH, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    WeightStyle style;
    style.packed = true;
    LayerSource source(device, reference, style);
    std::vector<moert_weight> weights;
    for (const moert_weight& weight : source.weights.list()) {
      if (weight.role != MOERT_ROLE_EXPERT_GATE_UP) {
        weights.push_back(weight);
        continue;
      }
      moert_weight half = weight;
      half.rows = kI;
      half.expert_stride = 2 * kI * kH;
      half.role = MOERT_ROLE_EXPERT_GATE;
      weights.push_back(half);
      half.role = MOERT_ROLE_EXPERT_UP;
      half.data = static_cast<const float*>(half.data) + kI * kH;
      weights.push_back(half);
    }
    const Layer packed = source.Create(device);
    source.desc.weights = weights.data();
    source.desc.num_weights = static_cast<uint32_t>(weights.size());
    const Layer views = source.Create(device);
    CheckForward(rng, device, views, reference, input);
    CHECK(RunForward(device, views, reference, input).y_bytes ==
          RunForward(device, packed, reference, input).y_bytes);
  });
}

}  // namespace
}  // namespace moert::test
