// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <sstream>

#include "layers.h"

namespace moert::test {
namespace {

// The matrices of one forward call.
struct ForwardBuffers {
  ForwardBuffers(Device& device, const RefLayer& reference, const ForwardInput& input)
      : x(device, input.x, reference.dtype, input.spacing),
        y(device, input.x.rows, reference.hidden, reference.dtype, input.spacing) {
    const int64_t tokens = input.x.rows;
    const int64_t top_k = reference.top_k();
    y.Poison();
    if (!input.y_before.empty()) y.Set(input.y_before);
    if (!input.router_x.empty()) {
      router_x.emplace(device, input.router_x, reference.dtype, input.spacing);
    }
    if (input.given || input.read_back) {
      ids.emplace(device, tokens, top_k, MOERT_DTYPE_INT32, input.spacing);
      weights.emplace(device, tokens, top_k, MOERT_DTYPE_FLOAT32, input.spacing);
      ids->Poison();
      weights->Poison();
    }
    if (input.given) {
      ids->Set(input.ids);
      weights->Set(input.weights);
    }
    if (!input.read_back) return;
    counts.emplace(device, 1, reference.num_experts(), MOERT_DTYPE_INT32, input.spacing);
    counts->Poison();
    if (input.given) return;
    logits.emplace(device, tokens, reference.num_experts(), MOERT_DTYPE_FLOAT32, input.spacing);
    logits->Poison();
  }

  moert_layer_forward_args Args(const ForwardInput& input) const {
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    if (input.given) args.flags |= MOERT_FORWARD_FLAG_GIVEN_ROUTING;
    if (!input.y_before.empty()) args.flags |= MOERT_FORWARD_FLAG_ACCUMULATE;
    if (input.skip_shared) args.flags |= MOERT_FORWARD_FLAG_SKIP_SHARED;
    args.x = x.view();
    args.y = y.view();
    if (router_x) args.router_x = router_x->view();
    if (ids) args.ids = ids->view();
    if (weights) args.weights = weights->view();
    if (logits) args.logits = logits->view();
    if (counts) args.expert_counts = counts->view();
    return args;
  }

  void CheckGuards() const {
    CHECK(x.GuardsIntact());
    CHECK(y.GuardsIntact());
    for (const auto* buffer : {&router_x, &ids, &weights, &logits, &counts}) {
      if (*buffer) CHECK((*buffer)->GuardsIntact());
    }
  }

