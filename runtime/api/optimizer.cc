// SPDX-License-Identifier: Apache-2.0
// Optimizers: the calls exist so that the ABI is whole; this version answers UNSUPPORTED.
#include "api/shell.h"
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
  return moert::Call(error, [&]() -> moert::Status {
    moert_optimizer_desc full;
    moert::Status read = moert::ReadOptionalStruct("moert_optimizer_desc", desc, &full);
    moert_optimizer_callbacks callbacks;
    moert::Status read_callbacks =
        moert::ReadOptionalStruct("moert_optimizer_callbacks", full.callbacks, &callbacks);
    // The host's callbacks are given back, as on every failure.
    const moert::FreeCallback free(callbacks.free_fn, callbacks.user_data);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(std::move(read_callbacks));
    return moert::NoOptimizers();
  });
}

// No handle can exist.
extern "C" void moert_optimizer_retain(const moert_optimizer*) {}
extern "C" void moert_optimizer_release(const moert_optimizer*) {}

extern "C" moert_status moert_optimizer_step(moert_optimizer*, moert_stream*,
                                             const moert_parameter*, uint32_t, const moert_option*,
                                             uint32_t, moert_error* error) {
  return moert::NoOptimizers().Report(error);
}
