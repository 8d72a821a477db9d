// SPDX-License-Identifier: Apache-2.0
#include "layer/arguments.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

// What a matrix argument must be.
struct Expected {
  const char* name;
  const moert_matrix* given;
  int64_t rows;
  int64_t cols;
  moert_dtype dtype;
};

Status CheckMatrix(const Expected& expected, Purpose purpose, Matrix* out) {
  const moert_matrix& m = *expected.given;
  const char* name = expected.name;
  if (m.dtype != expected.dtype) {
    return InvalidArgument("%s has dtype %s (%d); it must be %s", name, moert_dtype_name(m.dtype),
                           m.dtype, moert_dtype_name(expected.dtype));
  }
  if (m.rows != expected.rows || m.cols != expected.cols) {
    return InvalidArgument("%s is [%" PRId64 ", %" PRId64 "]; it must be [%" PRId64 ", %" PRId64
                           "]",
                           name, m.rows, m.cols, expected.rows, expected.cols);
  }
  if (m.row_stride < m.cols) {
    return InvalidArgument("%s.row_stride %" PRId64 " is below its cols %" PRId64, name,
                           m.row_stride, m.cols);
  }
  if (m.reserved != 0) return InvalidArgument("%s.reserved is %u; it must be 0", name, m.reserved);
  int64_t elements, bytes;
  if (!CheckedMultiply(m.rows, m.row_stride, &elements) ||
      !CheckedMultiply(elements, ElementSize(m.dtype), &bytes)) {
    return InvalidArgument("%s: rows %" PRId64 " * row_stride %" PRId64 " pass 2^63 bytes", name,
                           m.rows, m.row_stride);
  }
  if (purpose == Purpose::kRun && m.data == nullptr && m.rows > 0) {
    return InvalidArgument("%s.data is NULL", name);
  }
  *out = Matrix(m);
  return Status();
}

Status CheckRequired(const Expected& expected, Purpose purpose, Matrix* out) {
  if (expected.given == nullptr) return InvalidArgument("%s is absent", expected.name);
  return CheckMatrix(expected, purpose, out);
}

Status CheckOptional(const Expected& expected, Purpose purpose, Matrix* out) {
  return expected.given == nullptr ? Status() : CheckMatrix(expected, purpose, out);
}

// Rows of the matrix that sets T; T * top_k slots are counted in 32 bits.
Status CheckTokens(const char* name, const moert_matrix* matrix, int32_t slots, int64_t* tokens) {
  if (matrix == nullptr) return InvalidArgument("%s is absent", name);
  const int64_t limit = std::numeric_limits<int32_t>::max() / slots;
  if (matrix->rows < 0 || matrix->rows > limit) {
    return InvalidArgument("%s has %" PRId64 " rows; 0 to %" PRId64 " are accepted", name,
                           matrix->rows, limit);
  }
  *tokens = matrix->rows;
  return Status();
}

// Memory that a call touches.
struct Region {
  const char* name;
  uintptr_t begin;
  uintptr_t end;
  uint64_t row_bytes;     // used of each row
  uint64_t stride_bytes;  // 0: one row
};

Region RegionOf(const char* name, const Matrix& m) {
  const uint64_t element = ElementSize(m.dtype);
  Region region{name, reinterpret_cast<uintptr_t>(m.data), 0, m.cols * element, 0};
  if (m.rows > 1) region.stride_bytes = m.row_stride * element;
  const uint64_t before_last = m.rows > 1 ? (m.rows - 1) * region.stride_bytes : 0;
  region.end = region.begin + (m.rows > 0 ? before_last + region.row_bytes : 0);
  return region;
}

// Column blocks of one wider matrix interleave without sharing a byte.
bool AreColumnsOfOneMatrix(const Region& a, const Region& b) {
  const uint64_t stride = a.stride_bytes;
  if (stride == 0 || stride != b.stride_bytes) return false;
  const uint64_t distance = b.begin >= a.begin ? (b.begin - a.begin) % stride
                                               : (stride - (a.begin - b.begin) % stride) % stride;
  return a.row_bytes <= distance && distance + b.row_bytes <= stride;
}