  MatrixBuffer x, y;
  std::optional<MatrixBuffer> router_x, ids, weights, logits, counts;
};

std::string Describe(const RefLayer& layer, int64_t tokens) {
  const moert_routing& routing = layer.router.routing;
  std::ostringstream out;
  out << tokens << " tokens, " << routing.num_experts << " experts, top_k " << routing.top_k
      << ", hidden " << layer.hidden << ", intermediate " << layer.intermediate << ", latent "
      << layer.latent << ", shared " << layer.shared_intermediate << ", score " << routing.score
      << ", activation " << layer.activation.kind << " flags " << layer.activation.flags
      << " limit " << layer.activation.limit << " offset " << layer.activation.up_offset
      << ", shared activation " << layer.shared_activation.kind << " flags "
      << layer.shared_activation.flags << ", weight on "
      << (layer.weight_application == MOERT_WEIGHT_APPLICATION_INPUT ? "input" : "output");
  return out.str();
}

// How far rounding stored values to the dtype moves the reference itself.
double OwnError(Rng& rng, const RefLayer& layer, const ForwardInput& input, const Ints& ids,
                const Mat& weights, const Mat& want) {
  constexpr int kTimes = 4;
  RefOptions options;
  options.skip_shared = input.skip_shared;
  options.rng = &rng;
  double sum = 0;
  for (int i = 0; i < kTimes; ++i) {
    Mat moved = RefForward(layer, input.x, ids, weights, options);
    for (size_t j = 0; j < moved.v.size() && !input.y_before.empty(); ++j) {
      moved.v[j] += input.y_before.v[j];
    }
    sum += RelativeError(moved, want);
  }
  return sum / kTimes;
}

}  // namespace

ForwardOutput RunForward(Device& device, const moert_layer* layer, const RefLayer& reference,
                         const ForwardInput& input, moert_status* status) {
  ForwardBuffers buffers(device, reference, input);
  moert_layer_forward_args args = buffers.Args(input);
  uint64_t size = 0;
  REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
  DeviceBuffer workspace;
  if (input.own_scratch) {
    REQUIRE_OK(moert_stream_reserve(device.stream, size, &error));
  } else {
    workspace = Workspace(device, size);
    args.workspace = workspace.data();
    args.workspace_size = size;
  }
  REQUIRE_OK(moert_layer_forward(layer, device.stream, &args, &error));
  Error error;
  const moert_status reported = moert_stream_synchronize(device.stream, &error);
  if (status != nullptr) {
    *status = reported;
  } else {
    INFO("stream: ", error.message);
    CHECK(reported == MOERT_STATUS_OK);
  }

  buffers.CheckGuards();
  if (workspace.size() != 0) CHECK(workspace.GuardsIntact());
  CHECK(RelativeError(buffers.x.Get(), input.x) == 0);
  ForwardOutput out;
  out.y = buffers.y.Get();
  out.y_bytes = buffers.y.Bytes();
  if (buffers.ids) out.ids = buffers.ids->GetInts();
  if (buffers.weights) out.weights = buffers.weights->Get();
  if (buffers.logits) out.logits = buffers.logits->Get();
  if (buffers.counts) out.counts = buffers.counts->GetInts();
  return out;
}

Ints RowIds(const Ints& ids, int64_t row, int64_t top_k) {
  return Ints(ids.begin() + row * top_k, ids.begin() + (row + 1) * top_k);
}

bool DistinctAndInRange(const Ints& ids, int32_t experts) {
  std::vector<bool> seen(experts, false);
  for (int32_t id : ids) {
    if (id < 0 || id >= experts || seen[id]) return false;
    seen[id] = true;
  }
  return true;
}

void CheckLogits(const Mat& got, const Mat& want) {
  double least = 0;  // few logits may nearly cancel by chance; they are of the size of 1 otherwise
  for (double value : want.v) least += value * value;
  const double floor = 0.01 * static_cast<double>(want.v.size());
  const double cancelled = least < floor ? std::sqrt(floor / least) : 1;
  CHECK(RelativeError(got, want) < Tolerance(MOERT_DTYPE_FLOAT32) * cancelled);
}

void CheckRouting(const RefRouter& router, const Mat& logits, const Ints& ids, const Mat& weights) {
  constexpr double kMargin = 4e-6;  // of scores, which are in [0, 1], and their sums with biases
  const int64_t top_k = router.routing.top_k;
  REQUIRE(static_cast<int64_t>(ids.size()) == logits.rows * top_k);
  const RefRoute want = RefChoose(router, logits);
  for (int64_t t = 0; t < logits.rows; ++t) {
    if (want.margins[t] < kMargin) continue;  // float32 may decide otherwise
    const Ints row_ids(ids.begin() + t * top_k, ids.begin() + (t + 1) * top_k);
    const Ints want_ids(want.ids.begin() + t * top_k, want.ids.begin() + (t + 1) * top_k);
    INFO("token ", t, " margin ", want.margins[t]);
    CHECK(row_ids == want_ids);
    Mat row(1, top_k), want_row(1, top_k);
    std::copy_n(weights.v.begin() + t * top_k, top_k, row.v.begin());
    std::copy_n(want.weights.v.begin() + t * top_k, top_k, want_row.v.begin());
    CHECK(RelativeError(row, want_row) < Tolerance(MOERT_DTYPE_FLOAT32));
  }
}

void CheckOutput(Rng& rng, const RefLayer& layer, const ForwardInput& input, const Ints& ids,
                 const Mat& weights, const Mat& y) {
  RefOptions options;
  options.skip_shared = input.skip_shared;
  Mat want = RefForward(layer, input.x, ids, weights, options);
  for (size_t i = 0; i < want.v.size() && !input.y_before.empty(); ++i) {
    want.v[i] += input.y_before.v[i];
  }
  const double error = RelativeError(y, want);
  double bound = Tolerance(layer.dtype);
  if (!(error < bound)) {
    const double times = want.v.size() < 64 ? 8 : 3;
    bound = std::max(bound, times * OwnError(rng, layer, input, ids, weights, want));
  }
  INFO(Describe(layer, input.x.rows));
  CHECK(error < bound);
}

void CheckForward(Rng& rng, Device& device, const moert_layer* layer, const RefLayer& reference,
                  const ForwardInput& input) {
  const ForwardOutput out = RunForward(device, layer, reference, input);
  if (input.x.rows == 0) return;  // nothing happens, so that nothing is written
  CHECK(out.counts == RefCounts(reference.num_experts(), out.ids));
  if (input.given) {
    CHECK(out.ids == input.ids);
    CheckOutput(rng, reference, input, input.ids, input.weights, out.y);
    return;
  }
  const Mat& router_x = input.router_x.empty() ? input.x : input.router_x;
  CheckLogits(out.logits, RefLogits(reference.router, router_x));
  CheckRouting(reference.router, out.logits, out.ids, out.weights);
  CheckOutput(rng, reference, input, out.ids, out.weights, out.y);
}

RouteOutput RunRouter(Device& device, const moert_router* router, const RefRouter& reference,
                      const Mat& in, moert_dtype dtype, bool on_logits, Spacing spacing) {
  MatrixBuffer input(device, in, dtype, spacing);
  MatrixBuffer ids(device, in.rows, reference.routing.top_k, MOERT_DTYPE_INT32, spacing);
  MatrixBuffer weights(device, in.rows, reference.routing.top_k, MOERT_DTYPE_FLOAT32, spacing);
  MatrixBuffer logits(device, in.rows, reference.routing.num_experts, MOERT_DTYPE_FLOAT32, spacing);
  MatrixBuffer counts(device, 1, reference.routing.num_experts, MOERT_DTYPE_INT32, spacing);
  for (MatrixBuffer* buffer : {&ids, &weights, &logits, &counts}) buffer->Poison();
  moert_router_forward_args args = MOERT_ROUTER_FORWARD_ARGS_INIT;
  (on_logits ? args.given_logits : args.x) = input.view();
  args.ids = ids.view();
  args.weights = weights.view();
  args.logits = logits.view();
  args.expert_counts = counts.view();
  uint64_t size = 0;
  REQUIRE_OK(moert_router_workspace_size(router, &args, &size, &error));
  const DeviceBuffer workspace = Workspace(device, size);
  args.workspace = workspace.data();
  args.workspace_size = size;
  REQUIRE_OK(moert_router_forward(router, device.stream, &args, &error));
  device.Synchronize();
  CHECK(workspace.GuardsIntact());
  for (MatrixBuffer* buffer : {&input, &ids, &weights, &logits, &counts}) {
    CHECK(buffer->GuardsIntact());
  }
  return {ids.GetInts(), counts.GetInts(), weights.Get(), logits.Get()};
}

}  // namespace moert::test
