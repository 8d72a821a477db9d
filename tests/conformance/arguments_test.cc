// SPDX-License-Identifier: Apache-2.0
// Bad input: each call refuses it with a status and a message that names the value, and leaves
// outputs as they were.
#include <cstring>
#include <limits>

#include "support/layers.h"

namespace moert::test {
namespace {

constexpr moert_status kInvalid = MOERT_STATUS_INVALID_ARGUMENT;

// A forward call that works, to be spoilt.
struct GoodCall {
  explicit GoodCall(Device& device_in, moert_dtype dtype = MOERT_DTYPE_FLOAT32)
      : device(device_in),
        reference(MakeReference(rng, dtype)),
        layer(MakeLayer(device_in, reference, Style(dtype))),
        x_buffer(device_in, rng.NormalMat(3, 8, 1, dtype), dtype),
        y_buffer(device_in, 3, 8, dtype),
        ids_buffer(device_in, 3, 2, MOERT_DTYPE_INT32),
        weights_buffer(device_in, 3, 2, MOERT_DTYPE_FLOAT32),
        logits_buffer(device_in, 3, 5, MOERT_DTYPE_FLOAT32),
        counts_buffer(device_in, 1, 5, MOERT_DTYPE_INT32),
        x(*x_buffer.view()),
        y(*y_buffer.view()),
        ids(*ids_buffer.view()),
        weights(*weights_buffer.view()),
        logits(*logits_buffer.view()),
        counts(*counts_buffer.view()) {
    args.x = &x;
    args.y = &y;
    args.ids = &ids;
    args.weights = &weights;
    args.logits = &logits;
    args.expert_counts = &counts;
    REQUIRE_OK(moert_layer_workspace_size(layer, &args, &size, &error));
    workspace = Workspace(device, size + 256);
    args.workspace = workspace.data();
    args.workspace_size = size;
    for (MatrixBuffer* buffer : Outputs()) buffer->Poison();
  }
  static WeightStyle Style(moert_dtype dtype) {
    WeightStyle style;
    style.dtype = dtype;
    return style;
  }
  static RefLayer MakeReference(Rng& rng, moert_dtype dtype) {
    return RandomLayer(rng, {.experts = 5, .hidden = 8, .intermediate = 6}, dtype, Style(dtype));
  }
  std::vector<MatrixBuffer*> Outputs() {
    return {&y_buffer, &ids_buffer, &weights_buffer, &logits_buffer, &counts_buffer};
  }
  // The call fails so, and writes nothing.
  void Refused(moert_status status, const std::string& text) {
    std::vector<std::vector<uint8_t>> before;
    for (MatrixBuffer* buffer : Outputs()) before.push_back(buffer->Bytes());
    CHECK_REFUSED(moert_layer_forward(layer, device.stream, &args, &error), status, text);
    device.Synchronize();
    size_t i = 0;
    for (MatrixBuffer* buffer : Outputs()) {
      CHECK(buffer->Bytes() == before[i++]);
      CHECK(buffer->GuardsIntact());
    }
    CHECK(x_buffer.GuardsIntact());
  }
  void Works() {
    CHECK_OK(moert_layer_forward(layer, device.stream, &args, &error));
    device.Synchronize();
  }

