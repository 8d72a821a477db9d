// SPDX-License-Identifier: Apache-2.0
// moert_manifest_pack: reads a Hugging Face checkpoint's config, index and safetensors headers,
// plans its layers by the family, hashes the files and writes the manifest.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "manifest/check.h"
#include "manifest/family.h"
#include "manifest/files.h"
#include "manifest/hash.h"
#include "manifest/manifest.h"
#include "manifest/plan.h"
#include "manifest/safetensors.h"
#include "manifest_generated.h"

namespace moert {
namespace {

// Far above any config or index there is.
constexpr uint64_t kMaxJson = uint64_t{256} << 20;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

struct Shard {
  std::string name;  // relative to the checkpoint's folder
  Owned<File> file;
};

struct Checkpoint {
  Json config;
  Family family;
  std::string model_type;
  std::vector<Shard> shards;
  TensorTable table;
};

Status ReadText(Allocator& allocator, const FileSystem& files, const char* name, Buffer* out,
                std::string_view* text) {
  Owned<File> file;
  MOERT_RETURN_IF_ERROR(files.Open(name, &file));
  MOERT_RETURN_IF_ERROR(ReadAll(allocator, *file, name, kMaxJson, out));
  *text = std::string_view(static_cast<const char*>(out->data()), out->size());
  return Status();
}

Status ReadConfig(Allocator& allocator, const FileSystem& files, Json* out) {
  Buffer buffer;
  std::string_view text;
  MOERT_RETURN_IF_ERROR(ReadText(allocator, files, "config.json", &buffer, &text));
  if (NestsTooDeep(text)) {
    return CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "config.json: nested too deep");
  }
  try {
    *out = Json::parse(text);
  } catch (const Json::exception& error) {
    return CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "config.json: not valid JSON: %s",
                       error.what());
  }
  if (out->is_object()) return Status();
  return CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "config.json: not an object");
}

// The model's own type, then that of its language model.
Status ModelTypes(const Json& config, std::vector<std::string>* out) {
  for (const char* root : {"", "text_config", "llm_config", "language_config"}) {
    const Json* object = *root == '\0' ? &config : config.contains(root) ? &config[root] : nullptr;
    if (object == nullptr || !object->is_object() || !object->contains("model_type")) continue;
    const Json& type = (*object)["model_type"];
    if (type.is_string()) out->push_back(type.get<std::string>());
  }
  if (!out->empty()) return Status();
  return CorruptData(MOERT_CORRUPTION_FIELD, "config.json: model_type is missing or not a string");
}

Status ReadFamily(Allocator& allocator, const moert_pack_desc& desc, Checkpoint* out) {
  std::vector<std::string> types;
  Status status = ModelTypes(out->config, &types);
  if (desc.family_path == nullptr) {
    MOERT_RETURN_IF_ERROR(std::move(status));
    return FindBuiltInFamily(types, &out->family, &out->model_type);
  }
  Buffer buffer;
  std::string_view text;
  MOERT_RETURN_IF_ERROR(
      ReadText(allocator, DiskFiles(allocator, "", false), desc.family_path, &buffer, &text));
  MOERT_RETURN_IF_ERROR(ParseFamily(text, desc.family_path, &out->family));
  out->model_type = types.empty() ? out->family.name : types[0];
  return Status();
}

// The checkpoint's shards: one file, or those that the index names.
Status FindShards(Allocator& allocator, const FileSystem& files, Checkpoint* out,
                  std::vector<ShardEntry>* index) {
  Shard single{kSingleFile, nullptr};
  Status status = files.Open(single.name, &single.file);
  if (status.ok()) {
    out->shards.push_back(std::move(single));
    return Status();
  }
  if (status.code() != MOERT_STATUS_NOT_FOUND) return status;
  Buffer buffer;
  std::string_view text;
  status = ReadText(allocator, files, kIndexFile, &buffer, &text);
  if (status.code() == MOERT_STATUS_NOT_FOUND) {
    return NotFound("neither %s nor %s is in the folder", kSingleFile, kIndexFile);
  }
  MOERT_RETURN_IF_ERROR(std::move(status));
  MOERT_RETURN_IF_ERROR(ParseShardIndex(kIndexFile, text, index));
  std::vector<std::string> names;
  for (const ShardEntry& entry : *index) names.push_back(entry.shard);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (std::string& name : names) {
    MOERT_RETURN_IF_ERROR(CheckRelativePath("model.safetensors.index.json: shard", name));
    Shard shard{std::move(name), nullptr};
    status = files.Open(shard.name, &shard.file);
    if (status.code() == MOERT_STATUS_NOT_FOUND) {
      return NotFound("the index names the shard '%s', which is not in the folder",
                      shard.name.c_str());
    }
    MOERT_RETURN_IF_ERROR(std::move(status));
    out->shards.push_back(std::move(shard));
  }
  return Status();
}

