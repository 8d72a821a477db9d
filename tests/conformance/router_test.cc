// SPDX-License-Identifier: Apache-2.0
// Routers on their own, on x and on given logits.
#include <cmath>

#include "support/layers.h"

namespace moert::test {
namespace {

constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};

void CheckRoute(const RefRouter& reference, const RouteOutput& out, const Mat& want_logits) {
  if (want_logits.rows == 0) return;  // nothing happens, so that nothing is written
  CheckLogits(out.logits, want_logits);
  CheckRouting(reference, out.logits, out.ids, out.weights);
  CHECK(out.counts == RefCounts(reference.routing.num_experts, out.ids));
}

Spacing RandomSpacing(Rng& rng) { return {rng.Int(0, 7), rng.Int(0, 3)}; }

TEST_CASE("routers on x equal the float64 reference") {
  for (moert_dtype dtype : kDtypes) {
    for (int round = 0; round < Scaled(80); ++round) {
      Rng rng;
      CAPTURE(rng.seed);
      const WeightStyle style = RandomStyle(rng, dtype);
      const int64_t hidden = rng.Pick<int64_t>({1, 2, 7, 16, 33, 64, 130, 515});
      const RefRouter reference = RandomRouter(rng, RandomRouting(rng), hidden, style.router_dtype);
      const Mat x = rng.NormalMat(rng.Pick<int64_t>({0, 1, 2, 3, 5, 17, 65}), hidden, 1, dtype);
      const Spacing spacing = RandomSpacing(rng);
      ForEachDevice([&](Device& device) {
        const Router router = MakeRouter(device, reference, dtype, hidden, style);
        const auto out = RunRouter(device, router, reference, x, dtype, false, spacing);
        CheckRoute(reference, out, RefLogits(reference, x));
      });
    }
  }
}

TEST_CASE("routers on given logits of each dtype equal the float64 reference") {
  for (moert_dtype dtype : kDtypes) {
    for (int round = 0; round < Scaled(80); ++round) {
      Rng rng;
      CAPTURE(rng.seed);
      const WeightStyle style = RandomStyle(rng, dtype);
      const moert_routing routing = RandomRouting(rng);
      // Half of the routers could run on x as well.
      const int64_t hidden = rng.Chance(0.5) ? 8 : 0;
      const RefRouter reference = RandomRouter(rng, routing, hidden, style.router_dtype);
      const Mat logits =
          rng.NormalMat(rng.Pick<int64_t>({0, 1, 2, 3, 5, 17, 65}), routing.num_experts, 2, dtype);
      const Spacing spacing = RandomSpacing(rng);
      ForEachDevice([&](Device& device) {
        const Router router = MakeRouter(device, reference, dtype, hidden, style);
        const auto out = RunRouter(device, router, reference, logits, dtype, true, spacing);
        CheckRoute(reference, out, RefFinishLogits(reference, logits));
      });
    }
  }
}

TEST_CASE("coarse logits with many ties go to the lower index, as in the reference") {
  for (int round = 0; round < Scaled(60); ++round) {
    Rng rng;
    CAPTURE(rng.seed);
    moert_routing routing = RandomRouting(rng);
    routing.logit_soft_cap = 0;
    routing.group_score = MOERT_GROUP_SCORE_MAX;
    RefRouter reference;
    reference.routing = routing;
    Mat logits(rng.Pick<int64_t>({1, 3, 40}), routing.num_experts);
    for (double& logit : logits.v) logit = static_cast<double>(rng.Int(-2, 2));
    ForEachDevice([&](Device& device) {
      for (moert_dtype dtype : kDtypes) {
        const Router router = MakeRouter(device, reference, dtype, 0);
        const auto out = RunRouter(device, router, reference, logits, dtype, true);
        CHECK(out.ids == RefChoose(reference, logits).ids);
      }
    });
  }
}

TEST_CASE("sparsemixer drops experts that are too far from the pick") {
  RefRouter reference;
  reference.routing.score = MOERT_SCORE_SPARSEMIXER;
  reference.routing.num_experts = 4;
  reference.routing.top_k = 2;
  reference.routing.sparsemixer_epsilon = 0.1f;
  // 2 * epsilon = 0.2: 9 and 8.5 stay with the first pick 10; 7 is dropped. The second pick is 9;
  // 10 is out, 8.5 stays, 7 is dropped: (9 - 7) / 9 > 0.2.
  const Mat logits(1, 4, {7, 10, 9, 8.5});
  ForEachDevice([&](Device& device) {
    const Router router = MakeRouter(device, reference, MOERT_DTYPE_FLOAT32, 0);
    const auto out = RunRouter(device, router, reference, logits, MOERT_DTYPE_FLOAT32, true);
    CHECK(out.ids == Ints{1, 2});
    CHECK(out.weights(0, 0) == doctest::Approx(1 / (1 + std::exp(-1.0) + std::exp(-1.5))));
    CHECK(out.weights(0, 1) == doctest::Approx(1 / (1 + std::exp(-0.5))));
  });
}

TEST_CASE("routers share out few tokens among more threads than a block has rows") {
  Rng rng;
  CAPTURE(rng.seed);
  moert_routing routing = MOERT_ROUTING_INIT;
  routing.num_experts = 512;
  routing.top_k = 3;
  const RefRouter reference = RandomRouter(rng, routing, 2049, MOERT_DTYPE_FLOAT32);
  moert_device_desc desc = MOERT_DEVICE_DESC_INIT;
  desc.cpu_threads = 64;
  Device device("cpu", nullptr, &desc);
  const Router router = MakeRouter(device, reference, MOERT_DTYPE_FLOAT32, 2049);
  for (int64_t tokens : {59, 61, 127, 255}) {
    CAPTURE(tokens);
    const Mat x = rng.NormalMat(tokens, 2049, 1, MOERT_DTYPE_FLOAT32);
    const auto out = RunRouter(device, router, reference, x, MOERT_DTYPE_FLOAT32, false);
    CheckRoute(reference, out, RefLogits(reference, x));
  }
}

TEST_CASE("a router's outputs are the same bits in every run") {
  Rng rng;
  CAPTURE(rng.seed);
  moert_routing routing = MOERT_ROUTING_INIT;
  routing.num_experts = 60;
  routing.top_k = 6;
  routing.renormalize = MOERT_RENORMALIZE_SUM;
  const RefRouter reference = RandomRouter(rng, routing, 130, MOERT_DTYPE_FLOAT32);
  const Mat x = rng.NormalMat(129, 130, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Router router = MakeRouter(device, reference, MOERT_DTYPE_FLOAT32, 130);
    const auto first = RunRouter(device, router, reference, x, MOERT_DTYPE_FLOAT32, false);
    for (int run = 0; run < 20; ++run) {
      const auto again = RunRouter(device, router, reference, x, MOERT_DTYPE_FLOAT32, false);
      REQUIRE(again.ids == first.ids);
      REQUIRE(again.weights.v == first.weights.v);
      REQUIRE(again.logits.v == first.logits.v);
    }
  });
}

}  // namespace
}  // namespace moert::test
