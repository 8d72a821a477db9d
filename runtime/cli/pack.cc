// SPDX-License-Identifier: Apache-2.0
// moert pack and moert verify: the two commands that read every byte of a checkpoint.
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/description.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

const char* NullIfEmpty(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// Keeps what the library says (such as which layers were skipped) until the progress bar is gone.
struct Notes {
  std::mutex mutex;
  std::vector<std::string> lines;

  static void Write(void* user_data, moert_log_level, const char* message) {
    auto* notes = static_cast<Notes*>(user_data);
    const std::scoped_lock lock(notes->mutex);
    notes->lines.push_back(OneLine(message));
  }
};

}  // namespace

Status RunPack(const PackOptions& options) {
  Notes notes;
  moert_log_sink log = MOERT_LOG_SINK_INIT;
  log.min_level = MOERT_LOG_LEVEL_INFO;
  log.user_data = &notes;
  log.write = Notes::Write;
  moert_runtime_desc runtime_desc = MOERT_RUNTIME_DESC_INIT;
  runtime_desc.log = &log;
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, &runtime_desc));

  moert_pack_result result = MOERT_PACK_RESULT_INIT;
  {
    Progress progress("packing");
    moert_pack_desc desc = MOERT_PACK_DESC_INIT;
    desc.directory = options.directory.c_str();
    desc.output = NullIfEmpty(options.output);
    desc.family_path = NullIfEmpty(options.family);
    desc.progress = Progress::Report;
    desc.user_data = &progress;
    Status status = Call(moert_manifest_pack, runtime.get(), &desc, &result);
    if (!status.ok() && progress.interrupted()) {
      return Status::Failure("interrupted; nothing was written");
    }
    MOERT_CLI_TRY(std::move(status));
  }
  for (const std::string& line : notes.lines) std::printf("%s\n", line.c_str());
  const std::string output = options.output.empty()
                                 ? std::filesystem::path(options.directory) / "model.moem"
                                 : std::filesystem::path(options.output);
  std::printf("%s: %u MoE layer%s (%u other%s), %llu tensor%s in %u file%s, %s\n", output.c_str(),
              result.num_layers, Plural(result.num_layers), result.num_skipped_layers,
              Plural(result.num_skipped_layers),
              static_cast<unsigned long long>(result.num_tensors), Plural(result.num_tensors),
              result.num_files, Plural(result.num_files), Bytes(result.total_bytes).c_str());
  return Status();
}

Status RunVerify(const std::string& path) {
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, nullptr));
  Manifest manifest;
  MOERT_CLI_TRY(OpenManifest(runtime.get(), path, 0, &manifest));
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest.get(), &info));
  {
    Progress progress("verifying");
    Status status = Call(moert_manifest_verify, manifest.get(), Progress::Report, &progress);
    if (!status.ok() && progress.interrupted()) {
      return Status::Failure("interrupted before every file was read");
    }
    MOERT_CLI_TRY(std::move(status));
  }
  uint32_t hashed = 0;
  for (uint32_t i = 0; i < info.num_files; ++i) {
    moert_file_info file = MOERT_FILE_INFO_INIT;
    MOERT_CLI_TRY(Call(moert_manifest_file, manifest.get(), i, &file));
    hashed += file.has_hash;
  }
  std::printf("%s: %u file%s as packed, %s, %u with a hash\n", path.c_str(), info.num_files,
              Plural(info.num_files), Bytes(info.total_bytes).c_str(), hashed);
  return Status();
}

}  // namespace moert::cli
