// SPDX-License-Identifier: Apache-2.0
// The types behind the ABI's opaque handles. Each keeps what it was made from alive.
#ifndef MOERT_API_HANDLES_H_
#define MOERT_API_HANDLES_H_

#include "backend/backend.h"
#include "backend/registry.h"
#include "core/handle.h"
#include "manifest/manifest.h"

struct moert_runtime final : moert::Handle {
  explicit moert_runtime(const moert_runtime_desc& desc);
  ~moert_runtime() override;

  moert::Allocator allocator;
  moert::Logger log;
  moert_scheduler host_scheduler;  // parallel_for null: none
  moert::Registry registry;
  // Released last, in this order of taking.
  moert_free_fn allocator_free_fn, log_free_fn;
  void *allocator_user_data, *log_user_data;
};

struct moert_device final : moert::Handle {
  moert::Ref<const moert_runtime> runtime;
  moert::Owned<moert::BackendDevice> backend;
  moert::Allocator& allocator() const { return const_cast<moert::Allocator&>(runtime->allocator); }
};

struct moert_stream final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::Owned<moert::BackendStream> backend;
};

struct moert_event final : moert::Handle {
  moert::Ref<const moert_device> device;
  moert::Owned<moert::BackendEvent> backend;
};

struct moert_manifest final : moert::Handle {
  moert::Ref<const moert_runtime> runtime;
  moert::Owned<moert::Manifest> manifest;
};

#endif  // MOERT_API_HANDLES_H_
