// SPDX-License-Identifier: Apache-2.0
// A backend for tests, device "test:0", that is as unlike a CPU as one can be without a GPU: its
// memory is at addresses that the host can neither read nor write, kernels that meet other memory
// fail, and all work is done later by a thread of its own for each stream. The arithmetic is the
// CPU backend's, on the real memory behind those addresses: what is tested is the interface and
// everything above it.
#ifndef MOERT_TESTS_SUPPORT_DELAYED_BACKEND_H_
#define MOERT_TESTS_SUPPORT_DELAYED_BACKEND_H_

#include "backend/backend.h"

namespace moert::test {

Owned<Backend> MakeDelayedBackend(const BackendContext& context);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_DELAYED_BACKEND_H_
