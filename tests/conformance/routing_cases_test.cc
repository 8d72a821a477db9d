// SPDX-License-Identifier: Apache-2.0
// Small routings that libraries of this kind are known to get wrong, with the right answers.
#include <cmath>
#include <limits>

#include "support/layers.h"

namespace moert::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RefRouter Routing(int32_t experts, int32_t top_k, moert_score score,
                  moert_renormalize renormalize = MOERT_RENORMALIZE_NONE) {
  RefRouter out;
  out.routing.num_experts = experts;
  out.routing.top_k = top_k;
  out.routing.score = score;
  out.routing.renormalize = renormalize;
  return out;
}

RouteOutput RouteLogits(Device& device, const RefRouter& router, const Mat& logits,
                        moert_dtype dtype = MOERT_DTYPE_FLOAT32) {
  return RunRouter(device, MakeRouter(device, router, dtype, 0), router, logits, dtype, true);
}

double Logit(double probability) { return std::log(probability / (1 - probability)); }

TEST_CASE("a selection bias changes the choice and never the weight") {
  ForEachDevice([](Device& device) {
    RefRouter router = Routing(4, 2, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM);
    router.selection_bias = RowVector({0, 0, 0, 10});
    const auto out = RouteLogits(device, router, Mat(1, 4, {2, 1, 0, -1}));
    CHECK(out.ids == Ints{3, 0});
    CHECK(out.weights(0, 0) == doctest::Approx(0.2339).epsilon(1e-3));
    CHECK(out.weights(0, 1) == doctest::Approx(0.7661).epsilon(1e-3));
  });
}

TEST_CASE("scores that are negative with their bias still compete") {
  ForEachDevice([](Device& device) {
    RefRouter router = Routing(4, 2, MOERT_SCORE_SIGMOID);
    router.selection_bias = RowVector({-3, -3, -3, -3});
    const auto out = RouteLogits(device, router, Mat(1, 4, {1, 0, 2, -1}));
    CHECK(out.ids == Ints{2, 0});
    CHECK(out.weights(0, 0) == doctest::Approx(RefSigmoid(2)));
  });
}

TEST_CASE("renormalising is done when asked for and not otherwise") {
  const Mat logits(1, 4, {2, 1, 0, -1});
  ForEachDevice([&](Device& device) {
    const auto plain = RouteLogits(device, Routing(4, 2, MOERT_SCORE_SOFTMAX), logits);
    CHECK(plain.weights(0, 0) == doctest::Approx(0.6439).epsilon(1e-4));
    CHECK(plain.weights(0, 1) == doctest::Approx(0.2369).epsilon(1e-3));
    const auto sum =
        RouteLogits(device, Routing(4, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM), logits);
    CHECK(sum.weights(0, 0) == doctest::Approx(0.7311).epsilon(1e-4));
    CHECK(sum.weights(0, 1) == doctest::Approx(0.2689).epsilon(1e-4));
  });
}

TEST_CASE("a sum of zero renormalises to zeros, never to NaN") {
  ForEachDevice([](Device& device) {
    for (moert_renormalize renormalize : {MOERT_RENORMALIZE_SUM, MOERT_RENORMALIZE_SUM_EPSILON,
                                          MOERT_RENORMALIZE_SUM_MIN, MOERT_RENORMALIZE_P_NORM}) {
      CAPTURE(renormalize);
      for (float value : {1e-20f, 1e-6f, 1.0f}) {
        RefRouter router = Routing(8, 2, MOERT_SCORE_SIGMOID, renormalize);
        router.routing.renormalize_value = value;
        if (renormalize == MOERT_RENORMALIZE_P_NORM) router.routing.renormalize_value = 2;
        router.selection_bias = RowVector({0, 0, 12, 0, 0, 12, 0, 0});
        Mat logits(2, 8, std::vector<double>(16, -200));      // sigmoid is 0 in float32
        for (int64_t e = 0; e < 8; ++e) logits(1, e) = -100;  // 0 or a denormal
        const auto out = RouteLogits(device, router, logits);
        CHECK(out.ids == Ints{2, 5, 2, 5});
        CHECK(out.weights(0, 0) == 0);
        CHECK(out.weights(0, 1) == 0);
        CHECK(std::isfinite(out.weights(1, 0)));
        CHECK(std::isfinite(out.weights(1, 1)));
      }
    }
  });
}

TEST_CASE("experts of excluded groups are out of the race even when all scores are negative") {
  ForEachDevice([](Device& device) {
    for (moert_group_score group_score : {MOERT_GROUP_SCORE_MAX, MOERT_GROUP_SCORE_TOP2_SUM}) {
      RefRouter router = Routing(8, 2, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM);
      router.routing.num_groups = 4;
      router.routing.top_k_groups = 1;
      router.routing.group_score = group_score;
      router.selection_bias = Mat(1, 8, std::vector<double>(8, -2));
      const auto out = RouteLogits(device, router, Mat(1, 8, {3, 2, 0, 0, 0, 0, 0, 0}));
      CHECK(out.ids == Ints{0, 1});
      CHECK(out.weights(0, 0) == doctest::Approx(0.5196).epsilon(1e-3));
      CHECK(out.weights(0, 1) == doctest::Approx(0.4804).epsilon(1e-3));
    }
  });
}

