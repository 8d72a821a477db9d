// SPDX-License-Identifier: Apache-2.0
#include "backend/registry.h"

#include <charconv>
#include <string>

namespace moert {
namespace {

// Splits "cuda:1" into "cuda" and 1; a missing number is 0. False if what follows is no number.
bool ParseId(std::string_view id, std::string_view* kind, uint32_t* ordinal) {
  const size_t colon = id.find(':');
  *kind = id.substr(0, colon);
  *ordinal = 0;
  if (colon == std::string_view::npos) return true;
  const char* end = id.data() + id.size();
  const auto [stop, error] = std::from_chars(id.data() + colon + 1, end, *ordinal);
  return error == std::errc() && stop == end;
}

}  // namespace

Registry::Registry(const BackendContext& context)
    : context_(context), backends_(context.allocator) {
  backends_.push_back(MakeCpuBackend(context_));
  backends_.push_back(MakeCudaBackend(context_));
}

void Registry::Add(Owned<Backend> backend) { backends_.push_back(std::move(backend)); }

uint32_t Registry::NumDevices() {
  uint32_t count = 0;
  for (auto& backend : backends_) {
    Status why;
    count += backend->NumDevices(&why);
  }
  return count;
}

Status Registry::DeviceInfo(uint32_t index, moert_device_info* out) {
  uint32_t ordinal = index;
  for (auto& backend : backends_) {
    Status why;
    const uint32_t count = backend->NumDevices(&why);
    if (ordinal < count) return backend->DeviceInfo(ordinal, out);
    ordinal -= count;
  }
  return InvalidArgument("device index %u is not below the number of devices %u", index,
                         NumDevices());
}

Status Registry::OpenDevice(std::string_view id, const DeviceOptions& options,
                            Owned<BackendDevice>* out) {
  if (id == "best") return OpenBest(options, out);
  std::string_view kind;
  uint32_t ordinal;
  if (ParseId(id, &kind, &ordinal)) {
    for (auto& backend : backends_) {
      if (kind != backend->name()) continue;
      Status why;
      const uint32_t count = backend->NumDevices(&why);
      if (!why.ok()) {
        return Status::Make(why.code(), why.native_code(), "device \"%.*s\": %s",
                            static_cast<int>(id.size()), id.data(), why.message());
      }
      if (ordinal < count) return backend->OpenDevice(ordinal, options, out);
      return Unavailable("device \"%.*s\": there are %u %s devices", static_cast<int>(id.size()),
                         id.data(), count, backend->name());
    }
  }
  std::string known;
  for (auto& backend : backends_) known.append(backend->name()).append(", ");
  return InvalidArgument("device \"%.*s\" is unknown; %sbest are accepted, with :N for the N-th",
                         static_cast<int>(id.size()), id.data(), known.c_str());
}

Status Registry::OpenBest(const DeviceOptions& options, Owned<BackendDevice>* out) {
  for (size_t i = 1; i < backends_.size(); ++i) {
    Status why;
    const uint32_t count = backends_[i]->NumDevices(&why);
    for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
      Status status = backends_[i]->OpenDevice(ordinal, options, out);
      if (status.ok()) return status;
      context_.log->Log(MOERT_LOG_LEVEL_INFO, "%s:%u is passed over: %s", backends_[i]->name(),
                        ordinal, status.message());
    }
  }
  return backends_[0]->OpenDevice(0, options, out);
}

}  // namespace moert
