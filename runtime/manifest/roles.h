// SPDX-License-Identifier: Apache-2.0
// Facts about weight roles and the other enums of a manifest: names, shapes, known values. The one
// place where a role's shape is written down for packing and for checking.
#ifndef MOERT_MANIFEST_ROLES_H_
#define MOERT_MANIFEST_ROLES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "moert/moert.h"

namespace moert {

struct LayerSizes {
  int64_t experts = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t latent = 0;  // 0: none
  int64_t shared = 0;  // 0: none
};

constexpr moert_role kNumRoles = MOERT_ROLE_SHARED_EXPERT_GATE + 1;

// "expert_gate_up"; "?" if unknown.
const char* RoleName(moert_role role);
bool RoleIsPerExpert(moert_role role);
// A matrix whose elements are widened to the layer's dtype, never narrowed.
bool RoleIsMatrix(moert_role role);
bool RoleIsShared(moert_role role);
bool RoleIsLatent(moert_role role);
// Shape of one matrix of that role as stored. False if a size passes 63 bits.
bool RoleShape(moert_role role, const LayerSizes& sizes, moert_orientation orientation,
               int64_t* rows, int64_t* cols);

// An enum whose values have names in family descriptions and messages.
struct EnumName {
  const char* name;
  int32_t value;
};
struct EnumNames {
  const EnumName* names;
  int32_t count;
  // False if no name fits.
  bool Find(std::string_view name, int32_t* value) const;
  // The first name of a value; null if it is not known.
  const char* Name(int32_t value) const;
  // "softmax, sigmoid, ..."
  std::string List() const;
};
extern const EnumNames kRoleNames;
extern const EnumNames kScoreNames;
extern const EnumNames kRenormalizeNames;
extern const EnumNames kGroupScoreNames;
extern const EnumNames kActivationNames;
extern const EnumNames kWeightApplicationNames;
extern const EnumNames kOrientationNames;
extern const EnumNames kPackingNames;
extern const EnumNames kQuantSchemeNames;
extern const EnumNames kQuantPackingNames;
extern const EnumNames kZeroPointNames;

}  // namespace moert

#endif  // MOERT_MANIFEST_ROLES_H_
