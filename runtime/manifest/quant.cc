// SPDX-License-Identifier: Apache-2.0
#include "manifest/quant.h"

#include <algorithm>
#include <utility>

#include "backend/roles.h"
#include "core/checked_math.h"

namespace moert {
namespace {

using Kind = WeightSpelling::Kind;

bool IsFp8(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_FLOAT8_E4M3 || dtype == MOERT_DTYPE_FLOAT8_E5M2;
}

// Replaces a ".weight" at the end. False if there is none.
bool Replace(const std::string& name, const char* suffix, std::string* out) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return false;
  *out = name.substr(0, name.size() - kWeight.size()) + suffix;
  return true;
}

struct Suffixes {
  const char* values;
  const char* scales;
  const char* zero_points;
};
constexpr Suffixes kWordSuffixes = {".qweight", ".scales", ".qzeros"};  // GPTQ and AWQ
constexpr Suffixes kPackedSuffixes = {".weight_packed", ".weight_scale", ".weight_zero_point"};

bool TrySuffixes(const std::string& name, const Suffixes& suffixes, Kind kind,
                 const std::function<bool(const std::string&)>& exists, WeightSpelling* out) {
  std::string values;
  if (!Replace(name, suffixes.values, &values) || !exists(values)) return false;
  out->kind = kind;
  out->values = values;
  Replace(name, suffixes.scales, &out->scales);
  Replace(name, suffixes.zero_points, &out->zero_points);
  if (!exists(out->zero_points)) out->zero_points.clear();
  return true;
}

int64_t GroupSize(const QuantConfig& config, int64_t whole) {
  return config.group_size > 0 ? std::min(config.group_size, whole) : whole;
}

// Scales of one matrix, as [rows of blocks, columns of blocks].
void ScaleGrid(const SafetensorsTensor& scales, int64_t* rows, int64_t* cols) {
  const size_t rank = scales.shape.size();
  *rows = rank >= 2 ? scales.shape[rank - 2] : rank == 1 ? scales.shape[0] : 1;
  *cols = rank >= 2 ? scales.shape[rank - 1] : 1;
}

void DescribeFp8(const QuantConfig& config, const SafetensorsTensor& scales,
                 PlannedWeight* weight) {
  PlannedQuant& quant = *weight->quant;
  quant.scheme = schema::QuantScheme::Fp8Block;
  int64_t grid_rows = 1, grid_cols = 1;
  ScaleGrid(scales, &grid_rows, &grid_cols);
  const auto block = [](int64_t extent, int64_t grid, int64_t said) {
    if (said > 0 && DivideUp(extent, said) == grid) return std::min(said, extent);
    return grid > 0 ? DivideUp(extent, grid) : extent;
  };
  quant.block_rows = block(weight->rows, grid_rows, config.block_rows);
  quant.block_cols = block(weight->cols, grid_cols, config.block_cols);
}

void DescribeMxfp4(PlannedWeight* weight) {
  PlannedQuant& quant = *weight->quant;
  weight->dtype = MOERT_DTYPE_FLOAT4_E2M1;
  quant.scheme = schema::QuantScheme::Mxfp4;
  quant.packing = schema::QuantPacking::NibblesLow;
  quant.block_cols = 32;
  quant.storage_elements = 32;
  quant.storage_bytes = 16;
}

// GPTQ and AWQ store [in, out]: groups run down the columns.
void DescribeInt4(const WeightSpelling& spelling, const QuantConfig& config,
                  PlannedWeight* weight) {
  PlannedQuant& quant = *weight->quant;
  weight->dtype = MOERT_DTYPE_INT4;
  quant.scheme = schema::QuantScheme::Int4Group;
  quant.storage_elements = 8;
  quant.storage_bytes = 4;
  quant.zero_point = spelling.zero_points.empty()   ? schema::ZeroPoint::Middle
                     : config.zero_points_minus_one ? schema::ZeroPoint::StoredMinusOne
                                                    : schema::ZeroPoint::Stored;
  if (spelling.kind == Kind::kPackedInt4) {
    quant.packing = schema::QuantPacking::NibblesLow;
    quant.block_cols = GroupSize(config, weight->cols);
    return;
  }
  quant.packing = spelling.kind == Kind::kAwq ? schema::QuantPacking::WordsAwq
                                              : schema::QuantPacking::WordsDown;
  if (weight->orientation == MOERT_ORIENTATION_OUT_IN) {
    weight->orientation = MOERT_ORIENTATION_IN_OUT;
    std::swap(weight->rows, weight->cols);
  }
  quant.block_rows = GroupSize(config, weight->rows);
}

}  // namespace