bool Overlap(const Region& a, const Region& b) {
  if (a.begin == a.end || b.begin == b.end) return false;
  return a.begin < b.end && b.begin < a.end && !AreColumnsOfOneMatrix(a, b);
}

// Inputs and outputs of a call, to find an output that overlaps anything.
class Regions {
 public:
  void Add(const char* name, const Matrix& matrix, bool output) {
    if (!matrix.present()) return;
    entries_[count_] = RegionOf(name, matrix);
    outputs_[count_++] = output;
  }
  void AddInput(const char* name, const Matrix& matrix) { Add(name, matrix, false); }
  void AddOutput(const char* name, const Matrix& matrix) { Add(name, matrix, true); }
  void AddWorkspace(const Workspace& workspace) {
    if (workspace.data == nullptr) return;
    const auto begin = reinterpret_cast<uintptr_t>(workspace.data);
    const uintptr_t end = begin + std::min<uint64_t>(workspace.size, UINTPTR_MAX - begin);
    entries_[count_] = Region{"workspace", begin, end, workspace.size, 0};
    outputs_[count_++] = true;
  }

  Status Check() const {
    for (int i = 0; i < count_; ++i) {
      for (int j = i + 1; j < count_; ++j) {
        if ((outputs_[i] || outputs_[j]) && Overlap(entries_[i], entries_[j])) {
          return InvalidArgument("%s overlaps %s", entries_[i].name, entries_[j].name);
        }
      }
    }
    return Status();
  }

 private:
  static constexpr int kMax = 12;
  Region entries_[kMax];
  bool outputs_[kMax];
  int count_ = 0;
};

Status CheckFlags(const char* name, uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return Status();
  return InvalidArgument("%s.flags 0x%x has unknown bits; known are 0x%x", name, flags, known);
}

Status CheckWorkspace(void* data, uint64_t size, Workspace* out) {
  if (data == nullptr && size != 0) {
    return InvalidArgument("workspace is NULL but workspace_size is %" PRIu64, size);
  }
  if (reinterpret_cast<uintptr_t>(data) % 256 != 0) {
    return InvalidArgument("workspace %p is not aligned to 256 bytes", data);
  }
  *out = Workspace{data, size};
  return Status();
}

}  // namespace

