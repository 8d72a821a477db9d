// SPDX-License-Identifier: Apache-2.0
// What each weight role is: its name, whether every expert has one, and its shape in terms of the
// layer's widths. Manifests and layers check against this one table.
#ifndef MOERT_BACKEND_ROLES_H_
#define MOERT_BACKEND_ROLES_H_

#include <cstdint>

#include "moert/moert.h"

namespace moert {

// A width of a layer.
enum class Width : uint8_t {
  kOne,
  kExperts,
  kHidden,
  kIntermediate,
  kTwoIntermediate,
  kExpertWidth,  // latent if there is one, else hidden
  kLatent,
  kShared,
  kTwoShared,
};

struct Widths {
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t latent = 0;
  int64_t shared = 0;

  int64_t Get(Width width) const;
};

enum class RoleGroup : uint8_t { kRouter, kExpert, kLatent, kShared };

struct Role {
  moert_role role;
  const char* name;
  RoleGroup group;
  bool per_expert;
  bool is_vector;  // one row, never transposed
  // Expert weights are widened to the layer's dtype, never narrowed; others are used in float32.
  bool is_widened;
  Width rows;  // in [out, in] order
  Width cols;
};

// Null for unknown roles.
const Role* FindRole(moert_role role);
// "?" for unknown roles.
const char* RoleName(moert_role role);
constexpr int32_t kNumRoles = MOERT_ROLE_SHARED_EXPERT_GATE + 1;

// Which roles a layer must and may have. Returns null if the set is right; else the offence in
// words, with the role it is about.
struct RoleOffence {
  moert_role role = MOERT_ROLE_NONE;
  const char* what = nullptr;  // null: none
};
// `given[r]` says whether role r is there.
RoleOffence CheckRoles(const bool (&given)[kNumRoles], bool gated, bool has_latent, bool has_shared,
                       bool shared_gated);

}  // namespace moert

#endif  // MOERT_BACKEND_ROLES_H_