TEST_CASE("a group's score is its best member's or the sum of its two best, as asked for") {
  const double a = Logit(0.9), b = Logit(0.6), low = Logit(0.1);
  const Mat logits(1, 8, {a, low, low, low, b, b, low, low});
  ForEachDevice([&](Device& device) {
    for (bool biased : {false, true}) {
      RefRouter router = Routing(8, 2, MOERT_SCORE_SIGMOID);
      if (biased) router.selection_bias = Mat(1, 8);
      router.routing.num_groups = 2;
      router.routing.top_k_groups = 1;
      router.routing.group_score = MOERT_GROUP_SCORE_MAX;
      CHECK(RouteLogits(device, router, logits).ids == Ints{0, 1});
      router.routing.group_score = MOERT_GROUP_SCORE_TOP2_SUM;
      CHECK(RouteLogits(device, router, logits).ids == Ints{4, 5});
    }
  });
}

TEST_CASE(
    "NaN and infinite logits still choose distinct experts in range and leave other rows alone") {
  const std::vector<std::vector<double>> rows = {
      std::vector<double>(8, kNan),
      {1, 2, 3, kNan, 5, 4, 0, -1},
      {1, 2, 3, kInfinity, 5, 4, 0, -1},
      std::vector<double>(8, -kInfinity),
      {kNan, -kInfinity, kNan, kNan, kNan, kNan, kNan, kNan}};
  const std::vector<Ints> wanted = {{0, 1}, {4, 5}, {3, 4}, {0, 1}, {1, 0}};
  Rng rng;
  CAPTURE(rng.seed);
  Mat logits = rng.NormalMat(3, 8, 1, MOERT_DTYPE_FLOAT16);
  ForEachDevice([&](Device& device) {
    for (moert_dtype dtype : {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_FLOAT16}) {
      for (moert_score score : {MOERT_SCORE_SOFTMAX, MOERT_SCORE_SIGMOID, MOERT_SCORE_SOFTMAX_TOP_K,
                                MOERT_SCORE_SIGMOID_TOP_K}) {
        const RefRouter router = Routing(8, 2, score, MOERT_RENORMALIZE_SUM);
        const auto usual = RouteLogits(device, router, logits, dtype);
        for (size_t i = 0; i < rows.size(); ++i) {
          Mat spoilt = logits;
          std::copy(rows[i].begin(), rows[i].end(), spoilt.v.begin() + 8);
          const auto out = RouteLogits(device, router, spoilt, dtype);
          CHECK(RowIds(out.ids, 1, 2) == wanted[i]);
          for (int64_t row : {0, 2}) {
            CHECK(RowIds(out.ids, row, 2) == RowIds(usual.ids, row, 2));
            CHECK(out.weights(row, 0) == usual.weights(row, 0));
            CHECK(out.weights(row, 1) == usual.weights(row, 1));
          }
        }
      }
    }
  });
}

TEST_CASE("a selection bias and groups keep ids distinct when scores are NaN") {
  ForEachDevice([](Device& device) {
    for (moert_score score : {MOERT_SCORE_SOFTMAX, MOERT_SCORE_SIGMOID}) {
      RefRouter router = Routing(8, 3, score, MOERT_RENORMALIZE_SUM);
      router.routing.num_groups = 2;
      router.routing.top_k_groups = 1;
      router.selection_bias = RowVector({0, 0, 0, 0, 1, 1, 1, 1});
      for (moert_group_score group_score : {MOERT_GROUP_SCORE_MAX, MOERT_GROUP_SCORE_TOP2_SUM}) {
        router.routing.group_score = group_score;
        Mat logits(3, 8);
        for (int64_t e = 0; e < 8; ++e) logits(0, e) = kNan;
        logits(1, 2) = logits(2, 6) = kNan;
        logits(2, 7) = kInfinity;
        const auto out = RouteLogits(device, router, logits);
        for (int64_t row = 0; row < 3; ++row) {
          CHECK(DistinctAndInRange(RowIds(out.ids, row, 3), 8));
        }
      }
    }
  });
}