Status ResolveForward(const LayerSpec& spec, bool has_router, const moert_layer_forward_args& args,
                      Purpose purpose, LayerCall* call) {
  constexpr uint32_t kFlags = MOERT_FORWARD_FLAG_GIVEN_ROUTING | MOERT_FORWARD_FLAG_ACCUMULATE |
                              MOERT_FORWARD_FLAG_SKIP_SHARED | MOERT_FORWARD_FLAG_KEEP;
  MOERT_RETURN_IF_ERROR(CheckFlags("moert_layer_forward_args", args.flags, kFlags));
  if ((args.flags & MOERT_FORWARD_FLAG_KEEP) != 0) {
    return Unsupported("MOERT_FORWARD_FLAG_KEEP: this version has no backward pass");
  }
  call->given_routing = (args.flags & MOERT_FORWARD_FLAG_GIVEN_ROUTING) != 0;
  call->accumulate = (args.flags & MOERT_FORWARD_FLAG_ACCUMULATE) != 0;
  call->skip_shared = (args.flags & MOERT_FORWARD_FLAG_SKIP_SHARED) != 0;
  if (!call->given_routing && !has_router) {
    return InvalidArgument(
        "the layer has no ROUTER weight; pass ids and weights with "
        "MOERT_FORWARD_FLAG_GIVEN_ROUTING");
  }

  const moert_routing& routing = spec.routing;
  int64_t& tokens = call->tokens;
  MOERT_RETURN_IF_ERROR(CheckTokens("x", args.x, routing.top_k, &tokens));
  MOERT_RETURN_IF_ERROR(
      CheckRequired({"x", args.x, tokens, spec.hidden, spec.dtype}, purpose, &call->x));
  MOERT_RETURN_IF_ERROR(
      CheckRequired({"y", args.y, tokens, spec.hidden, spec.dtype}, purpose, &call->y));
  const Expected ids{"ids", args.ids, tokens, routing.top_k, MOERT_DTYPE_INT32};
  const Expected weights{"weights", args.weights, tokens, routing.top_k, MOERT_DTYPE_FLOAT32};
  if (call->given_routing) {
    if (args.router_x != nullptr) {
      return InvalidArgument("router_x is given, but with GIVEN_ROUTING no router runs");
    }
    if (args.logits != nullptr) {
      return InvalidArgument("logits are asked for, but with GIVEN_ROUTING no router runs");
    }
    MOERT_RETURN_IF_ERROR(CheckRequired(ids, purpose, &call->ids));
    MOERT_RETURN_IF_ERROR(CheckRequired(weights, purpose, &call->weights));
  } else {
    MOERT_RETURN_IF_ERROR(CheckOptional(ids, purpose, &call->ids));
    MOERT_RETURN_IF_ERROR(CheckOptional(weights, purpose, &call->weights));
    call->router_x = call->x;
    MOERT_RETURN_IF_ERROR(CheckOptional(
        {"router_x", args.router_x, tokens, spec.hidden, spec.dtype}, purpose, &call->router_x));
    MOERT_RETURN_IF_ERROR(
        CheckOptional({"logits", args.logits, tokens, routing.num_experts, MOERT_DTYPE_FLOAT32},
                      purpose, &call->logits));
  }
  MOERT_RETURN_IF_ERROR(CheckOptional(
      {"expert_counts", args.expert_counts, 1, routing.num_experts, MOERT_DTYPE_INT32}, purpose,
      &call->expert_counts));
  if (purpose == Purpose::kSize) return Status();

  MOERT_RETURN_IF_ERROR(CheckWorkspace(args.workspace, args.workspace_size, &call->workspace));
  Regions regions;
  regions.AddInput("x", call->x);
  if (args.router_x != nullptr) regions.AddInput("router_x", call->router_x);
  regions.AddOutput("y", call->y);
  regions.Add("ids", call->ids, !call->given_routing);
  regions.Add("weights", call->weights, !call->given_routing);
  regions.AddOutput("logits", call->logits);
  regions.AddOutput("expert_counts", call->expert_counts);
  regions.AddWorkspace(call->workspace);
  return regions.Check();
}

Status ResolveRoute(const RouterSpec& spec, bool has_router, const moert_router_forward_args& args,
                    Purpose purpose, RouteCall* call) {
  MOERT_RETURN_IF_ERROR(CheckFlags("moert_router_forward_args", args.flags, 0));
  const moert_routing& routing = spec.routing;
  int64_t& tokens = call->tokens;
  if ((args.x == nullptr) == (args.given_logits == nullptr)) {
    return InvalidArgument("%s of x and given_logits are there; exactly one must be",
                           args.x == nullptr ? "none" : "both");
  }
  if (args.x != nullptr) {
    if (!has_router) return InvalidArgument("x is given, but the router has no ROUTER weight");
    MOERT_RETURN_IF_ERROR(CheckTokens("x", args.x, routing.top_k, &tokens));
    MOERT_RETURN_IF_ERROR(
        CheckRequired({"x", args.x, tokens, spec.hidden, spec.dtype}, purpose, &call->x));
  } else {
    MOERT_RETURN_IF_ERROR(CheckTokens("given_logits", args.given_logits, routing.top_k, &tokens));
    MOERT_RETURN_IF_ERROR(
        CheckRequired({"given_logits", args.given_logits, tokens, routing.num_experts, spec.dtype},
                      purpose, &call->given_logits));
  }
  MOERT_RETURN_IF_ERROR(CheckRequired({"ids", args.ids, tokens, routing.top_k, MOERT_DTYPE_INT32},
                                      purpose, &call->ids));
  MOERT_RETURN_IF_ERROR(
      CheckRequired({"weights", args.weights, tokens, routing.top_k, MOERT_DTYPE_FLOAT32}, purpose,
                    &call->weights));
  MOERT_RETURN_IF_ERROR(
      CheckOptional({"logits", args.logits, tokens, routing.num_experts, MOERT_DTYPE_FLOAT32},
                    purpose, &call->logits));
  MOERT_RETURN_IF_ERROR(CheckOptional(
      {"expert_counts", args.expert_counts, 1, routing.num_experts, MOERT_DTYPE_INT32}, purpose,
      &call->expert_counts));
  if (purpose == Purpose::kSize) return Status();

  MOERT_RETURN_IF_ERROR(CheckWorkspace(args.workspace, args.workspace_size, &call->workspace));
  Regions regions;
  regions.AddInput("x", call->x);
  regions.AddInput("given_logits", call->given_logits);
  regions.AddOutput("ids", call->ids);
  regions.AddOutput("weights", call->weights);
  regions.AddOutput("logits", call->logits);
  regions.AddOutput("expert_counts", call->expert_counts);
  regions.AddWorkspace(call->workspace);
  return regions.Check();
}

