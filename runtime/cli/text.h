// SPDX-License-Identifier: Apache-2.0
// Text in and out of the command: numbers and names parsed with errors that say what is accepted,
// enum values and sizes as a reader knows them.
#ifndef MOERT_CLI_TEXT_H_
#define MOERT_CLI_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

// Control characters become \xNN, so that text from files and arguments stays on one line.
std::string OneLine(std::string_view text);

// "6.1 MiB".
std::string Bytes(uint64_t bytes);

// "s" unless there is one.
const char* Plural(uint64_t count);

std::vector<std::string> Split(std::string_view text, char separator);

// `what` names the value in errors.
Status ParseInteger(std::string_view what, std::string_view text, int64_t min, int64_t max,
                    int64_t* out);
// "1,64,4096".
Status ParseIntegers(std::string_view what, std::string_view text, int64_t min, int64_t max,
                     std::vector<int64_t>* out);
// f32, bf16 or f16.
Status ParseComputeDtype(std::string_view what, std::string_view text, moert_dtype* out);
// The name that ParseComputeDtype takes.
const char* ComputeDtypeName(moert_dtype dtype);

// Names of enum values as inspect prints them; "?" if unknown.
const char* RoleName(moert_role role);
const char* ScoreName(moert_score score);
const char* RenormalizeName(moert_renormalize renormalize);
const char* GroupScoreName(moert_group_score score);
const char* ActivationName(moert_activation_kind kind);
const char* OrientationName(moert_orientation orientation);
const char* PackingName(moert_packing packing);
const char* QuantSchemeName(moert_quant_scheme scheme);
const char* WeightApplicationName(moert_weight_application application);
const char* DeviceKindName(moert_device_kind kind);

// A weight of this role has one matrix for each expert.
bool IsExpertRole(moert_role role);
// A weight of this role holds gate and up together.
bool IsGateUpRole(moert_role role);

}  // namespace moert::cli

#endif  // MOERT_CLI_TEXT_H_
