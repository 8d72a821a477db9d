// SPDX-License-Identifier: Apache-2.0
// Whole layers against the float64 reference: every knob, dtype, layout and flag of a forward call.
#include "support/layers.h"

namespace moert::test {
namespace {

constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};

// As many tokens as the reference can do in some milliseconds.
int64_t RandomTokens(Rng& rng, const RefLayer& layer) {
  const int64_t tokens = rng.Pick<int64_t>({0, 1, 1, 2, 3, 4, 7, 8, 17, 33, 65, 129, 260});
  const int64_t row = layer.top_k() * layer.expert_width() * layer.intermediate +
                      layer.hidden * (layer.shared_intermediate + layer.latent + 1);
  return std::min<int64_t>(tokens, std::max<int64_t>(1, 1500000 / row));
}

Spacing RandomSpacing(Rng& rng) {
  Spacing out;
  if (rng.Chance(0.5)) out.extra_stride = rng.Int(1, 9);
  if (rng.Chance(0.3)) out.offset = rng.Int(1, 7);
  return out;
}

ForwardInput RandomInput(Rng& rng, const RefLayer& layer) {
  ForwardInput in;
  const int64_t tokens = RandomTokens(rng, layer);
  in.x = rng.NormalMat(tokens, layer.hidden, 1, layer.dtype);
  in.spacing = RandomSpacing(rng);
  in.given = rng.Chance(0.25);
  if (in.given) {
    in.weights = rng.NormalMat(tokens, layer.top_k(), 1, MOERT_DTYPE_FLOAT32);
    for (int64_t i = 0; i < tokens * layer.top_k(); ++i) {
      in.ids.push_back(static_cast<int32_t>(rng.Int(-1, layer.num_experts() - 1)));
    }
  } else if (rng.Chance(0.2)) {
    in.router_x = rng.NormalMat(tokens, layer.hidden, 1, layer.dtype);
  }
  if (rng.Chance(0.3)) in.y_before = rng.NormalMat(tokens, layer.hidden, 1, layer.dtype);
  in.skip_shared = rng.Chance(0.2);
  in.own_scratch = rng.Chance(0.2);
  return in;
}

// A layer of some size and an input for it, to compare runs of.
struct Sample {
  Sample(Rng& rng, moert_dtype dtype, const Shape& shape, int64_t tokens)
      : layer(RandomLayer(rng, shape, dtype, Style(dtype))) {
    input.x = rng.NormalMat(tokens, shape.hidden, 1, dtype);
  }
  static WeightStyle Style(moert_dtype dtype) {
    WeightStyle style;
    style.dtype = dtype;
    return style;
  }
  Layer On(Device& device) const { return MakeLayer(device, layer, Style(layer.dtype)); }

  RefLayer layer;
  ForwardInput input;
};

TEST_CASE("layers with random knobs, sizes and layouts equal the float64 reference") {
  for (moert_dtype dtype : kDtypes) {
    INFO("dtype ", std::string(moert_dtype_name(dtype)));
    const int rounds = Scaled(100);
    for (int round = 0; round < rounds; ++round) {
      Rng rng;
      CAPTURE(rng.seed);
      WeightStyle style;
      const RefLayer reference = RandomAnyLayer(rng, dtype, &style);
      const ForwardInput input = RandomInput(rng, reference);
      ForEachDevice([&](Device& device) {
        const Layer layer = MakeLayer(device, reference, style);
        CheckForward(rng, device, layer, reference, input);
      });
    }
  }
}

TEST_CASE("y is the same, bit for bit, whatever is read back and wherever the matrices lie") {
  for (moert_dtype dtype : kDtypes) {
    for (int round = 0; round < Scaled(20); ++round) {
      Rng rng;
      CAPTURE(rng.seed);
      WeightStyle style;
      const RefLayer reference = RandomAnyLayer(rng, dtype, &style);
      ForwardInput input = RandomInput(rng, reference);
      ForEachDevice([&](Device& device) {
        const Layer layer = MakeLayer(device, reference, style);
        ForwardInput other = input;
        other.read_back = false;
        other.own_scratch = !input.own_scratch;
        other.spacing = RandomSpacing(rng);
        const auto first = RunForward(device, layer, reference, input);
        CHECK(RunForward(device, layer, reference, other).y_bytes == first.y_bytes);
      });
    }
  }
}

TEST_CASE("the weights that are read back, given as routing, make the same y") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    const Sample sample(rng, dtype, {.experts = 7, .top_k = 3, .hidden = 33, .intermediate = 17},
                        19);
    ForEachDevice([&](Device& device) {
      const Layer layer = sample.On(device);
      const auto routed = RunForward(device, layer, sample.layer, sample.input);
      ForwardInput given = sample.input;
      given.given = true;
      given.ids = routed.ids;
      given.weights = routed.weights;
      CHECK(RunForward(device, layer, sample.layer, given).y_bytes == routed.y_bytes);
    });
  }
}

