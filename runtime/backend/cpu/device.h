// SPDX-License-Identifier: Apache-2.0
// The CPU device: its kernels, threads and memory, and makers of what it prepares.
#ifndef MOERT_BACKEND_CPU_DEVICE_H_
#define MOERT_BACKEND_CPU_DEVICE_H_

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace moert::cpu {

// What prepared objects need of their device, which outlives them.
struct DeviceParts {
  Allocator* allocator;
  Scheduler* scheduler;
  const Kernels* kernels;
};

Status PrepareRouter(const DeviceParts& device, const RouterSpec& spec,
                     const RouterWeights& weights, WeightSource source, Owned<PreparedRouter>* out);
Status PrepareExperts(const DeviceParts& device, const LayerSpec& spec, const LayerWeights& weights,
                      WeightSource source, Owned<PreparedExperts>* out);
Status PrepareGate(const DeviceParts& device, const GateSpec& spec, Owned<PreparedGate>* out);

// Asks for large pages for a big block that was not touched yet: with small ones a tenth of a
// product's time goes to address translation. A hint, so that its failure means nothing.
void PreferLargePages(void* data, size_t size);

// The table of the highest level that this CPU and system have, or of the level that `wanted` names
// (null or empty: the highest). An unknown name or a level that is missing here is an error.
Status ChooseKernels(const char* wanted, const Kernels** out);

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_DEVICE_H_
