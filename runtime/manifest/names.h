// SPDX-License-Identifier: Apache-2.0
// The enums of a manifest: the names that family descriptions and messages use, and so also which
// values are known. Roles have theirs in backend/roles.h.
#ifndef MOERT_MANIFEST_NAMES_H_
#define MOERT_MANIFEST_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

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

#endif  // MOERT_MANIFEST_NAMES_H_