// Each tensor of the index must be in the shard that it names.
Status CheckIndex(const std::vector<ShardEntry>& index, const Checkpoint& checkpoint) {
  for (const ShardEntry& entry : index) {
    const std::optional<uint32_t> found = checkpoint.table.Find(entry.tensor);
    const char* shard =
        found.has_value() ? checkpoint.shards[checkpoint.table.tensors()[*found].file].name.c_str()
                          : nullptr;
    if (shard != nullptr && entry.shard == shard) continue;
    return NotFound("the index says that tensor '%s' is in '%s'; it is %s%s", entry.tensor.c_str(),
                    entry.shard.c_str(), shard != nullptr ? "in " : "not in any shard",
                    shard != nullptr ? shard : "");
  }
  return Status();
}

Status ReadTensors(Allocator& allocator, const FileSystem& files, bool allow_holes,
                   Checkpoint* out) {
  std::vector<ShardEntry> index;
  MOERT_RETURN_IF_ERROR(FindShards(allocator, files, out, &index));
  std::vector<CheckpointTensor> tensors;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < out->shards.size(); ++i) {
    const Shard& shard = out->shards[i];
    std::vector<SafetensorsTensor> header;
    MOERT_RETURN_IF_ERROR(
        ReadSafetensorsHeader(shard.name.c_str(), *shard.file, allow_holes, &header));
    for (SafetensorsTensor& tensor : header) tensors.push_back({std::move(tensor), i});
    names.push_back(shard.name);
  }
  uint64_t described = 0;
  for (const CheckpointTensor& entry : tensors) {
    described += entry.tensor.name.size() + entry.tensor.shape.size() * sizeof(int64_t) + 128;
  }
  if (described > kMaxManifestBytes / 2) {
    return Unsupported("%zu tensors do not fit a manifest of %llu bytes", tensors.size(),
                       static_cast<unsigned long long>(kMaxManifestBytes));
  }
  MOERT_RETURN_IF_ERROR(out->table.Build(std::move(tensors), names));
  return CheckIndex(index, *out);
}

// Writes the tables of a manifest.
class Builder {
 public:
  flatbuffers::FlatBufferBuilder& buffer() { return b_; }

  void Build(const Checkpoint& checkpoint, const Plan& plan, std::span<const FileHash> hashes,
             const std::string& path_prefix, const std::string& packed_directory) {
    std::vector<flatbuffers::Offset<schema::File>> files;
    for (size_t i = 0; i < checkpoint.shards.size(); ++i) {
      const auto path = b_.CreateString(path_prefix + checkpoint.shards[i].name);
      const uint64_t bytes = checkpoint.shards[i].file->size();
      if (hashes.empty()) {
        files.push_back(schema::CreateFile(b_, path, bytes));
      } else {
        const schema::Hash hash(hashes[i].hash[0], hashes[i].hash[1]);
        files.push_back(schema::CreateFile(b_, path, bytes, &hash));
      }
    }
    std::vector<flatbuffers::Offset<schema::Tensor>> tensors;
    tensors.reserve(checkpoint.table.tensors().size());
    for (const CheckpointTensor& entry : checkpoint.table.tensors()) {
      const SafetensorsTensor& tensor = entry.tensor;
      const auto name = b_.CreateString(tensor.name);
      const auto shape = b_.CreateVector(tensor.shape);
      tensors.push_back(schema::CreateTensor(b_, name, entry.file,
                                             static_cast<schema::Dtype>(tensor.dtype),
                                             tensor.offset, tensor.bytes, shape));
    }
    std::vector<flatbuffers::Offset<schema::Layer>> layers;
    for (const PlannedLayer& layer : plan.layers) layers.push_back(AddLayer(layer));
    const auto family = b_.CreateString(checkpoint.family.name);
    const auto model_type = b_.CreateString(checkpoint.model_type);
    const auto files_offset = b_.CreateVector(files);
    const auto tensors_offset = b_.CreateVector(tensors);
    const auto layers_offset = b_.CreateVector(layers);
    flatbuffers::Offset<flatbuffers::String> directory;
    if (!packed_directory.empty()) directory = b_.CreateString(packed_directory);
    schema::FinishManifestBuffer(
        b_, schema::CreateManifest(b_, 0, family, model_type, files_offset, tensors_offset,
                                   layers_offset, directory));
  }