TEST_CASE("a layer without a router runs on given routing and says what it lacks otherwise") {
  Rng rng;
  CAPTURE(rng.seed);
  Sample sample(rng, MOERT_DTYPE_FLOAT32, {.experts = 5, .top_k = 2, .hidden = 9}, 6);
  sample.layer.router.weight = Mat();
  sample.input.given = true;
  sample.input.ids = {0, 4, 4, 4, -1, 2, 3, -1, -1, -1, 1, 0};
  sample.input.weights = rng.NormalMat(6, 2, 1, MOERT_DTYPE_FLOAT32);
  ForEachDevice([&](Device& device) {
    const Layer layer = sample.On(device);
    CheckForward(rng, device, layer, sample.layer, sample.input);
    MatrixBuffer x(device, sample.input.x, MOERT_DTYPE_FLOAT32);
    MatrixBuffer y(device, 6, 9, MOERT_DTYPE_FLOAT32);
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    args.x = x.view();
    args.y = y.view();
    CHECK_REFUSED(moert_layer_forward(layer, device.stream, &args, &error),
                  MOERT_STATUS_INVALID_ARGUMENT, "ROUTER");
  });
}

TEST_CASE(
    "an expert id out of range is reported by the stream, adds nothing, and the rest is right") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    Sample sample(rng, dtype, {.experts = 5, .top_k = 2, .hidden = 31, .shared = 8}, 4);
    sample.input.given = true;
    sample.input.weights = rng.NormalMat(4, 2, 1, MOERT_DTYPE_FLOAT32);
    for (int32_t bad : {5, -2, 1 << 30, -(1 << 30)}) {
      CAPTURE(bad);
      sample.input.ids = {0, 1, 2, bad, bad, 4, 3, 2};
      ForEachDevice([&](Device& device) {
        const Layer layer = sample.On(device);
        moert_status status;
        const auto out = RunForward(device, layer, sample.layer, sample.input, &status);
        CHECK(status == MOERT_STATUS_INVALID_ROUTING);
        CheckOutput(rng, sample.layer, sample.input, sample.input.ids, sample.input.weights, out.y);
        CHECK(out.counts == RefCounts(5, sample.input.ids));
        // It was reported once, and the next call is normal.
        CHECK_OK(moert_stream_check(device.stream, &error));
        ForwardInput good = sample.input;
        good.ids = {0, 1, 2, -1, -1, 4, 3, 2};
        CheckForward(rng, device, layer, sample.layer, good);
      });
    }
  }
}

