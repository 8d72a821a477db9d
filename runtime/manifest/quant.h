// SPDX-License-Identifier: Apache-2.0
// How quantised checkpoints spell a weight: which tensors stand for "NAME.weight", and what they
// mean. fp8 with block scales, MXFP4, and int4 groups in the layouts of GPTQ, AWQ and
// compressed-tensors.
#ifndef MOERT_MANIFEST_QUANT_H_
#define MOERT_MANIFEST_QUANT_H_

#include <string>
#include <string_view>

#include "core/status.h"
#include "manifest/family.h"
#include "manifest/plan.h"

namespace moert {

// What the config says about its quantisation.
struct QuantConfig {
  std::string method;      // "fp8", "gptq", "awq", "compressed-tensors", ...; "" if there is none
  int64_t bits = 0;        // 0: not said
  int64_t group_size = 0;  // 0: not said; -1: one group a row
  int64_t block_rows = 0;  // of fp8 scales; 0: not said
  int64_t block_cols = 0;
  bool zero_points_minus_one = false;  // GPTQ's first format
};
Status ReadQuantConfig(const FamilyContext& context, QuantConfig* out);

// One way to store a weight. Names are patterns in which "{expert}" may stand.
struct WeightSpelling {
  enum class Kind { kPlain, kFp8, kMxfp4, kGptq, kAwq, kPackedInt4 };
  Kind kind = Kind::kPlain;
  std::string values;
  std::string scales;       // "" unless quantised
  std::string zero_points;  // "" if there are none
};

// Looks for one of rule.names, plain or quantised. `exists` answers for a pattern. False: none is
// there.
bool FindSpelling(const WeightRule& rule, const QuantConfig& config,
                  const std::function<bool(const std::string&)>& exists,
                  const std::function<moert_dtype(const std::string&)>& dtype, WeightSpelling* out);

// Fills what the spelling means into a weight whose role, orientation, shape and tensors are set;
// may turn its orientation. `scales` is the first tensor of scales, null for plain values.
Status DescribeSpelling(const WeightSpelling& spelling, const QuantConfig& config,
                        const SafetensorsTensor& values, const SafetensorsTensor* scales,
                        PlannedWeight* weight);

}  // namespace moert

#endif  // MOERT_MANIFEST_QUANT_H_