  Rng rng;
  Device& device;
  RefLayer reference;
  Layer layer;
  MatrixBuffer x_buffer, y_buffer, ids_buffer, weights_buffer, logits_buffer, counts_buffer;
  moert_matrix x, y, ids, weights, logits, counts;
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  uint64_t size = 0;
  DeviceBuffer workspace;
};

TEST_CASE("the call that the tests here spoil is a good one") {
  ForEachDevice([](Device& device) {
    GoodCall call(device);
    call.Works();
  });
}

TEST_CASE("null handles and null outputs are named") {
  ForEachDevice([](Device& device) {
    moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
    moert_layer_desc layer_desc = MOERT_LAYER_DESC_INIT;
    moert_router_desc router_desc = MOERT_ROUTER_DESC_INIT;
    moert_gate_desc gate_desc = MOERT_GATE_DESC_INIT;
    moert_layer* layer = nullptr;
    moert_router* router = nullptr;
    moert_gate* gate = nullptr;
    moert_event* event = nullptr;
    moert_stream* stream = nullptr;
    moert_device* opened = nullptr;
    moert_manifest* manifest = nullptr;
    uint64_t size = 0;
    void* memory = nullptr;
    CHECK_REFUSED(moert_runtime_create(nullptr, nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_device_create(nullptr, "cpu", nullptr, &opened, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_device_create(device.runtime, "cpu", nullptr, nullptr, &error), kInvalid,
                  "NULL");
    CHECK_REFUSED(moert_device_get_info(device.handle, nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_device_alloc(nullptr, 1, &memory, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_device_alloc(device.handle, 1, nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_stream_create(nullptr, nullptr, &stream, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_stream_create(device.handle, nullptr, nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_stream_synchronize(nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_stream_check(nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_stream_copy(device.stream, nullptr, &size, 8, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_event_create(nullptr, &event, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_event_record(nullptr, device.stream, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_event_query(nullptr, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_layer_create(nullptr, &layer_desc, &layer, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_layer_create(device.handle, nullptr, &layer, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_layer_create(device.handle, &layer_desc, nullptr, &error), kInvalid,
                  "NULL");
    CHECK_REFUSED(moert_layer_forward(nullptr, device.stream, &args, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_layer_workspace_size(nullptr, &args, &size, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_router_create(nullptr, &router_desc, &router, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_router_create(device.handle, &router_desc, &router, &error), kInvalid,
                  "routing");
    CHECK_REFUSED(moert_gate_create(nullptr, &gate_desc, &gate, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_gate_create(device.handle, nullptr, &gate, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_manifest_open(device.runtime, nullptr, &manifest, &error), kInvalid,
                  "NULL");
    CHECK_REFUSED(moert_manifest_pack(device.runtime, nullptr, nullptr, &error), kInvalid, "NULL");
    GoodCall call(device);
    CHECK_REFUSED(moert_layer_forward(call.layer, nullptr, &call.args, &error), kInvalid, "NULL");
    CHECK_REFUSED(moert_layer_forward(call.layer, device.stream, nullptr, &error), kInvalid,
                  "NULL");
    CHECK_REFUSED(moert_layer_workspace_size(call.layer, &call.args, nullptr, &error), kInvalid,
                  "NULL");
    CHECK(layer == nullptr);
    CHECK(router == nullptr);
    CHECK(gate == nullptr);
  });
}

TEST_CASE("releasing or freeing NULL is fine") {
  moert_runtime_release(nullptr);
  moert_device_release(nullptr);
  moert_stream_release(nullptr);
  moert_event_release(nullptr);
  moert_manifest_release(nullptr);
  moert_layer_release(nullptr);
  moert_gate_release(nullptr);
  moert_router_release(nullptr);
  moert_optimizer_release(nullptr);
  ForEachDevice([](Device& device) {
    moert_device_free(device.handle, nullptr);
    moert_host_free(device.handle, nullptr);
    void* memory = &device;
    CHECK_OK(moert_device_alloc(device.handle, 0, &memory, &error));
    CHECK(memory == nullptr);
  });
}

TEST_CASE("an error struct is optional, may be short, and is only written on failure") {
  ForEachDevice([](Device& device) {
    CHECK(moert_stream_check(nullptr, nullptr) == kInvalid);
    Error kept;
    kept.code = 77;
    CHECK(moert_stream_check(device.stream, &kept) == MOERT_STATUS_OK);
    CHECK(kept.code == 77);
    Error brief;
    std::memset(brief.message, 'z', sizeof brief.message);
    brief.struct_size = offsetof(moert_error, message) + 8;
    CHECK(moert_stream_check(nullptr, &brief) == kInvalid);
    CHECK(brief.code == kInvalid);
    CHECK(std::memchr(brief.message, 0, 8) != nullptr);
    CHECK(brief.message[8] == 'z');
  });
}

TEST_CASE("struct sizes: shorter and zero-tailed longer ones are accepted, others refused") {
  ForEachDevice([](Device& device) {
    GoodCall call(device);
    struct Longer {
      moert_layer_forward_args args;
      uint64_t tail[2];
    } longer{call.args, {0, 0}};
    longer.args.struct_size = sizeof longer;
    CHECK_OK(moert_layer_forward(call.layer, device.stream, &longer.args, &error));
    device.Synchronize();
    for (MatrixBuffer* buffer : call.Outputs()) buffer->Poison();
    const auto before = call.y_buffer.Bytes();
    longer.tail[1] = 1;
    CHECK_REFUSED(moert_layer_forward(call.layer, device.stream, &longer.args, &error), kInvalid,
                  "struct_size");
    device.Synchronize();
    CHECK(call.y_buffer.Bytes() == before);

    call.args.struct_size = 0;
    call.Refused(kInvalid, "struct_size");
    // Ends before `saved`; what follows is not read.
    call.args.struct_size = offsetof(moert_layer_forward_args, saved);
    call.args.saved = &call;
    call.args.saved_size = 1;
    call.Works();
    // Ends before `workspace`: the stream's scratch is used.
    call.args.struct_size = offsetof(moert_layer_forward_args, workspace);
    REQUIRE_OK(moert_stream_reserve(device.stream, call.size, &error));
    call.Works();

    moert_device_info info;
    std::memset(&info, 'z', sizeof info);
    info.struct_size = offsetof(moert_device_info, memory_bytes);
    CHECK_OK(moert_device_get_info(device.handle, &info, &error));
    CHECK(info.kind == device.info.kind);
    CHECK(info.id[0] == 'z');
    info.struct_size = 0;
    CHECK_REFUSED(moert_device_get_info(device.handle, &info, &error), kInvalid, "struct_size");
  });
}

TEST_CASE("dtypes of matrices that are not the call's are named") {
  ForEachDevice([](Device& device) {
    struct Case {
      moert_matrix GoodCall::*matrix;
      moert_dtype dtype;
      const char* name;
    } cases[] = {{&GoodCall::x, MOERT_DTYPE_BFLOAT16, "x has dtype BF16"},
                 {&GoodCall::y, MOERT_DTYPE_FLOAT16, "y has dtype F16"},
                 {&GoodCall::y, 999, "999"},
                 {&GoodCall::ids, MOERT_DTYPE_INT64, "ids has dtype I64"},
                 {&GoodCall::weights, MOERT_DTYPE_BFLOAT16, "weights"},
                 {&GoodCall::logits, MOERT_DTYPE_FLOAT64, "logits"},
                 {&GoodCall::counts, MOERT_DTYPE_FLOAT32, "expert_counts"}};
    for (const Case& c : cases) {
      GoodCall call(device);
      (call.*c.matrix).dtype = c.dtype;
      call.Refused(kInvalid, c.name);
    }
  });
}

TEST_CASE("shapes that disagree, and strides below the columns, are named") {
  ForEachDevice([](Device& device) {
    struct Case {
      moert_matrix GoodCall::*matrix;
      int64_t moert_matrix::*field;
      int64_t value;
      const char* text;
    } cases[] = {{&GoodCall::x, &moert_matrix::cols, 7, "x is [3, 7]"},
                 {&GoodCall::y, &moert_matrix::rows, 4, "y is [4, 8]"},
                 {&GoodCall::y, &moert_matrix::rows, 2, "y is [2, 8]"},
                 {&GoodCall::ids, &moert_matrix::cols, 3, "ids is [3, 3]"},
                 {&GoodCall::weights, &moert_matrix::rows, 1, "weights is [1, 2]"},
                 {&GoodCall::logits, &moert_matrix::cols, 4, "logits is [3, 4]"},
                 {&GoodCall::counts, &moert_matrix::rows, 3, "expert_counts is [3, 5]"},
                 {&GoodCall::x, &moert_matrix::rows, -1, "-1"},
                 {&GoodCall::x, &moert_matrix::row_stride, 7, "x.row_stride 7"},
                 {&GoodCall::y, &moert_matrix::row_stride, 0, "y.row_stride 0"},
                 {&GoodCall::ids, &moert_matrix::row_stride, -2, "ids.row_stride -2"},
                 {&GoodCall::y, &moert_matrix::row_stride, int64_t{1} << 62, "y"}};
    for (const Case& c : cases) {
      INFO("wanted ", std::string(c.text));
      GoodCall call(device);
      (call.*c.matrix).*c.field = c.value;
      call.Refused(kInvalid, c.text);
    }
    GoodCall call(device);
    call.x.data = nullptr;
    call.Refused(kInvalid, "x.data");
    call.x = *call.x_buffer.view();
    call.x.reserved = 1;
    call.Refused(kInvalid, "reserved");
    call.args.x = nullptr;
    call.Refused(kInvalid, "x is absent");
  });
}

TEST_CASE("outputs that overlap inputs, each other or the workspace are refused") {
  ForEachDevice([](Device& device) {
    {
      GoodCall call(device);
      call.y.data = call.x.data;
      call.Refused(kInvalid, "overlap");
    }
    {
      GoodCall call(device);
      call.x.rows = call.y.rows = call.ids.rows = call.weights.rows = call.logits.rows = 2;
      call.y.data = static_cast<float*>(call.x.data) + 8;  // the last row of x
      call.Refused(kInvalid, "overlap");
    }
    {
      GoodCall call(device);
      call.ids.data = call.weights.data;
      call.Refused(kInvalid, "overlap");
    }
    {
      GoodCall call(device);
      call.logits.data = call.workspace.data();
      call.Refused(kInvalid, "overlap");
      call.args.workspace_size = UINT64_MAX;  // ends past the address space
      call.Refused(kInvalid, "overlap");
    }
    {
      GoodCall call(device);
      moert_matrix router_x = call.x;
      router_x.data = call.y.data;
      call.args.router_x = &router_x;
      call.Refused(kInvalid, "overlap");
      // Two inputs may be one.
      router_x.data = call.x.data;
      call.Works();
    }
  });
}

TEST_CASE("a workspace that is too small, unaligned or missing is refused with the size needed") {
  ForEachDevice([](Device& device) {
    GoodCall call(device);
    REQUIRE(call.size > 1);
    for (uint64_t size : {uint64_t{0}, uint64_t{1}, call.size - 1}) {
      call.args.workspace_size = size;
      call.Refused(MOERT_STATUS_WORKSPACE_TOO_SMALL, std::to_string(call.size));
      Error error;
      moert_layer_forward(call.layer, device.stream, &call.args, &error);
      CHECK(error.native_code == static_cast<int64_t>(call.size));
    }
    call.args.workspace_size = call.size;
    call.args.workspace = static_cast<uint8_t*>(call.workspace.data()) + 128;
    call.Refused(kInvalid, "256");
    call.args.workspace = nullptr;
    call.args.workspace_size = 0;
    const Stream bare = device.NewStream();
    CHECK_REFUSED(moert_layer_forward(call.layer, bare, &call.args, &error),
                  MOERT_STATUS_WORKSPACE_TOO_SMALL, std::to_string(call.size));
    REQUIRE_OK(moert_stream_reserve(bare, call.size, &error));
    CHECK_OK(moert_layer_forward(call.layer, bare, &call.args, &error));
    CHECK_OK(moert_stream_synchronize(bare, &error));
  });
}

TEST_CASE("unknown flags, and flags that do not go together, are refused") {
  ForEachDevice([](Device& device) {
    GoodCall call(device);
    call.args.flags = 0x80;
    call.Refused(kInvalid, "0x80");
    call.args.flags = MOERT_FORWARD_FLAG_KEEP;
    call.Refused(MOERT_STATUS_UNSUPPORTED, "KEEP");
    call.args.flags = MOERT_FORWARD_FLAG_GIVEN_ROUTING;
    call.Refused(kInvalid, "logits");
    call.args.logits = nullptr;
    call.args.ids = nullptr;
    call.Refused(kInvalid, "ids");
  });
}

TEST_CASE("what is reserved must be 0") {
  ForEachDevice([](Device& device) {
    moert_routing routing = MOERT_ROUTING_INIT;
    routing.num_experts = 4;
    routing.top_k = 2;
    routing.reserved = 7;
    moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
    desc.routing = &routing;
    Router router;
    CHECK_REFUSED(moert_router_create(device.handle, &desc, router.out(), &error), kInvalid,
                  "reserved is 7");
  });
  moert_allocator allocator = MOERT_ALLOCATOR_INIT;
  allocator.reserved = 9;
  allocator.alloc = [](void*, uint64_t, uint64_t) -> void* { return nullptr; };
  allocator.free = [](void*, void*, uint64_t, uint64_t) {};
  moert_runtime_desc desc = MOERT_RUNTIME_DESC_INIT;
  desc.allocator = &allocator;
  Runtime runtime;
  CHECK_REFUSED(moert_runtime_create(&desc, runtime.out(), &error), kInvalid, "reserved is 9");
}

// Creating things

moert_status CreateRouter(Device& device, const moert_routing& routing, Error* error) {
  moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
  desc.routing = &routing;
  Router out;
  return moert_router_create(device.handle, &desc, out.out(), error);
}

TEST_CASE("routings that make no sense are refused, each naming the value") {
  struct Case {
    void (*spoil)(moert_routing*);
    const char* text;
  } cases[] = {
      {[](moert_routing* r) { r->top_k = 9; }, "top_k 9 is above num_experts 8"},
      {[](moert_routing* r) { r->top_k = 0; }, "top_k is 0"},
      {[](moert_routing* r) { r->top_k = -3; }, "-3"},
      {[](moert_routing* r) { r->num_experts = 0; }, "num_experts is 0"},
      {[](moert_routing* r) { r->num_experts = -1; }, "num_experts is -1"},
      {[](moert_routing* r) { r->score = 17; }, "score 17"},
      {[](moert_routing* r) { r->renormalize = -1; }, "renormalize -1"},
      {[](moert_routing* r) { r->flags = 0x40; }, "0x40"},
      {[](moert_routing* r) { r->renormalize = MOERT_RENORMALIZE_P_NORM; }, "renormalize_value"},
      {[](moert_routing* r) { r->num_groups = 3; }, "num_groups 3"},
      {[](moert_routing* r) { r->num_groups = -2; }, "-2"},
      {[](moert_routing* r) { r->num_groups = 4; }, "top_k_groups 0"},
      {[](moert_routing* r) { r->num_groups = 4, r->top_k_groups = 5; }, "top_k_groups 5"},
      {[](moert_routing* r) { r->num_groups = 8, r->top_k_groups = 1; }, "top_k 2"},
      {[](moert_routing* r) { r->group_score = 2; }, "group_score 2"},
      {[](moert_routing* r) { r->score = MOERT_SCORE_SPARSEMIXER, r->top_k = 3; }, "top_k is 3"},
      {[](moert_routing* r) { r->logit_soft_cap = -1; }, "logit_soft_cap"},
      {[](moert_routing* r) { r->routed_scaling_factor = std::numeric_limits<float>::infinity(); },
       "routed_scaling_factor"},
      {[](moert_routing* r) { r->input_rms_epsilon = std::numeric_limits<float>::quiet_NaN(); },
       "input_rms_epsilon"},
      {[](moert_routing* r) { r->struct_size = 0; }, "struct_size"}};
  ForEachDevice([&](Device& device) {
    moert_routing good = MOERT_ROUTING_INIT;
    good.num_experts = 8;
    good.top_k = 2;
    CHECK_OK(CreateRouter(device, good, &error));
    for (const Case& c : cases) {
      INFO("wanted ", std::string(c.text));
      moert_routing bad = good;
      c.spoil(&bad);
      CHECK_REFUSED(CreateRouter(device, bad, &error), kInvalid, c.text);
    }
  });
}

TEST_CASE("layers whose weights do not fit them are refused, each naming the role") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(
      rng, {.experts = 4, .hidden = 8, .intermediate = 6, .shared = 3}, MOERT_DTYPE_FLOAT32);
  struct Case {
    moert_role role;
    void (*spoil)(LayerSource*, moert_weight*);
    const char* text;
  } cases[] = {
      {MOERT_ROLE_ROUTER, [](LayerSource*, moert_weight* w) { w->rows = 5; }, "ROUTER is [5, 8]"},
      {MOERT_ROLE_EXPERT_GATE, [](LayerSource*, moert_weight* w) { w->cols = 9; }, "EXPERT_GATE"},
      {MOERT_ROLE_EXPERT_UP, [](LayerSource*, moert_weight* w) { w->role = MOERT_ROLE_LATENT_IN; },
       "EXPERT_UP"},
      {MOERT_ROLE_EXPERT_UP,
       [](LayerSource*, moert_weight* w) { w->role = MOERT_ROLE_EXPERT_GATE; },
       "EXPERT_GATE is given twice"},
      {MOERT_ROLE_EXPERT_DOWN, [](LayerSource*, moert_weight* w) { w->role = 77; }, "77"},
      {MOERT_ROLE_EXPERT_DOWN, [](LayerSource*, moert_weight* w) { w->data = nullptr; },
       "EXPERT_DOWN"},
      {MOERT_ROLE_EXPERT_DOWN, [](LayerSource*, moert_weight* w) { w->row_stride = 3; },
       "row_stride 3"},
      {MOERT_ROLE_EXPERT_DOWN, [](LayerSource*, moert_weight* w) { w->row_stride = INT64_MAX; },
       "row_stride 9223372036854775807"},
      {MOERT_ROLE_EXPERT_DOWN,
       [](LayerSource*, moert_weight* w) { w->row_stride = int64_t{1} << 60; },
       "EXPERT_DOWN: row_stride"},
      {MOERT_ROLE_ROUTER, [](LayerSource*, moert_weight* w) { w->row_stride = int64_t{1} << 60; },
       "ROUTER: row_stride"},
      {MOERT_ROLE_EXPERT_UP,
       [](LayerSource*, moert_weight* w) { w->expert_stride = int64_t{1} << 60; },
       "EXPERT_UP: row_stride"},
      {MOERT_ROLE_EXPERT_DOWN, [](LayerSource*, moert_weight* w) { w->orientation = 2; },
       "orientation 2"},
      {MOERT_ROLE_EXPERT_DOWN,
       [](LayerSource*, moert_weight* w) { w->dtype = MOERT_DTYPE_FLOAT8_E4M3; }, "F8_E4M3"},
      {MOERT_ROLE_SHARED_DOWN, [](LayerSource*, moert_weight* w) { w->rows = 3; }, "SHARED_DOWN"},
      {MOERT_ROLE_SHARED_DOWN, [](LayerSource* s, moert_weight*) { s->desc.num_weights -= 1; },
       "SHARED_DOWN is missing"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.shared_intermediate = 0; },
       "SHARED"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.latent = 3; }, "LATENT"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.hidden = 0; }, "hidden is 0"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.intermediate = -6; }, "-6"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.hidden = int64_t{1} << 62; },
       "hidden"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.dtype = MOERT_DTYPE_INT8; },
       "I8"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.weight_application = 2; },
       "weight_application 2"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.flags = 0x100; }, "0x100"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->desc.routing = nullptr; },
       "routing is NULL"},
      {MOERT_ROLE_ROUTER, [](LayerSource* s, moert_weight*) { s->activation.kind = 9; }, "9"},
      {MOERT_ROLE_ROUTER,
       [](LayerSource* s, moert_weight*) { s->activation.flags = MOERT_ACTIVATION_FLAG_UNGATED; },
       "EXPERT_GATE"}};
  ForEachDevice([&](Device& device) {
    for (const Case& c : cases) {
      INFO("wanted ", std::string(c.text));
      LayerSource source(device, reference, {});
      int freed = 0;
      source.desc.user_data = &freed;
      source.desc.free_fn = [](void* count) { ++*static_cast<int*>(count); };
      for (moert_weight& weight : source.weights.list()) {
        if (weight.role == c.role) {
          c.spoil(&source, &weight);
          break;
        }
      }
      moert_layer* out = nullptr;
      Error error;
      const moert_status status = moert_layer_create(device.handle, &source.desc, &out, &error);
      INFO(error.message);
      // A stored dtype that kernels do not read yet is valid, but not supported.
      CHECK((status == kInvalid || status == MOERT_STATUS_UNSUPPORTED));
      CHECK(error.Says(c.text));
      CHECK(out == nullptr);
      CHECK(freed == 1);
    }
  });
}

TEST_CASE("weights are widened to the layer's dtype, never narrowed") {
  Rng rng;
  CAPTURE(rng.seed);
  struct Case {
    moert_dtype layer, weights;
    const char* text;
  } cases[] = {{MOERT_DTYPE_FLOAT16, MOERT_DTYPE_BFLOAT16, "BF16"},
               {MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16, "F16"},
               {MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT32, "F32"},
               {MOERT_DTYPE_FLOAT16, MOERT_DTYPE_FLOAT32, "F32"}};
  ForEachDevice([&](Device& device) {
    for (const Case& c : cases) {
      WeightStyle style;
      style.dtype = c.weights;
      const RefLayer reference = RandomLayer(rng, {.experts = 4, .hidden = 8}, c.layer, style);
      LayerSource source(device, reference, style);
      Layer out;
      CHECK_REFUSED(moert_layer_create(device.handle, &source.desc, out.out(), &error), kInvalid,
                    c.text);
    }
  });
}

TEST_CASE("local experts must be distinct ids in range") {
  Rng rng;
  CAPTURE(rng.seed);
  const RefLayer reference = RandomLayer(rng, {.experts = 4, .hidden = 8}, MOERT_DTYPE_FLOAT32);
  struct Case {
    std::vector<int32_t> ids;
    const char* text;
  } cases[] = {{{0, 1, 1}, "1 is there twice"},
               {{0, 4}, "4"},
               {{-1}, "-1"},
               {{0, 1, 2, 3, 0}, "num_local_experts 5"}};
  ForEachDevice([&](Device& device) {
    for (const Case& c : cases) {
      LayerSource source(device, reference, {});
      source.desc.local_experts = c.ids.data();
      source.desc.num_local_experts = static_cast<uint32_t>(c.ids.size());
      Layer out;
      CHECK_REFUSED(moert_layer_create(device.handle, &source.desc, out.out(), &error), kInvalid,
                    c.text);
    }
    LayerSource source(device, reference, {});
    source.desc.num_local_experts = 2;
    Layer out;
    CHECK_REFUSED(moert_layer_create(device.handle, &source.desc, out.out(), &error), kInvalid,
                  "local_experts is NULL");
  });
}

TEST_CASE("routers take x or logits, of their own dtype") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    RefRouter reference;
    reference.routing.num_experts = 4;
    reference.routing.top_k = 2;
    const Router on_logits = MakeRouter(device, reference, MOERT_DTYPE_BFLOAT16, 0);
    MatrixBuffer logits(device, rng.NormalMat(3, 4, 1, MOERT_DTYPE_BFLOAT16), MOERT_DTYPE_BFLOAT16);
    MatrixBuffer single(device, rng.NormalMat(3, 4, 1, MOERT_DTYPE_FLOAT32), MOERT_DTYPE_FLOAT32);
    MatrixBuffer ids(device, 3, 2, MOERT_DTYPE_INT32);
    MatrixBuffer weights(device, 3, 2, MOERT_DTYPE_FLOAT32);
    moert_router_forward_args args = MOERT_ROUTER_FORWARD_ARGS_INIT;
    args.ids = ids.view();
    args.weights = weights.view();
    auto refused = [&](const char* text) {
      CHECK_REFUSED(moert_router_forward(on_logits, device.stream, &args, &error), kInvalid, text);
    };
    refused("x and given_logits");
    args.x = logits.view();
    refused("ROUTER");
    args.given_logits = logits.view();
    refused("x and given_logits");
    args.x = nullptr;
    args.given_logits = single.view();
    refused("given_logits has dtype F32");
    args.given_logits = logits.view();
    args.ids = nullptr;
    refused("ids");
    args.ids = ids.view();
    args.logits = single.view();
    uint64_t size = 0;
    REQUIRE_OK(moert_router_workspace_size(on_logits, &args, &size, &error));
    REQUIRE_OK(moert_stream_reserve(device.stream, size, &error));
    CHECK_OK(moert_router_forward(on_logits, device.stream, &args, &error));
    device.Synchronize();
  });
}

TEST_CASE("gate ops refuse what their kind does not take, and overlaps that are not in place") {
  Rng rng;
  CAPTURE(rng.seed);
  ForEachDevice([&](Device& device) {
    moert_gate_desc desc = MOERT_GATE_DESC_INIT;
    Gate gate;
    CHECK_REFUSED(moert_gate_create(device.handle, &desc, gate.out(), &error), kInvalid,
                  "width is 0");
    desc.width = 6;
    desc.kind = 4;
    CHECK_REFUSED(moert_gate_create(device.handle, &desc, gate.out(), &error), kInvalid, "4");
    desc.kind = MOERT_GATE_KIND_ADD_LINEAR;
    CHECK_REFUSED(moert_gate_create(device.handle, &desc, gate.out(), &error), kInvalid,
                  "linear_width is 0");
    desc.kind = MOERT_GATE_KIND_MULTIPLY;
    desc.dtype = MOERT_DTYPE_FLOAT64;
    CHECK_REFUSED(moert_gate_create(device.handle, &desc, gate.out(), &error), kInvalid, "F64");
    desc.dtype = MOERT_DTYPE_FLOAT32;
    REQUIRE_OK(moert_gate_create(device.handle, &desc, gate.out(), &error));

    MatrixBuffer x(device, rng.NormalMat(4, 6, 1, MOERT_DTYPE_FLOAT32), MOERT_DTYPE_FLOAT32);
    MatrixBuffer g(device, rng.NormalMat(4, 6, 1, MOERT_DTYPE_FLOAT32), MOERT_DTYPE_FLOAT32);
    MatrixBuffer out(device, 4, 6, MOERT_DTYPE_FLOAT32);
    const auto before = out.Bytes();
    auto refused = [&](const moert_gate_forward_args& args, const char* text) {
      CHECK_REFUSED(moert_gate_forward(gate, device.stream, &args, &error), kInvalid, text);
      device.Synchronize();
      CHECK(out.Bytes() == before);
    };
    moert_gate_forward_args args = MOERT_GATE_FORWARD_ARGS_INIT;
    args.x = x.view();
    args.out = out.view();
    refused(args, "g");
    args.g = g.view();
    args.acc = x.view();
    refused(args, "acc");
    args.acc = nullptr;
    args.h = g.view();
    refused(args, "h");
    args.h = nullptr;
    moert_matrix shifted = *x.view();
    shifted.rows = 3;
    shifted.data = static_cast<float*>(shifted.data) + 6;
    moert_matrix top = *x.view(), g_top = *g.view();
    top.rows = g_top.rows = 3;
    args.x = &top;
    args.g = &g_top;
    args.out = &shifted;
    refused(args, "overlap");
    args.x = x.view();
    args.g = args.out = g.view();
    refused(args, "overlap");
  });
}

TEST_CASE("devices that are not there are named, with what there is or was tried") {
  const Runtime runtime = MakeRuntime();
  for (const char* name : {"cpu:1", "cuda:99", "cuda:x", "abacus", "abacus:0", ""}) {
    INFO("name ", std::string(name));
    DeviceHandle out;
    Error error;
    const moert_status status = moert_device_create(runtime, name, nullptr, out.out(), &error);
    CHECK((status == MOERT_STATUS_UNAVAILABLE || status == kInvalid));
    CHECK(error.Says(name));
    CHECK(std::strlen(error.message) > 0);
  }
  DeviceHandle cpu;
  CHECK_OK(moert_device_create(runtime, nullptr, nullptr, cpu.out(), &error));
  CHECK_OK(moert_device_create(runtime, "best", nullptr, cpu.out(), &error));
  uint32_t count = 0;
  CHECK_OK(moert_runtime_num_devices(runtime, &count, &error));
  CHECK(count >= 1);
  moert_device_info info = MOERT_DEVICE_INFO_INIT;
  CHECK_OK(moert_runtime_device_info(runtime, 0, &info, &error));
  CHECK(info.kind == MOERT_DEVICE_KIND_CPU);
  CHECK(std::string(info.id) == "cpu");
  CHECK_REFUSED(moert_runtime_device_info(runtime, count, &info, &error), kInvalid,
                std::to_string(count));
}

TEST_CASE("what later versions bring answers UNSUPPORTED and says so") {
  ForEachDevice([](Device& device) {
    GoodCall call(device);
    uint64_t size = 0;
    moert_layer_backward_args backward = MOERT_LAYER_BACKWARD_ARGS_INIT;
    backward.x = &call.x;
    moert_optimizer_desc desc = MOERT_OPTIMIZER_DESC_INIT;
    moert_optimizer* optimizer = nullptr;
    constexpr moert_status kUnsupported = MOERT_STATUS_UNSUPPORTED;
    CHECK_REFUSED(moert_layer_backward(call.layer, device.stream, &backward, &error), kUnsupported,
                  "training");
    CHECK_REFUSED(moert_layer_backward_workspace_size(call.layer, &backward, &size, &error),
                  kUnsupported, "training");
    CHECK_REFUSED(moert_layer_saved_size(call.layer, &call.args, &size, &error), kUnsupported,
                  "training");
    // The callbacks are given back, also those of an older host whose structs are shorter.
    int freed = 0;
    moert_optimizer_callbacks callbacks = MOERT_OPTIMIZER_CALLBACKS_INIT;
    callbacks.user_data = &freed;
    callbacks.free_fn = [](void* count) { ++*static_cast<int*>(count); };
    desc.callbacks = &callbacks;
    desc.struct_size = offsetof(moert_optimizer_desc, callbacks) + sizeof(void*);
    CHECK_REFUSED(moert_optimizer_create(device.handle, &desc, &optimizer, &error), kUnsupported,
                  "");
    CHECK(freed == 1);
    if (device.info.kind == MOERT_DEVICE_KIND_CPU) {
      moert_stream* stream = nullptr;
      CHECK(moert_stream_import(device.handle, nullptr, &stream, nullptr) != MOERT_STATUS_OK);
      CHECK(stream == nullptr);
    }
  });
}

}  // namespace
}  // namespace moert::test