TEST_CASE("the report of a bad expert id names the id, and the first offence is kept") {
  Rng rng;
  CAPTURE(rng.seed);
  Sample sample(rng, MOERT_DTYPE_FLOAT32, {.experts = 5, .top_k = 2, .hidden = 8}, 3);
  ForEachDevice([&](Device& device) {
    const Layer layer = sample.On(device);
    MatrixBuffer x(device, sample.input.x, MOERT_DTYPE_FLOAT32);
    MatrixBuffer y(device, 3, 8, MOERT_DTYPE_FLOAT32);
    MatrixBuffer weights(device, rng.NormalMat(3, 2, 1, MOERT_DTYPE_FLOAT32), MOERT_DTYPE_FLOAT32);
    MatrixBuffer first(device, Ints{0, 1, 2, 4711, 1, 1}, 2);
    MatrixBuffer second(device, Ints{815, 1, 2, 3, 1, 1}, 2);
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    args.flags = MOERT_FORWARD_FLAG_GIVEN_ROUTING;
    args.x = x.view();
    args.y = y.view();
    args.weights = weights.view();
    args.ids = first.view();
    uint64_t size = 0;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
    REQUIRE_OK(moert_stream_reserve(device.stream, size, &error));
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    args.ids = second.view();
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    CHECK_REFUSED(moert_stream_synchronize(device.stream, &error), MOERT_STATUS_INVALID_ROUTING,
                  "4711");
    CHECK_OK(moert_stream_synchronize(device.stream, &error));
  });
}

TEST_CASE("the workspace size never falls as T grows and does not depend on addresses") {
  Rng rng;
  CAPTURE(rng.seed);
  for (int round = 0; round < Scaled(10); ++round) {
    WeightStyle style;
    const RefLayer reference = RandomAnyLayer(rng, rng.Pick({kDtypes[0], kDtypes[1]}), &style);
    ForEachDevice([&](Device& device) {
      const Layer layer = MakeLayer(device, reference, style);
      moert_matrix x, y;
      moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
      args.x = &x;
      args.y = &y;
      uint64_t last = 0;
      for (int64_t tokens = 0; tokens < 300; ++tokens) {
        moert_matrix_init(&x, nullptr, tokens, reference.hidden, reference.dtype);
        moert_matrix_init(&y, nullptr, tokens, reference.hidden, reference.dtype);
        uint64_t size = 0;
        REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
        REQUIRE(size >= last);
        last = size;
      }
    });
  }
}

TEST_CASE("the same call gives the same bits in every run") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    const Shape shape{.experts = 16, .top_k = 4, .hidden = 96, .intermediate = 65, .shared = 33};
    const Sample sample(rng, dtype, shape, 130);
    ForEachDevice([&](Device& device) {
      const Layer layer = sample.On(device);
      const auto first = RunForward(device, layer, sample.layer, sample.input);
      for (int run = 0; run < 20; ++run) {
        const auto again = RunForward(device, layer, sample.layer, sample.input);
        REQUIRE(again.y_bytes == first.y_bytes);
        REQUIRE(again.ids == first.ids);
        REQUIRE(again.weights.v == first.weights.v);
        REQUIRE(again.logits.v == first.logits.v);
      }
    });
  }
}

TEST_CASE("a row's bits do not depend on the other rows") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    for (int64_t tokens : {2, 5, 67}) {
      const Shape shape{.experts = 6, .top_k = 2, .hidden = 65, .intermediate = 48, .shared = 17};
      const Sample sample(rng, dtype, shape, tokens);
      const int64_t kept = rng.Int(0, tokens - 1);
      ForwardInput other = sample.input;
      other.x = rng.NormalMat(tokens, 65, 1, dtype);
      for (int64_t h = 0; h < 65; ++h) other.x(kept, h) = sample.input.x(kept, h);
      ForEachDevice([&](Device& device) {
        const Layer layer = sample.On(device);
        const Mat a = RunForward(device, layer, sample.layer, sample.input).y;
        const Mat b = RunForward(device, layer, sample.layer, other).y;
        for (int64_t h = 0; h < 65; ++h) REQUIRE(a(kept, h) == b(kept, h));
      });
    }
  }
}

TEST_CASE("the thread count does not change a bit") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : kDtypes) {
    const Shape shape{.experts = 9, .top_k = 3, .hidden = 129, .intermediate = 65, .shared = 31};
    for (int64_t tokens : {1, 9, 77}) {
      const Sample sample(rng, dtype, shape, tokens);
      std::vector<uint8_t> first;
      for (uint32_t threads : {1u, 2u, 3u, 5u}) {
        CAPTURE(threads);
        moert_device_desc desc = MOERT_DEVICE_DESC_INIT;
        desc.cpu_threads = threads;
        Device device("cpu", nullptr, &desc);
        CHECK(device.info.concurrency == threads);
        const auto out = RunForward(device, sample.On(device), sample.layer, sample.input);
        if (first.empty()) first = out.y_bytes;
        CHECK(out.y_bytes == first);
      }
    }
  }
}