 private:
  flatbuffers::Offset<schema::Layer> AddLayer(const PlannedLayer& layer) {
    const moert_routing& r = layer.routing;
    const auto routing = schema::CreateRouting(
        b_, r.num_experts, r.top_k, static_cast<schema::Score>(r.score),
        static_cast<schema::Renormalize>(r.renormalize), r.renormalize_value,
        r.routed_scaling_factor, r.logit_soft_cap, r.sparsemixer_epsilon, r.num_groups,
        r.top_k_groups, static_cast<schema::GroupScore>(r.group_score),
        (r.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0, r.input_rms_epsilon,
        r.input_multiplier);
    const auto activation = AddActivation(layer.activation);
    flatbuffers::Offset<schema::Activation> shared;
    if (layer.widths.shared != 0) shared = AddActivation(layer.shared_activation);
    std::vector<flatbuffers::Offset<schema::Weight>> weights;
    for (const PlannedWeight& weight : layer.weights) weights.push_back(AddWeight(weight));
    const auto weights_offset = b_.CreateVector(weights);
    return schema::CreateLayer(b_, layer.model_layer, layer.widths.hidden,
                               layer.widths.intermediate, layer.widths.latent, layer.widths.shared,
                               static_cast<schema::WeightApplication>(layer.weight_application),
                               routing, activation, shared, weights_offset);
  }

  flatbuffers::Offset<schema::Activation> AddActivation(const moert_activation& activation) {
    return schema::CreateActivation(b_, static_cast<schema::ActivationKind>(activation.kind),
                                    (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) != 0,
                                    activation.alpha, activation.limit, activation.up_offset);
  }

  flatbuffers::Offset<schema::Weight> AddWeight(const PlannedWeight& weight) {
    const auto tensors = b_.CreateVector(weight.tensors);
    flatbuffers::Offset<schema::Quant> quant;
    if (weight.quant.has_value()) {
      const PlannedQuant& q = *weight.quant;
      const auto scales = b_.CreateVector(q.scales);
      flatbuffers::Offset<flatbuffers::Vector<uint32_t>> zero_points;
      if (!q.zero_points.empty()) zero_points = b_.CreateVector(q.zero_points);
      quant = schema::CreateQuant(b_, q.scheme, static_cast<uint32_t>(q.block_rows),
                                  static_cast<uint32_t>(q.block_cols), q.storage_elements,
                                  q.storage_bytes, q.packing, q.zero_point, scales, zero_points);
    }
    return schema::CreateWeight(
        b_, static_cast<schema::Role>(weight.role), static_cast<schema::Dtype>(weight.dtype),
        static_cast<schema::Orientation>(weight.orientation),
        static_cast<schema::Packing>(weight.packing), weight.rows, weight.cols, tensors, quant);
  }

  flatbuffers::FlatBufferBuilder b_{size_t{1} << 20};
};

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(
      realpath(path.empty() ? "." : path.c_str(), nullptr), &free);
  return real != nullptr ? std::string(real.get()) : std::string();
}

// How files of `directory` are named from a manifest in `folder`: a prefix if the folder is the
// checkpoint's or above it, else the checkpoint's own absolute path beside it.
void PlacePaths(const std::string& directory, const std::string& folder, std::string* prefix,
                std::string* packed_directory) {
  const std::string from = RealPath(folder), to = RealPath(directory);
  const std::string below = from == "/" ? from : from + "/";
  if (to == from) return;
  if (!from.empty() && to.starts_with(below)) {
    *prefix = to.substr(below.size()) + "/";
  } else {
    *packed_directory = to;
  }
}

