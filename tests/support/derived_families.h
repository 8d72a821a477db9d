// SPDX-License-Identifier: Apache-2.0
// Model families of which there is no checkpoint, stated by hand from their published definitions:
// config keys, tensor names as the hub and as transformers 5 spell them, and the reference's knobs.
#ifndef MOERT_TESTS_SUPPORT_DERIVED_FAMILIES_H_
#define MOERT_TESTS_SUPPORT_DERIVED_FAMILIES_H_

#include "checkpoint.h"

namespace moert::test {

// A layer that says nothing of its weights: knobs and sizes only.
using Knobs = void (*)(RefLayer* layer, int index);

struct DerivedFamily {
  std::string title;
  std::string config;
  std::string config5;  // in the keys of transformers 5; "": the same
  std::vector<int> moe_layers;
  int num_layers;
  std::string prefix;                   // with {n}
  std::string prefix5;                  // "": the same
  std::vector<PartName> names, names5;  // names5 empty: the same
  moert_dtype router_dtype;
  Knobs knobs;
};

constexpr int64_t kDerivedHidden = 24, kDerivedIntermediate = 10;

std::vector<DerivedFamily> DerivedFamilies();

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_DERIVED_FAMILIES_H_
