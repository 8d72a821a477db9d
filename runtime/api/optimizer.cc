// SPDX-License-Identifier: Apache-2.0
// Optimizers: the calls exist so that the ABI is whole; this version answers UNSUPPORTED.
#include "core/free_callback.h"
#include "core/status.h"

namespace moert {
namespace {

Status NoOptimizers() { return Unsupported("this version has no optimizers"); }

}  // namespace
}  // namespace moert

extern "C" moert_status moert_optimizer_create(const moert_device*,
                                               const moert_optimizer_desc* desc, moert_optimizer**,
                                               moert_error* error) {
  // The host's callbacks are given back, as on every failure.
  moert::FreeCallback free;
  if (desc != nullptr && desc->struct_size >= sizeof(*desc) && desc->callbacks != nullptr &&
      desc->callbacks->struct_size >= sizeof(*desc->callbacks)) {
    free = moert::FreeCallback(desc->callbacks->free_fn, desc->callbacks->user_data);
  }
  return moert::NoOptimizers().Report(error);
}

// No handle can exist.
extern "C" void moert_optimizer_retain(const moert_optimizer*) {}
extern "C" void moert_optimizer_release(const moert_optimizer*) {}

extern "C" moert_status moert_optimizer_step(moert_optimizer*, moert_stream*,
                                             const moert_parameter*, uint32_t, const moert_option*,
                                             uint32_t, moert_error* error) {
  return moert::NoOptimizers().Report(error);
}