TEST_CASE("batches larger than any block that a device may cut them into") {
  Rng rng;
  CAPTURE(rng.seed);
  const Shape shape{
      .experts = 3, .top_k = 2, .hidden = 9, .intermediate = 5, .shared = 4, .latent = 6};
  for (moert_dtype dtype : kDtypes) {
    for (int64_t tokens : {513, 1031, 3001}) {
      Sample sample(rng, dtype, shape, tokens);
      sample.layer.shared_gate = rng.NormalMat(1, 9, 0.3, dtype);
      ForEachDevice([&](Device& device) {
        CheckForward(rng, device, sample.On(device), sample.layer, sample.input);
      });
    }
  }
}

TEST_CASE("layers of one expert, and of as many chosen experts as there are") {
  Rng rng;
  CAPTURE(rng.seed);
  const Shape shapes[] = {{.experts = 1, .top_k = 1, .hidden = 1, .intermediate = 1},
                          {.experts = 1, .top_k = 1, .hidden = 129, .intermediate = 1},
                          {.experts = 1, .top_k = 1, .hidden = 1, .intermediate = 65},
                          {.experts = 22, .top_k = 22, .hidden = 17, .intermediate = 9},
                          {.experts = 2, .top_k = 2, .hidden = 64, .intermediate = 64}};
  for (const Shape& shape : shapes) {
    for (moert_dtype dtype : kDtypes) {
      const Sample sample(rng, dtype, shape, 7);
      ForEachDevice([&](Device& device) {
        CheckForward(rng, device, sample.On(device), sample.layer, sample.input);
      });
    }
  }
}

TEST_CASE("facts about a layer are those it was made with") {
  Rng rng;
  CAPTURE(rng.seed);
  Sample sample(rng, MOERT_DTYPE_BFLOAT16,
                {.experts = 6, .top_k = 3, .hidden = 20, .intermediate = 12, .shared = 7}, 1);
  sample.layer.held = {true, false, false, true, true, false};
  ForEachDevice([&](Device& device) {
    const Layer layer = sample.On(device);
    moert_layer_info info = MOERT_LAYER_INFO_INIT;
    REQUIRE_OK(moert_layer_get_info(layer, &info, &error));
    CHECK(info.model_layer == -1);
    CHECK(info.dtype == MOERT_DTYPE_BFLOAT16);
    CHECK(info.hidden == 20);
    CHECK(info.intermediate == 12);
    CHECK(info.shared_intermediate == 7);
    CHECK(info.latent == 0);
    CHECK(info.num_experts == 6);
    CHECK(info.top_k == 3);
    CHECK(info.num_local_experts == 3);
    CHECK(info.weight_bytes >= 2 * 3 * 20 * (3 * 12 + 7));
  });
}

TEST_CASE("borrowed weights are read where they lie, and freed once, after the layer") {
  Rng rng;
  CAPTURE(rng.seed);
  const Sample sample(rng, MOERT_DTYPE_FLOAT32, {.experts = 4, .hidden = 12, .intermediate = 5}, 9);
  ForEachDevice([&](Device& device) {
    WeightStyle style;
    style.on_device = true;
    int freed = 0;
    {
      LayerSource source(device, sample.layer, style);
      source.desc.flags = MOERT_LAYER_FLAG_BORROW_WEIGHTS;
      source.desc.user_data = &freed;
      source.desc.free_fn = [](void* count) { ++*static_cast<int*>(count); };
      const Layer layer = source.Create(device);
      CheckForward(rng, device, layer, sample.layer, sample.input);
      CHECK(freed == 0);
    }
    CHECK(freed == 1);
  });
}

