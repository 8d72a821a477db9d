// SPDX-License-Identifier: Apache-2.0
// Compares the generator with what Hugging Face transformers computed from the same weights.
#ifndef MOERT_EXAMPLES_GENERATE_CHECK_H_
#define MOERT_EXAMPLES_GENERATE_CHECK_H_

#include <string>

#include "transformer.h"

// Reads reference.json (a prompt and its greedy continuation) and reference.safetensors beside it
// (the prompt's logits), and prints how close we are. Returns whether the text is equal to the byte
// and the logits agree to `tolerance`, relative to their norm.
bool CheckAgainstReference(const std::string& reference_json, double tolerance,
                           Transformer* transformer);

#endif  // MOERT_EXAMPLES_GENERATE_CHECK_H_
