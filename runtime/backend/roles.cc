// SPDX-License-Identifier: Apache-2.0
#include "backend/roles.h"

#include <initializer_list>

namespace moert {
namespace {

using enum Width;

constexpr Role kRoles[] = {
    {MOERT_ROLE_ROUTER, "ROUTER", RoleGroup::kRouter, false, false, false, kExperts, kHidden},
    {MOERT_ROLE_ROUTER_BIAS, "ROUTER_BIAS", RoleGroup::kRouter, false, true, false, kOne, kExperts},
    {MOERT_ROLE_SELECTION_BIAS, "SELECTION_BIAS", RoleGroup::kRouter, false, true, false, kOne,
     kExperts},
    {MOERT_ROLE_ROUTER_INPUT_SCALE, "ROUTER_INPUT_SCALE", RoleGroup::kRouter, false, true, false,
     kOne, kHidden},
    {MOERT_ROLE_EXPERT_SCALE, "EXPERT_SCALE", RoleGroup::kRouter, false, true, false, kOne,
     kExperts},
    {MOERT_ROLE_EXPERT_GATE, "EXPERT_GATE", RoleGroup::kExpert, true, false, true, kIntermediate,
     kExpertWidth},
    {MOERT_ROLE_EXPERT_UP, "EXPERT_UP", RoleGroup::kExpert, true, false, true, kIntermediate,
     kExpertWidth},
    {MOERT_ROLE_EXPERT_GATE_UP, "EXPERT_GATE_UP", RoleGroup::kExpert, true, false, true,
     kTwoIntermediate, kExpertWidth},
    {MOERT_ROLE_EXPERT_DOWN, "EXPERT_DOWN", RoleGroup::kExpert, true, false, true, kExpertWidth,
     kIntermediate},
    {MOERT_ROLE_EXPERT_GATE_BIAS, "EXPERT_GATE_BIAS", RoleGroup::kExpert, true, true, false, kOne,
     kIntermediate},
    {MOERT_ROLE_EXPERT_UP_BIAS, "EXPERT_UP_BIAS", RoleGroup::kExpert, true, true, false, kOne,
     kIntermediate},
    {MOERT_ROLE_EXPERT_GATE_UP_BIAS, "EXPERT_GATE_UP_BIAS", RoleGroup::kExpert, true, true, false,
     kOne, kTwoIntermediate},
    {MOERT_ROLE_EXPERT_DOWN_BIAS, "EXPERT_DOWN_BIAS", RoleGroup::kExpert, true, true, false, kOne,
     kExpertWidth},
    {MOERT_ROLE_LATENT_IN, "LATENT_IN", RoleGroup::kLatent, false, false, true, kLatent, kHidden},
    {MOERT_ROLE_LATENT_OUT, "LATENT_OUT", RoleGroup::kLatent, false, false, true, kHidden, kLatent},
    {MOERT_ROLE_SHARED_GATE, "SHARED_GATE", RoleGroup::kShared, false, false, true, kShared,
     kHidden},
    {MOERT_ROLE_SHARED_UP, "SHARED_UP", RoleGroup::kShared, false, false, true, kShared, kHidden},
    {MOERT_ROLE_SHARED_GATE_UP, "SHARED_GATE_UP", RoleGroup::kShared, false, false, true,
     kTwoShared, kHidden},
    {MOERT_ROLE_SHARED_DOWN, "SHARED_DOWN", RoleGroup::kShared, false, false, true, kHidden,
     kShared},
    {MOERT_ROLE_SHARED_EXPERT_GATE, "SHARED_EXPERT_GATE", RoleGroup::kShared, false, true, false,
     kOne, kHidden},
};
static_assert(sizeof(kRoles) / sizeof(kRoles[0]) == kNumRoles - 1);

// Gate and up of an expert: one packed tensor, or one or two of their own.
RoleOffence CheckGateUp(const bool (&given)[kNumRoles], moert_role gate, moert_role up,
                        moert_role gate_up, bool gated) {
  if (!gated) {
    if (given[gate]) return {gate, "is given, but the activation is ungated"};
    if (given[gate_up]) return {gate_up, "is given, but the activation is ungated"};
    return given[up] ? RoleOffence{} : RoleOffence{up, "is missing"};
  }
  if (given[gate_up]) {
    if (given[gate]) return {gate, "is given beside the packed gate and up"};
    if (given[up]) return {up, "is given beside the packed gate and up"};
    return {};
  }
  if (!given[gate]) return {gate, "is missing"};
  return given[up] ? RoleOffence{} : RoleOffence{up, "is missing"};
}

RoleOffence CheckBiases(const bool (&given)[kNumRoles], bool gated) {
  if (given[MOERT_ROLE_EXPERT_GATE_UP_BIAS]) {
    if (!gated) return {MOERT_ROLE_EXPERT_GATE_UP_BIAS, "is given, but the activation is ungated"};
    if (given[MOERT_ROLE_EXPERT_GATE_BIAS]) {
      return {MOERT_ROLE_EXPERT_GATE_BIAS, "is given beside the packed biases"};
    }
    if (given[MOERT_ROLE_EXPERT_UP_BIAS]) {
      return {MOERT_ROLE_EXPERT_UP_BIAS, "is given beside the packed biases"};
    }
  }
  if (!gated && given[MOERT_ROLE_EXPERT_GATE_BIAS]) {
    return {MOERT_ROLE_EXPERT_GATE_BIAS, "is given, but the activation is ungated"};
  }
  return {};
}

}  // namespace

int64_t Widths::Get(Width width) const {
  switch (width) {
    case kOne:
      return 1;
    case kExperts:
      return experts;
    case kHidden:
      return hidden;
    case kIntermediate:
      return intermediate;
    case kTwoIntermediate:
      return 2 * intermediate;
    case kExpertWidth:
      return latent != 0 ? latent : hidden;
    case kLatent:
      return latent;
    case kShared:
      return shared;
    case kTwoShared:
      return 2 * shared;
  }
  return 0;
}

const Role* FindRole(moert_role role) {
  if (role <= MOERT_ROLE_NONE || role >= kNumRoles) return nullptr;
  return &kRoles[role - 1];
}

const char* RoleName(moert_role role) {
  const Role* found = FindRole(role);
  return found != nullptr ? found->name : "?";
}

RoleOffence CheckRoles(const bool (&given)[kNumRoles], bool gated, bool has_latent, bool has_shared,
                       bool shared_gated) {
  RoleOffence offence = CheckGateUp(given, MOERT_ROLE_EXPERT_GATE, MOERT_ROLE_EXPERT_UP,
                                    MOERT_ROLE_EXPERT_GATE_UP, gated);
  if (offence.what != nullptr) return offence;
  if (!given[MOERT_ROLE_EXPERT_DOWN]) return {MOERT_ROLE_EXPERT_DOWN, "is missing"};
  offence = CheckBiases(given, gated);
  if (offence.what != nullptr) return offence;
  for (const moert_role role : {MOERT_ROLE_LATENT_IN, MOERT_ROLE_LATENT_OUT}) {
    if (given[role] && !has_latent) return {role, "is given, but latent is 0"};
    if (!given[role] && has_latent) return {role, "is missing"};
  }
  if (has_shared) {
    offence = CheckGateUp(given, MOERT_ROLE_SHARED_GATE, MOERT_ROLE_SHARED_UP,
                          MOERT_ROLE_SHARED_GATE_UP, shared_gated);
    if (offence.what != nullptr) return offence;
    if (!given[MOERT_ROLE_SHARED_DOWN]) return {MOERT_ROLE_SHARED_DOWN, "is missing"};
  } else {
    for (const Role& role : kRoles) {
      if (role.group == RoleGroup::kShared && given[role.role]) {
        return {role.role, "is given, but shared_intermediate is 0"};
      }
    }
  }
  if (!given[MOERT_ROLE_ROUTER]) {
    for (const Role& role : kRoles) {
      if (role.group == RoleGroup::kRouter && given[role.role]) {
        return {role.role, "is given without ROUTER"};
      }
    }
  }
  return {};
}

}  // namespace moert