TEST_CASE("copied weights may be overwritten once the layer is made") {
  Rng rng;
  CAPTURE(rng.seed);
  const Sample sample(rng, MOERT_DTYPE_FLOAT32, {.experts = 4, .hidden = 12, .intermediate = 5}, 9);
  ForEachDevice([&](Device& device) {
    Layer layer;
    {
      LayerSource source(device, sample.layer, {});
      layer = source.Create(device);
      for (const moert_weight& weight : source.weights.list()) {
        std::fill_n(static_cast<uint8_t*>(const_cast<void*>(weight.data)), 4, uint8_t{0xff});
      }
    }
    CheckForward(rng, device, layer, sample.layer, sample.input);
  });
}

// Reads or writes a matrix in device memory through the device's stream.
Mat ReadView(Device& device, const moert_matrix& view) {
  Mat out(view.rows, view.cols);
  std::vector<uint8_t> row(view.cols * DtypeBytes(view.dtype));
  for (int64_t r = 0; r < view.rows; ++r) {
    const auto* at =
        static_cast<uint8_t*>(view.data) + r * view.row_stride * DtypeBytes(view.dtype);
    REQUIRE_OK(moert_stream_copy(device.stream, row.data(), at, row.size(), &error));
    device.Synchronize();
    for (int64_t c = 0; c < view.cols; ++c) {
      out(r, c) = Decode(view.dtype, row.data() + c * DtypeBytes(view.dtype));
    }
  }
  return out;
}

void WriteView(Device& device, const moert_matrix& view, const Mat& values) {
  std::vector<uint8_t> row(view.cols * DtypeBytes(view.dtype));
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) {
      Encode(view.dtype, values(r, c), row.data() + c * DtypeBytes(view.dtype));
    }
    auto* at = static_cast<uint8_t*>(view.data) + r * view.row_stride * DtypeBytes(view.dtype);
    REQUIRE_OK(moert_stream_copy(device.stream, at, row.data(), row.size(), &error));
    device.Synchronize();
  }
}

TEST_CASE("views of a trainable layer's weights show them, and what is written there is used") {
  Rng rng;
  CAPTURE(rng.seed);
  for (moert_dtype dtype : {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16}) {
    for (moert_orientation orientation : {MOERT_ORIENTATION_OUT_IN, MOERT_ORIENTATION_IN_OUT}) {
      Sample sample(rng, dtype, {.experts = 4, .hidden = 12, .intermediate = 7, .shared = 5}, 9);
      sample.layer.held = {true, false, true, true};
      WeightStyle style = Sample::Style(dtype);
      style.orientation = orientation;
      ForEachDevice([&](Device& device) {
        RefLayer reference = sample.layer;
        LayerSource source(device, reference, style);
        source.desc.flags = MOERT_LAYER_FLAG_TRAINABLE;
        const Layer layer = source.Create(device);
        moert_matrix view = MOERT_MATRIX_INIT;
        REQUIRE_OK(moert_layer_weight(layer, MOERT_ROLE_EXPERT_GATE, 2, &view, &error));
        CHECK(view.dtype == dtype);
        CHECK(ReadView(device, view).v == reference.experts[2].gate.v);
        REQUIRE_OK(moert_layer_weight(layer, MOERT_ROLE_SHARED_UP, 0, &view, &error));
        CHECK(ReadView(device, view).v == reference.shared.up.v);
        REQUIRE_OK(moert_layer_weight(layer, MOERT_ROLE_EXPERT_DOWN, 3, &view, &error));
        CHECK(ReadView(device, view).v == reference.experts[3].down.v);
        reference.experts[3].down = rng.NormalMat(12, 7, 1, dtype);
        WriteView(device, view, reference.experts[3].down);
        CheckForward(rng, device, layer, reference, sample.input);
        CHECK_REFUSED(moert_layer_weight(layer, MOERT_ROLE_EXPERT_DOWN, 1, &view, &error),
                      MOERT_STATUS_INVALID_ARGUMENT, "expert 1");
      });
    }
  }
}

}  // namespace
}  // namespace moert::test