Status ReadQuantConfig(const FamilyContext& context, QuantConfig* out) {
  const auto integer = [&](std::vector<std::string> paths, int64_t* value) {
    Value from;
    from.paths = std::move(paths);
    from.fallback = 0;
    const std::string what = from.paths[0];
    return EvaluateInteger(from, context, what.c_str(), value);
  };
  const std::string root = "quantization_config.", group = root + "config_groups.group_0.weights.";
  if (const Json* method = FindInConfig(context, root + "quant_method");
      method != nullptr && method->is_string()) {
    out->method = method->get<std::string>();
  }
  MOERT_RETURN_IF_ERROR(integer({root + "bits", root + "w_bit", group + "num_bits"}, &out->bits));
  MOERT_RETURN_IF_ERROR(integer({root + "group_size", root + "q_group_size", group + "group_size"},
                                &out->group_size));
  const Json* format = FindInConfig(context, root + "checkpoint_format");
  out->zero_points_minus_one =
      out->method == "gptq" && (format == nullptr || *format != Json("gptq_v2"));
  const Json* block = FindInConfig(context, root + "weight_block_size");
  if (block != nullptr && block->is_array() && block->size() == 2 &&
      (*block)[0].is_number_unsigned() && (*block)[1].is_number_unsigned()) {
    out->block_rows = (*block)[0].get<int64_t>();
    out->block_cols = (*block)[1].get<int64_t>();
  }
  return Status();
}

bool FindSpelling(const WeightRule& rule, const QuantConfig& config,
                  const std::function<bool(const std::string&)>& exists,
                  const std::function<moert_dtype(const std::string&)>& dtype,
                  WeightSpelling* out) {
  for (const std::string& name : rule.names) {
    *out = WeightSpelling();
    if (exists(name)) {
      out->values = name;
      if (!rule.mxfp4_scales.empty()) {
        out->kind = Kind::kMxfp4;
        out->scales = rule.mxfp4_scales;
      } else if (IsFp8(dtype(name))) {
        out->kind = Kind::kFp8;
        out->scales = exists(name + "_scale_inv") ? name + "_scale_inv" : name + "_scale";
      }
      return true;
    }
    const Kind words = config.method == "awq" ? Kind::kAwq : Kind::kGptq;
    if (TrySuffixes(name, kWordSuffixes, words, exists, out)) return true;
    if (TrySuffixes(name, kPackedSuffixes, Kind::kPackedInt4, exists, out)) return true;
  }
  return false;
}

Status DescribeSpelling(const WeightSpelling& spelling, const QuantConfig& config,
                        const SafetensorsTensor& values, const SafetensorsTensor* scales,
                        PlannedWeight* weight) {
  weight->dtype = values.dtype;
  if (spelling.kind == Kind::kPlain) {
    if (values.dtype == MOERT_DTYPE_FLOAT32 || values.dtype == MOERT_DTYPE_BFLOAT16 ||
        values.dtype == MOERT_DTYPE_FLOAT16 || values.dtype == MOERT_DTYPE_FLOAT64) {
      return Status();
    }
    return Unsupported(
        "tensor '%s' (role %s) is %s%s%s, a quantisation that is not known; known are "
        "fp8 with block scales, mxfp4, and int4 of gptq, awq and compressed-tensors",
        values.name.c_str(), RoleName(weight->role), moert_dtype_name(values.dtype),
        config.method.empty() ? "" : " of quant_method ", config.method.c_str());
  }
  weight->quant.emplace();
  if (spelling.kind == Kind::kFp8) {
    DescribeFp8(config, *scales, weight);
  } else if (spelling.kind == Kind::kMxfp4) {
    DescribeMxfp4(weight);
  } else {
    if (config.bits != 0 && config.bits != 4) {
      return Unsupported("tensor '%s' (role %s) has %lld bits a value; known is 4",
                         values.name.c_str(), RoleName(weight->role),
                         static_cast<long long>(config.bits));
    }
    if (values.dtype != MOERT_DTYPE_INT32) {
      return Unsupported("tensor '%s' (role %s) is %s; known is int4 packed in I32",
                         values.name.c_str(), RoleName(weight->role),
                         moert_dtype_name(values.dtype));
    }
    DescribeInt4(spelling, config, weight);
  }
  return Status();
}

}  // namespace moert