TEST_CASE(
    "ties go to the lower index: among experts, at the border, between groups, for signed zeros") {
  ForEachDevice([](Device& device) {
    for (int64_t tokens : {1, 1000}) {
      auto repeated = [&](const std::vector<double>& row) {
        Mat out(tokens, static_cast<int64_t>(row.size()));
        for (int64_t t = 0; t < tokens; ++t) {
          std::copy(row.begin(), row.end(), out.v.begin() + t * out.cols);
        }
        return out;
      };
      auto check = [&](const RefRouter& router, const std::vector<double>& row, const Ints& want) {
        for (int run = 0; run < 5; ++run) {
          const auto out = RouteLogits(device, router, repeated(row));
          for (int64_t t = 0; t < tokens; ++t) {
            REQUIRE(RowIds(out.ids, t, static_cast<int64_t>(want.size())) == want);
          }
        }
      };
      const RefRouter two = Routing(8, 2, MOERT_SCORE_SOFTMAX);
      check(two, std::vector<double>(8, 0.25), {0, 1});
      check(two, {0, 3, 1, 1, 1, 1, 0, 0}, {1, 2});
      check(two, {-0.0, 0.0, -0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0, 1});
      check(two, {-1, -0.0, 0.0, -1, 0.0, -1, -1, -1}, {1, 2});
      RefRouter grouped = Routing(8, 2, MOERT_SCORE_SIGMOID);
      grouped.routing.num_groups = 4;
      grouped.routing.top_k_groups = 2;
      check(grouped, {0, 0, 1, 0, 2, 0, 1, 0}, {4, 2});
      grouped.routing.group_score = MOERT_GROUP_SCORE_TOP2_SUM;
      check(grouped, {0, 0, 1, 0, 2, 0, 1, 0}, {4, 2});
      grouped.selection_bias = Mat(1, 8);
      check(grouped, {0, 0, 1, 0, 2, 0, 1, 0}, {4, 2});
    }
  });
}

TEST_CASE("logits keep float32 precision, and given ones are read in their own dtype") {
  ForEachDevice([](Device& device) {
    const RefRouter router = Routing(2, 1, MOERT_SCORE_SOFTMAX);
    const Mat logits(1, 2, {10.00, 10.01});
    CHECK(RouteLogits(device, router, logits, MOERT_DTYPE_FLOAT32).ids == Ints{1});
    CHECK(RouteLogits(device, router, logits, MOERT_DTYPE_FLOAT16).ids == Ints{1});
    CHECK(RouteLogits(device, router, logits, MOERT_DTYPE_BFLOAT16).ids == Ints{0});

    // The same from bfloat16 x and weights.
    RefRouter on_x = router;
    on_x.weight = RoundTo(MOERT_DTYPE_BFLOAT16, Mat(2, 2, {10, 0, 10, 0.01}));
    WeightStyle style;
    style.router_dtype = MOERT_DTYPE_BFLOAT16;
    const Router made = MakeRouter(device, on_x, MOERT_DTYPE_BFLOAT16, 2, style);
    const auto out = RunRouter(device, made, on_x, Mat(1, 2, {1, 1}), MOERT_DTYPE_BFLOAT16, false);
    CHECK(out.ids == Ints{1});
    CHECK(out.logits(0, 1) == doctest::Approx(10.01).epsilon(1e-4));
  });
}

TEST_CASE("expert counts that are no power of two, and every top_k up to them") {
  Rng rng;
  CAPTURE(rng.seed);
  for (int32_t experts : {1, 3, 6, 60, 72, 160, 288}) {
    for (int32_t top_k : {1, 2, 17, 22, experts}) {
      if (top_k > experts) continue;
      CAPTURE(experts);
      CAPTURE(top_k);
      const RefRouter router = Routing(experts, top_k, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM);
      const Mat logits = rng.NormalMat(5, experts, 2, MOERT_DTYPE_FLOAT32);
      ForEachDevice([&](Device& device) {
        const auto out = RouteLogits(device, router, logits);
        CheckRouting(router, logits, out.ids, out.weights);
        CHECK(out.ids == RefChoose(router, logits).ids);
      });
    }
  }
}

TEST_CASE("hundreds of experts, up to a limit that the device states") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    CHECK(device.info.max_experts >= 512);
    CHECK(device.info.max_top_k >= 10);
    for (int32_t experts : {512, 896, 1024}) {
      if (experts > device.info.max_experts) continue;
      const RefRouter router = Routing(experts, 10, MOERT_SCORE_SOFTMAX);
      Mat logits = rng.NormalMat(3, experts, 1, MOERT_DTYPE_FLOAT32);
      for (int32_t e = 256; e < 266; ++e) logits(1, e) = 300 - e;
      const auto out = RouteLogits(device, router, logits);
      CHECK(RowIds(out.ids, 1, 10) == Ints{256, 257, 258, 259, 260, 261, 262, 263, 264, 265});
      CHECK(out.ids == RefChoose(router, logits).ids);
    }
    if (device.info.max_experts == std::numeric_limits<int32_t>::max()) return;
    const RefRouter beyond = Routing(device.info.max_experts + 1, 1, MOERT_SCORE_SOFTMAX);
    moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
    desc.routing = &beyond.routing;
    Router none;
    CHECK_REFUSED(moert_router_create(device.handle, &desc, none.out(), &error),
                  MOERT_STATUS_UNSUPPORTED, std::to_string(device.info.max_experts + 1));
  });
}

}  // namespace
}  // namespace moert::test