Status CheckDirectory(const char* directory) {
  struct stat info;
  if (stat(directory, &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return NotFound("no folder '%s'", directory);
    return IoError(error, "cannot open '%s': error %d", directory, error);
  }
  return S_ISDIR(info.st_mode) ? Status() : InvalidArgument("'%s' is not a folder", directory);
}

Status CheckDesc(const moert_pack_desc& desc) {
  constexpr uint32_t kFlags = MOERT_PACK_FLAG_SKIP_HASHES | MOERT_PACK_FLAG_ALLOW_HOLES;
  if ((desc.flags & ~kFlags) != 0) {
    return InvalidArgument("flags 0x%x; known are 0x%x", desc.flags, kFlags);
  }
  if (desc.directory == nullptr) return InvalidArgument("directory is NULL");
  return CheckDirectory(desc.directory);
}

// The output can be written, and must not replace what the checkpoint is read from, by whatever
// name.
Status CheckOutput(const std::string& output, const std::string& directory,
                   const moert_pack_desc& desc, const std::vector<Shard>& shards) {
  std::vector<std::string> inputs = {JoinPath(directory, "config.json"),
                                     JoinPath(directory, kIndexFile)};
  for (const Shard& shard : shards) inputs.push_back(JoinPath(directory, shard.name));
  if (desc.family_path != nullptr) inputs.emplace_back(desc.family_path);
  struct stat written, read;
  if (stat(output.c_str(), &written) != 0) {
    const std::string folder = ParentPath(output);
    const Status status = CheckDirectory(folder.empty() ? "." : folder.c_str());
    if (status.ok()) return Status();
    return Status::Make(status.code(), status.native_code(), "output '%s': %s", output.c_str(),
                        status.message());
  }
  if (!S_ISREG(written.st_mode)) {
    return InvalidArgument("output '%s' exists and is not a regular file", output.c_str());
  }
  for (const std::string& input : inputs) {
    if (stat(input.c_str(), &read) != 0) continue;
    if (read.st_dev != written.st_dev || read.st_ino != written.st_ino) continue;
    return InvalidArgument("output '%s' is '%s', which the checkpoint is read from", output.c_str(),
                           input.c_str());
  }
  return Status();
}

Status HashShards(const Checkpoint& checkpoint, const moert_pack_desc& desc,
                  std::vector<FileHash>* out) {
  for (const Shard& shard : checkpoint.shards) out->push_back({shard.file.get(), {0, 0}});
  return HashFiles(*out, desc.progress, desc.user_data);
}

}  // namespace

Status PackCheckpoint(Allocator& allocator, const Logger& log, const moert_pack_desc& desc,
                      moert_pack_result* result) {
  MOERT_RETURN_IF_ERROR(CheckDesc(desc));
  const std::string directory = desc.directory;
  const std::string output =
      desc.output != nullptr ? desc.output : JoinPath(directory, "model.moem");
  const DiskFiles files(allocator, directory, false);

  Checkpoint checkpoint;
  MOERT_RETURN_IF_ERROR(ReadConfig(allocator, files, &checkpoint.config));
  MOERT_RETURN_IF_ERROR(ReadFamily(allocator, desc, &checkpoint));
  const bool allow_holes = (desc.flags & MOERT_PACK_FLAG_ALLOW_HOLES) != 0;
  MOERT_RETURN_IF_ERROR(ReadTensors(allocator, files, allow_holes, &checkpoint));
  MOERT_RETURN_IF_ERROR(CheckOutput(output, directory, desc, checkpoint.shards));
  Plan plan;
  MOERT_RETURN_IF_ERROR(
      PlanLayers(checkpoint.family, checkpoint.config, checkpoint.table, log, &plan));
  std::string prefix, packed_directory;
  PlacePaths(directory, ParentPath(output), &prefix, &packed_directory);

  // What a reader would refuse is refused here, before the long part.
  Builder draft;
  const schema::Manifest* checked = nullptr;
  draft.Build(checkpoint, plan, {}, prefix, packed_directory);
  MOERT_RETURN_IF_ERROR(
      CheckManifest(draft.buffer().GetBufferPointer(), draft.buffer().GetSize(), &checked));
  Builder hashed;
  Builder* final_builder = &draft;
  if ((desc.flags & MOERT_PACK_FLAG_SKIP_HASHES) == 0) {
    std::vector<FileHash> hashes;
    MOERT_RETURN_IF_ERROR(HashShards(checkpoint, desc, &hashes));
    hashed.Build(checkpoint, plan, hashes, prefix, packed_directory);
    final_builder = &hashed;
  }
  const flatbuffers::FlatBufferBuilder& buffer = final_builder->buffer();
  MOERT_RETURN_IF_ERROR(WriteFileAtomically(output, buffer.GetBufferPointer(), buffer.GetSize()));

  result->num_layers = static_cast<uint32_t>(plan.layers.size());
  result->num_skipped_layers = plan.num_skipped;
  result->num_files = static_cast<uint32_t>(checkpoint.shards.size());
  result->num_tensors = checkpoint.table.tensors().size();
  result->total_bytes = 0;
  for (const Shard& shard : checkpoint.shards) result->total_bytes += shard.file->size();
  log.Log(MOERT_LOG_LEVEL_DEBUG, "wrote '%s': family %s, %u MoE layers, %u others, %llu tensors",
          output.c_str(), checkpoint.family.name.c_str(), result->num_layers, plan.num_skipped,
          static_cast<unsigned long long>(result->num_tensors));
  return Status();
}

const char* FamilyNames() { return kBuiltInFamilyNames; }

}  // namespace moert
