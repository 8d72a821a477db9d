// SPDX-License-Identifier: Apache-2.0
#include "manifest/manifest.h"

#include "api/handles.h"
#include "api/shell.h"

extern "C" moert_status moert_manifest_pack(const moert_runtime* runtime,
                                            const moert_pack_desc* desc, moert_pack_result* result,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("moert_pack_desc", desc));
    moert_pack_desc full;
    moert::Status read = moert::ReadCallerStruct("moert_pack_desc", *desc, &full);
    const moert::FreeCallback free(full.free_fn, full.user_data);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("runtime", runtime));
    if (result != nullptr) {
      MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("moert_pack_result", result));
    }
    constexpr uint32_t kFlags = MOERT_PACK_FLAG_SKIP_HASHES | MOERT_PACK_FLAG_ALLOW_HOLES;
    if ((full.flags & ~kFlags) != 0) {
      return moert::InvalidArgument("moert_pack_desc.flags 0x%x has unknown bits; known are 0x%x",
                                    full.flags, kFlags);
    }
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("moert_pack_desc.directory", full.directory));
    moert_pack_result packed = MOERT_PACK_RESULT_INIT;
    MOERT_RETURN_IF_ERROR(moert::PackCheckpoint(runtime->allocator, runtime->log, full, &packed));
    if (result != nullptr) moert::WriteCallerStruct(packed, result);
    return {};
  });
}

extern "C" const char* moert_family_names(void) { return moert::FamilyNames(); }

extern "C" moert_status moert_manifest_open(const moert_runtime* runtime,
                                            const moert_manifest_desc* desc, moert_manifest** out,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("moert_manifest_desc", desc));
    moert_manifest_desc full;
    moert::Status read = moert::ReadCallerStruct("moert_manifest_desc", *desc, &full);
    moert_file_source files = MOERT_FILE_SOURCE_INIT;
    moert::Status read_files = moert::ReadOptionalStruct("moert_file_source", full.files, &files);
    moert::FreeCallback free(files.free_fn, files.user_data);
    MOERT_RETURN_IF_ERROR(std::move(read));
    MOERT_RETURN_IF_ERROR(std::move(read_files));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("runtime", runtime));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    constexpr uint32_t kFlags = MOERT_MANIFEST_FLAG_FORBID_SYMLINKS | MOERT_MANIFEST_FLAG_READ |
                                MOERT_MANIFEST_FLAG_PACKED_DIRECTORY;
    if ((full.flags & ~kFlags) != 0) {
      return moert::InvalidArgument(
          "moert_manifest_desc.flags 0x%x has unknown bits; known are 0x%x", full.flags, kFlags);
    }
    if (full.files != nullptr) {
      if (files.open == nullptr || files.read == nullptr || files.close == nullptr) {
        return moert::InvalidArgument("moert_file_source needs open, read and close; one is NULL");
      }
      if (files.reserved != 0) {
        return moert::InvalidArgument("moert_file_source.reserved is %u; it must be 0",
                                      files.reserved);
      }
      full.files = &files;
    }
    if ((full.path == nullptr) == (full.data == nullptr)) {
      return moert::InvalidArgument("%s of path and data are given; exactly one must be",
                                    full.path == nullptr ? "none" : "both");
    }
    auto manifest =
        moert::Ref<moert_manifest>::Adopt(moert::MakeHandle<moert_manifest>(runtime->allocator));
    manifest->runtime = moert::Ref<const moert_runtime>::Retain(runtime);
    manifest->files_free = std::move(free);
    MOERT_RETURN_IF_ERROR(
        moert::Manifest::Open(runtime->allocator, runtime->log, full, &manifest->manifest));
    *out = manifest.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(manifest)

extern "C" moert_status moert_manifest_verify(const moert_manifest* manifest,
                                              moert_progress_fn progress, void* user_data,
                                              moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    return manifest->manifest->Verify(progress, user_data);
  });
}

namespace {

// Fills a struct of the caller through `query`, a callable on the manifest and the full struct.
template <class T, class Query>
moert_status Fill(const moert_manifest* manifest, const char* name, T* out, moert_error* error,
                  const Query& query) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct(name, out));
    T full{};
    full.struct_size = sizeof(T);
    MOERT_RETURN_IF_ERROR(query(*manifest->manifest, &full));
    moert::WriteCallerStruct(full, out);
    return {};
  });
}

}  // namespace

extern "C" moert_status moert_manifest_get_info(const moert_manifest* manifest,
                                                moert_manifest_info* out, moert_error* error) {
  return Fill(manifest, "moert_manifest_info", out, error, [](const auto& m, auto* full) {
    m.Info(full);
    return moert::Status();
  });
}

extern "C" moert_status moert_manifest_file(const moert_manifest* manifest, uint32_t index,
                                            moert_file_info* out, moert_error* error) {
  return Fill(manifest, "moert_file_info", out, error,
              [&](const auto& m, auto* full) { return m.File(index, full); });
}

extern "C" moert_status moert_manifest_tensor(const moert_manifest* manifest, uint64_t index,
                                              moert_tensor_info* out, moert_error* error) {
  return Fill(manifest, "moert_tensor_info", out, error,
              [&](const auto& m, auto* full) { return m.Tensor(index, full); });
}

extern "C" moert_status moert_manifest_find_tensor(const moert_manifest* manifest, const char* name,
                                                   uint64_t* out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("name", name));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    return manifest->manifest->FindTensor(name, out);
  });
}

extern "C" moert_status moert_manifest_tensor_data(const moert_manifest* manifest, uint64_t index,
                                                   const void** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    return manifest->manifest->TensorData(index, out);
  });
}

extern "C" moert_status moert_manifest_layer(const moert_manifest* manifest, uint32_t index,
                                             moert_layer_info* out, moert_error* error) {
  return Fill(manifest, "moert_layer_info", out, error,
              [&](const auto& m, auto* full) { return m.LayerInfo(index, full); });
}

extern "C" moert_status moert_manifest_find_layer(const moert_manifest* manifest,
                                                  int32_t model_layer, uint32_t* out,
                                                  moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    return manifest->manifest->FindLayer(model_layer, out);
  });
}

extern "C" moert_status moert_manifest_layer_routing(const moert_manifest* manifest, uint32_t index,
                                                     moert_routing* out, moert_error* error) {
  return Fill(manifest, "moert_routing", out, error,
              [&](const auto& m, auto* full) { return m.LayerRouting(index, full); });
}

extern "C" moert_status moert_manifest_layer_activation(const moert_manifest* manifest,
                                                        uint32_t index, moert_activation* experts,
                                                        moert_activation* shared,
                                                        moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("manifest", manifest));
    if (experts != nullptr) {
      MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("experts", experts));
    }
    if (shared != nullptr) MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("shared", shared));
    moert_activation full_experts = MOERT_ACTIVATION_INIT;
    moert_activation full_shared = MOERT_ACTIVATION_INIT;
    MOERT_RETURN_IF_ERROR(manifest->manifest->LayerActivation(index, &full_experts, &full_shared));
    if (experts != nullptr) moert::WriteCallerStruct(full_experts, experts);
    if (shared != nullptr) moert::WriteCallerStruct(full_shared, shared);
    return {};
  });
}

extern "C" moert_status moert_manifest_layer_weight(const moert_manifest* manifest, uint32_t index,
                                                    uint32_t weight_index, moert_weight_info* out,
                                                    moert_error* error) {
  return Fill(manifest, "moert_weight_info", out, error,
              [&](const auto& m, auto* full) { return m.LayerWeight(index, weight_index, full); });
}
