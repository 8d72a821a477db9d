// SPDX-License-Identifier: Apache-2.0
// Gate ops of every kind and dtype, in place and not, against the float64 formulas.
#include <cmath>

#include "support/device.h"
#include "support/reference.h"

namespace moert::test {
namespace {

constexpr moert_gate_kind kKinds[] = {MOERT_GATE_KIND_MULTIPLY, MOERT_GATE_KIND_MULTIPLY_ROWS,
                                      MOERT_GATE_KIND_ADD_ROWS, MOERT_GATE_KIND_ADD_LINEAR};

Gate MakeGate(Device& device, moert_gate_kind kind, moert_dtype dtype, int64_t width,
              int64_t linear_width) {
  moert_gate_desc desc = MOERT_GATE_DESC_INIT;
  desc.kind = kind;
  desc.dtype = dtype;
  desc.width = width;
  desc.linear_width = kind == MOERT_GATE_KIND_ADD_LINEAR ? linear_width : 0;
  Gate gate;
  REQUIRE_OK(moert_gate_create(device.handle, &desc, gate.out(), &error));
  return gate;
}

bool Adds(moert_gate_kind kind) {
  return kind == MOERT_GATE_KIND_ADD_ROWS || kind == MOERT_GATE_KIND_ADD_LINEAR;
}

struct GateData {
  Mat x, g, h, w, acc;
};

struct Wanted {
  Mat out;
  Mat slack;  // how far float32 sums inside may be off before the last rounding
};

Wanted Expected(moert_gate_kind kind, const GateData& data) {
  constexpr double kFloat32 = 1e-6;  // a few roundings of the terms
  Wanted wanted{data.x, data.x};
  for (int64_t t = 0; t < data.x.rows; ++t) {
    double dot = 0;
    double terms = 0;
    for (int64_t n = 0; n < data.h.cols; ++n) {
      dot += data.h(t, n) * data.w(0, n);
      terms += std::fabs(data.h(t, n) * data.w(0, n));
    }
    for (int64_t c = 0; c < data.x.cols; ++c) {
      double gate = dot;
      if (kind == MOERT_GATE_KIND_MULTIPLY) gate = data.g(t, c);
      if (kind == MOERT_GATE_KIND_MULTIPLY_ROWS || kind == MOERT_GATE_KIND_ADD_ROWS) {
        gate = data.g(t, 0);
      }
      const double acc = Adds(kind) ? data.acc(t, c) : 0;
      wanted.out(t, c) = data.x(t, c) * RefSigmoid(gate) + acc;
      wanted.slack(t, c) = kFloat32 * (std::fabs(data.x(t, c)) * (1 + terms) + std::fabs(acc));
    }
  }
  return wanted;
}

// Every element, for float32 inside means that only the last rounding shows.
void CheckElements(const Mat& got, const Wanted& want, moert_dtype dtype) {
  const double rounding = dtype == MOERT_DTYPE_FLOAT32    ? 0x1p-24
                          : dtype == MOERT_DTYPE_BFLOAT16 ? 0x1p-8
                                                          : 0x1p-11;
  const double least = dtype == MOERT_DTYPE_FLOAT16 ? 0x1p-25 : 0;  // half the least subnormal
  size_t wrong = 0;
  for (size_t i = 0; i < want.out.v.size(); ++i) {
    const double difference = std::fabs(got.v[i] - want.out.v[i]);
    const double size = std::fabs(want.out.v[i]) + want.slack.v[i];
    if (!(difference <= rounding * size + want.slack.v[i] + least)) ++wrong;
  }
  CHECK(wrong == 0);
}

enum class Place { kSeparate, kOverX, kOverAcc, kAccAbsent };

void RunGate(Rng& rng, Device& device, moert_gate_kind kind, moert_dtype dtype, Place place) {
  const int64_t tokens = rng.Pick<int64_t>({0, 1, 2, 5, 33, 700});
  const int64_t width = rng.Pick<int64_t>({1, 3, 16, 31, 64, 65, 257});
  const int64_t linear =
      kind == MOERT_GATE_KIND_ADD_LINEAR ? rng.Pick<int64_t>({1, 7, 64, 131}) : 0;
  CAPTURE(tokens);
  CAPTURE(width);
  CAPTURE(linear);
  GateData data;
  data.x = rng.NormalMat(tokens, width, 1, dtype);
  data.g = rng.NormalMat(tokens, kind == MOERT_GATE_KIND_MULTIPLY ? width : 1, 3, dtype);
  data.h = rng.NormalMat(tokens, linear, 1, dtype);
  data.w = rng.NormalMat(1, linear, 1, dtype);
  data.acc = rng.NormalMat(tokens, width, 1, dtype);
  const Spacing spacing{rng.Int(0, 5), rng.Int(0, 3)};
  MatrixBuffer x(device, data.x, dtype, spacing);
  MatrixBuffer g(device, data.g, dtype, spacing);
  MatrixBuffer h(device, data.h, dtype, spacing);
  MatrixBuffer w(device, data.w, dtype, spacing);
  MatrixBuffer acc(device, data.acc, dtype, spacing);
  MatrixBuffer separate(device, tokens, width, dtype, spacing);
  separate.Poison();
  if (place == Place::kAccAbsent) separate.Set(data.acc);
  MatrixBuffer& out = place == Place::kOverX ? x : place == Place::kOverAcc ? acc : separate;

  moert_gate_forward_args args = MOERT_GATE_FORWARD_ARGS_INIT;
  args.x = x.view();
  args.out = out.view();
  if (kind == MOERT_GATE_KIND_ADD_LINEAR) {
    args.h = h.view();
    args.w = w.view();
  } else {
    args.g = g.view();
  }
  if (Adds(kind) && place != Place::kAccAbsent) args.acc = acc.view();
  const Gate gate = MakeGate(device, kind, dtype, width, linear);
  REQUIRE_OK(moert_gate_forward(gate, device.stream, &args, &error));
  device.Synchronize();
  CheckElements(out.Get(), Expected(kind, data), dtype);
  for (const MatrixBuffer* buffer : {&x, &g, &h, &w, &acc, &separate}) {
    CHECK(buffer->GuardsIntact());
  }
}

TEST_CASE("gate ops equal the formula, out of place, over x, over acc and with acc absent") {
  for (int round = 0; round < Scaled(6); ++round) {
    Rng rng;
    CAPTURE(rng.seed);
    for (moert_dtype dtype : {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16}) {
      INFO("dtype ", std::string(moert_dtype_name(dtype)));
      for (moert_gate_kind kind : kKinds) {
        CAPTURE(kind);
        ForEachDevice([&](Device& device) {
          RunGate(rng, device, kind, dtype, Place::kSeparate);
          RunGate(rng, device, kind, dtype, Place::kOverX);
          if (!Adds(kind)) return;
          RunGate(rng, device, kind, dtype, Place::kOverAcc);
          RunGate(rng, device, kind, dtype, Place::kAccAbsent);
        });
      }
    }
  }
}

TEST_CASE("gates of any size saturate instead of overflowing") {
  ForEachDevice([](Device& device) {
    MatrixBuffer x(device, Mat(1, 4, {1, 2, 3, 4}), MOERT_DTYPE_FLOAT32);
    MatrixBuffer g(device, Mat(1, 4, {-1e30, 1e30, -100, 100}), MOERT_DTYPE_FLOAT32);
    MatrixBuffer out(device, 1, 4, MOERT_DTYPE_FLOAT32);
    moert_gate_forward_args args = MOERT_GATE_FORWARD_ARGS_INIT;
    args.x = x.view();
    args.g = g.view();
    args.out = out.view();
    const Gate gate = MakeGate(device, MOERT_GATE_KIND_MULTIPLY, MOERT_DTYPE_FLOAT32, 4, 0);
    REQUIRE_OK(moert_gate_forward(gate, device.stream, &args, &error));
    device.Synchronize();
    const Mat got = out.Get();
    CHECK(got(0, 0) == 0);
    CHECK(got(0, 1) == 2);
    CHECK(std::fabs(got(0, 2)) < 1e-30);
    CHECK(got(0, 3) == 4);
  });
}

}  // namespace
}  // namespace moert::test