Status ResolveGateCall(const GateSpec& spec, const moert_gate_forward_args& args, GateCall* call) {
  constexpr Purpose kRun = Purpose::kRun;
  const bool linear = spec.kind == MOERT_GATE_KIND_ADD_LINEAR;
  const bool adds = linear || spec.kind == MOERT_GATE_KIND_ADD_ROWS;
  MOERT_RETURN_IF_ERROR(CheckFlags("moert_gate_forward_args", args.flags, 0));
  int64_t& tokens = call->tokens;
  MOERT_RETURN_IF_ERROR(CheckTokens("x", args.x, 1, &tokens));
  MOERT_RETURN_IF_ERROR(
      CheckRequired({"x", args.x, tokens, spec.width, spec.dtype}, kRun, &call->x));
  MOERT_RETURN_IF_ERROR(
      CheckRequired({"out", args.out, tokens, spec.width, spec.dtype}, kRun, &call->out));
  if (linear) {
    if (args.g != nullptr) return InvalidArgument("g is given, but ADD_LINEAR takes h and w");
    MOERT_RETURN_IF_ERROR(
        CheckRequired({"h", args.h, tokens, spec.linear_width, spec.dtype}, kRun, &call->h));
    MOERT_RETURN_IF_ERROR(
        CheckRequired({"w", args.w, 1, spec.linear_width, spec.dtype}, kRun, &call->w));
  } else {
    if (args.h != nullptr || args.w != nullptr) {
      return InvalidArgument("h or w is given, but only ADD_LINEAR takes them");
    }
    const int64_t cols = spec.kind == MOERT_GATE_KIND_MULTIPLY ? spec.width : 1;
    MOERT_RETURN_IF_ERROR(CheckRequired({"g", args.g, tokens, cols, spec.dtype}, kRun, &call->g));
  }
  if (adds) {
    call->acc = call->out;
    MOERT_RETURN_IF_ERROR(
        CheckOptional({"acc", args.acc, tokens, spec.width, spec.dtype}, kRun, &call->acc));
  } else if (args.acc != nullptr) {
    return InvalidArgument("acc is given, but only ADD_ROWS and ADD_LINEAR take it");
  }

  const auto is_out = [call](const Matrix& m) {
    return m.data == call->out.data && m.row_stride == call->out.row_stride;
  };
  Regions regions;
  if (!is_out(call->x)) regions.AddInput("x", call->x);
  if (!is_out(call->acc)) regions.AddInput("acc", call->acc);
  regions.AddInput("g", call->g);
  regions.AddInput("h", call->h);
  regions.AddInput("w", call->w);
  regions.AddOutput("out", call->out);
  return regions.Check();
}

}  // namespace moert
