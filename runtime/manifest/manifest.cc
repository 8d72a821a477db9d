// SPDX-License-Identifier: Apache-2.0
#include "manifest/manifest.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "backend/roles.h"
#include "core/dtype.h"
#include "manifest/check.h"
#include "manifest/files.h"
#include "manifest/hash.h"
#include "manifest/names.h"
#include "manifest/safetensors.h"
#include "manifest_generated.h"

namespace moert {
namespace {

unsigned long long Print(uint64_t value) { return value; }

// A file of the manifest: mapped at once, or read whole on first use.
struct OpenFile {
  Owned<File> file;
  Buffer buffer;
  std::atomic<const void*> data{nullptr};
};

class OpenManifest final : public Manifest {
 public:
  explicit OpenManifest(Allocator& allocator) : allocator_(allocator), files_(&allocator) {}

  // From a path that source opens, or from desc.data.
  Status Load(const moert_manifest_desc& desc, const FileSystem& source) {
    if (desc.path != nullptr) {
      Owned<moert::File> file;
      MOERT_RETURN_IF_ERROR(source.Open(desc.path, &file));
      MOERT_RETURN_IF_ERROR(ReadAll(allocator_, *file, desc.path, kMaxManifestBytes, &bytes_));
    } else {
      if (!bytes_.Allocate(allocator_, desc.size)) {
        return OutOfMemory("no memory for a manifest of %llu bytes", Print(desc.size));
      }
      if (desc.size != 0) memcpy(bytes_.data(), desc.data, desc.size);
    }
    return CheckManifest(bytes_.data(), bytes_.size(), &root_);
  }

  const schema::Manifest& root() const { return *root_; }
  void set_source(Owned<FileSystem> source) { source_ = std::move(source); }

  // Presence and size of each file; maps it unless `read`.
  Status OpenFiles(bool read) {
    for (const schema::File* entry : *root_->files()) {
      Owned<OpenFile> open = MakeOwned<OpenFile>(allocator_);
      MOERT_RETURN_IF_ERROR(source_->Open(entry->path()->str(), &open->file));
      MOERT_RETURN_IF_ERROR(CheckFileSize(*entry, *open->file));
      if (!read) {
        const void* data = nullptr;
        MOERT_RETURN_IF_ERROR(open->file->Map(&data));
        open->data = data;
      }
      total_bytes_ += entry->bytes();
      files_.push_back(std::move(open));
    }
    return Status();
  }

  void Info(moert_manifest_info* out) const override {
    out->num_layers = root_->layers()->size();
    out->num_files = root_->files()->size();
    out->num_tensors = root_->tensors()->size();
    out->total_bytes = total_bytes_;
    out->family = root_->family()->c_str();
    out->model_type = root_->model_type()->c_str();
  }

  Status File(uint32_t index, moert_file_info* out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("file", index, root_->files()->size()));
    const schema::File& file = *root_->files()->Get(index);
    out->has_hash = file.hash() != nullptr;
    out->bytes = file.bytes();
    out->hash[0] = file.hash() != nullptr ? file.hash()->low() : 0;
    out->hash[1] = file.hash() != nullptr ? file.hash()->high() : 0;
    out->path = file.path()->c_str();
    return Status();
  }

  Status Tensor(uint64_t index, moert_tensor_info* out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("tensor", index, root_->tensors()->size()));
    const schema::Tensor& tensor = *root_->tensors()->Get(static_cast<uint32_t>(index));
    out->dtype = static_cast<moert_dtype>(tensor.dtype());
    out->file = tensor.file();
    out->rank = tensor.shape() != nullptr ? tensor.shape()->size() : 0;
    out->offset = tensor.offset();
    out->bytes = tensor.bytes();
    out->shape = tensor.shape() != nullptr ? tensor.shape()->data() : nullptr;
    out->name = tensor.name()->c_str();
    return Status();
  }

  Status FindTensor(std::string_view name, uint64_t* out) const override {
    const auto& tensors = *root_->tensors();
    uint32_t low = 0, high = tensors.size();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (tensors.Get(middle)->name()->string_view() < name) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == tensors.size() || tensors.Get(low)->name()->string_view() != name) {
      return NotFound("no tensor '%.*s' among the %u of the manifest",
                      static_cast<int>(std::min<size_t>(name.size(), 400)), name.data(),
                      tensors.size());
    }
    *out = low;
    return Status();
  }

  Status TensorData(uint64_t index, const void** out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("tensor", index, root_->tensors()->size()));
    const schema::Tensor& tensor = *root_->tensors()->Get(static_cast<uint32_t>(index));
    const void* data = nullptr;
    MOERT_RETURN_IF_ERROR(FileData(tensor.file(), &data));
    *out = static_cast<const char*>(data) + tensor.offset();
    return Status();
  }

  Status LayerInfo(uint32_t index, moert_layer_info* out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("layer", index, root_->layers()->size()));
    const schema::Layer& layer = *root_->layers()->Get(index);
    out->model_layer = layer.model_layer();
    out->dtype = WidestDtype(layer);
    out->weight_application = static_cast<moert_weight_application>(layer.weight_application());
    out->hidden = layer.hidden();
    out->intermediate = layer.intermediate();
    out->latent = layer.latent();
    out->shared_intermediate = layer.shared_intermediate();
    out->num_experts = layer.routing()->num_experts();
    out->top_k = layer.routing()->top_k();
    out->num_local_experts = static_cast<uint32_t>(layer.routing()->num_experts());
    out->num_weights = layer.weights()->size();
    out->weight_bytes = WeightBytes(layer);
    return Status();
  }

  Status FindLayer(int32_t model_layer, uint32_t* out) const override {
    for (uint32_t i = 0; i < root_->layers()->size(); ++i) {
      if (root_->layers()->Get(i)->model_layer() == model_layer) {
        *out = i;
        return Status();
      }
    }
    std::string numbers;
    for (const schema::Layer* layer : *root_->layers()) {
      if (numbers.size() > 300) {
        numbers += ", ...";
        break;
      }
      numbers += (numbers.empty() ? "" : ", ") + std::to_string(layer->model_layer());
    }
    return NotFound("layer %d is not an MoE layer of the manifest; it has %s", model_layer,
                    numbers.empty() ? "none" : numbers.c_str());
  }

  Status LayerRouting(uint32_t index, moert_routing* out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("layer", index, root_->layers()->size()));
    FillRouting(*root_->layers()->Get(index)->routing(), out);
    return Status();
  }

  Status LayerActivation(uint32_t index, moert_activation* experts,
                         moert_activation* shared) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("layer", index, root_->layers()->size()));
    const schema::Layer& layer = *root_->layers()->Get(index);
    if (experts != nullptr) FillActivation(*layer.activation(), experts);
    if (shared != nullptr) FillActivation(SharedActivation(layer), shared);
    return Status();
  }

  Status LayerWeight(uint32_t index, uint32_t weight_index, moert_weight_info* out) const override {
    MOERT_RETURN_IF_ERROR(CheckIndex("layer", index, root_->layers()->size()));
    const schema::Layer& layer = *root_->layers()->Get(index);
    MOERT_RETURN_IF_ERROR(CheckIndex("weight", weight_index, layer.weights()->size()));
    const schema::Weight& weight = *layer.weights()->Get(weight_index);
    out->role = static_cast<moert_role>(weight.role());
    out->dtype = static_cast<moert_dtype>(weight.dtype());
    out->orientation = static_cast<moert_orientation>(weight.orientation());
    out->packing = static_cast<moert_packing>(weight.packing());
    out->quant_scheme = weight.quant() != nullptr
                            ? static_cast<moert_quant_scheme>(weight.quant()->scheme())
                            : MOERT_QUANT_SCHEME_NONE;
    out->num_tensors = weight.tensors()->size();
    out->rows = weight.rows();
    out->cols = weight.cols();
    out->tensors = weight.tensors()->data();
    return Status();
  }

  Status Verify(moert_progress_fn progress, void* user_data) const override;
  Status Layer(uint32_t index, std::span<const int32_t> local_experts,
               ManifestLayer* out) const override;

 private:
  static Status CheckIndex(const char* what, uint64_t index, uint64_t count) {
    if (index < count) return Status();
    return InvalidArgument("%s index %llu; the manifest has %llu", what, Print(index),
                           Print(count));
  }

  static Status CheckFileSize(const schema::File& entry, const moert::File& file) {
    if (file.size() == entry.bytes()) return Status();
    return FileChanged("'%s' has %llu bytes, %llu when it was packed", entry.path()->c_str(),
                       Print(file.size()), Print(entry.bytes()));
  }

  static const schema::Activation& SharedActivation(const schema::Layer& layer) {
    return layer.shared_activation() != nullptr ? *layer.shared_activation() : *layer.activation();
  }

  static void FillRouting(const schema::Routing& routing, moert_routing* out) {
    out->flags = routing.rms_norm_input() ? MOERT_ROUTING_FLAG_RMS_NORM_INPUT : 0;
    out->num_experts = routing.num_experts();
    out->top_k = routing.top_k();
    out->score = static_cast<moert_score>(routing.score());
    out->renormalize = static_cast<moert_renormalize>(routing.renormalize());
    out->renormalize_value = routing.renormalize_value();
    out->routed_scaling_factor = routing.routed_scaling_factor();
    out->logit_soft_cap = routing.logit_soft_cap();
    out->sparsemixer_epsilon = routing.sparsemixer_epsilon();
    out->num_groups = routing.num_groups();
    out->top_k_groups = routing.top_k_groups();
    out->group_score = static_cast<moert_group_score>(routing.group_score());
    out->input_rms_epsilon = routing.input_rms_epsilon();
    out->input_multiplier = routing.input_multiplier();
    out->reserved = 0;
  }

  static void FillActivation(const schema::Activation& activation, moert_activation* out) {
    out->flags = activation.ungated() ? MOERT_ACTIVATION_FLAG_UNGATED : 0;
    out->kind = static_cast<moert_activation_kind>(activation.kind());
    out->alpha = activation.alpha();
    out->limit = activation.limit();
    out->up_offset = activation.up_offset();
  }

  // Of the matrices that a layer widens to its dtype; bfloat16 and float16 meet in float32.
  static moert_dtype WidestDtype(const schema::Layer& layer) {
    moert_dtype widest = MOERT_DTYPE_NONE;
    for (const schema::Weight* weight : *layer.weights()) {
      const auto dtype = static_cast<moert_dtype>(weight->dtype());
      if (!FindRole(static_cast<moert_role>(weight->role()))->is_widened ||
          !IsComputeDtype(dtype)) {
        continue;
      }
      widest = widest == MOERT_DTYPE_NONE || widest == dtype ? dtype : MOERT_DTYPE_FLOAT32;
    }
    return widest != MOERT_DTYPE_NONE ? widest : MOERT_DTYPE_BFLOAT16;
  }

  uint64_t WeightBytes(const schema::Layer& layer) const {
    uint64_t bytes = 0;
    const auto add = [&](const flatbuffers::Vector<uint32_t>* list) {
      if (list == nullptr) return;
      for (const uint32_t index : *list) bytes += root_->tensors()->Get(index)->bytes();
    };
    for (const schema::Weight* weight : *layer.weights()) {
      add(weight->tensors());
      if (weight->quant() == nullptr) continue;
      add(weight->quant()->scales());
      add(weight->quant()->zero_points());
      add(weight->quant()->second_scales());
    }
    return bytes;
  }

  Status FileData(uint32_t index, const void** out) const {
    OpenFile& open = *files_[index];
    const void* data = open.data.load(std::memory_order_acquire);
    if (data == nullptr) {
      std::lock_guard lock(read_mutex_);
      data = open.data.load(std::memory_order_relaxed);
      if (data == nullptr) {
        MOERT_RETURN_IF_ERROR(ReadAll(allocator_, *open.file,
                                      root_->files()->Get(index)->path()->c_str(), UINT64_MAX,
                                      &open.buffer));
        data = open.buffer.size() != 0 ? open.buffer.data() : "";
        open.data.store(data, std::memory_order_release);
      }
    }
    *out = data;
    return Status();
  }

  Status FillWeight(const schema::Layer& layer, const schema::Weight& weight,
                    std::span<const int32_t> local_experts, moert_weight* out,
                    std::pmr::vector<const void*>* experts) const;
  Status CheckHeader(uint32_t index, const moert::File& file,
                     std::span<const uint32_t> tensors) const;

  Allocator& allocator_;
  Owned<FileSystem> source_;
  Buffer bytes_;
  const schema::Manifest* root_ = nullptr;
  std::pmr::vector<Owned<OpenFile>> files_;
  uint64_t total_bytes_ = 0;
  mutable std::mutex read_mutex_;
};

Status OpenManifest::Layer(uint32_t index, std::span<const int32_t> local_experts,
                           ManifestLayer* out) const {
  MOERT_RETURN_IF_ERROR(CheckIndex("layer", index, root_->layers()->size()));
  const schema::Layer& layer = *root_->layers()->Get(index);
  const int32_t num_experts = layer.routing()->num_experts();
  for (const int32_t expert : local_experts) {
    if (expert < 0 || expert >= num_experts) {
      return InvalidArgument("local expert %d; layer %d has experts 0 to %d", expert,
                             layer.model_layer(), num_experts - 1);
    }
  }
  if (local_experts.size() > static_cast<size_t>(num_experts)) {
    return InvalidArgument("num_local_experts is %zu; layer %d has %d experts",
                           local_experts.size(), layer.model_layer(), num_experts);
  }
  const size_t num_local =
      local_experts.empty() ? static_cast<size_t>(num_experts) : local_experts.size();
  size_t num_lists = 0;
  for (const schema::Weight* weight : *layer.weights()) {
    num_lists += FindRole(static_cast<moert_role>(weight->role()))->per_expert;
  }
  out->weights.assign(layer.weights()->size(), MOERT_WEIGHT_INIT);
  out->experts.clear();
  out->experts.reserve(num_lists * num_local);  // weights point into it
  for (uint32_t i = 0; i < layer.weights()->size(); ++i) {
    MOERT_RETURN_IF_ERROR(FillWeight(layer, *layer.weights()->Get(i), local_experts,
                                     &out->weights[i], &out->experts));
  }
  FillRouting(*layer.routing(), &out->routing);
  FillActivation(*layer.activation(), &out->activation);
  FillActivation(SharedActivation(layer), &out->shared_activation);
  out->desc.dtype = WidestDtype(layer);
  out->desc.weight_application = static_cast<moert_weight_application>(layer.weight_application());
  out->desc.hidden = layer.hidden();
  out->desc.intermediate = layer.intermediate();
  out->desc.latent = layer.latent();
  out->desc.shared_intermediate = layer.shared_intermediate();
  out->desc.routing = &out->routing;
  out->desc.activation = &out->activation;
  out->desc.shared_activation =
      layer.shared_intermediate() != 0 ? &out->shared_activation : nullptr;
  out->desc.weights = out->weights.data();
  out->desc.num_weights = static_cast<uint32_t>(out->weights.size());
  out->desc.num_local_experts = static_cast<uint32_t>(local_experts.size());
  out->desc.local_experts = local_experts.empty() ? nullptr : local_experts.data();
  return Status();
}

Status OpenManifest::FillWeight(const schema::Layer& layer, const schema::Weight& weight,
                                std::span<const int32_t> local_experts, moert_weight* out,
                                std::pmr::vector<const void*>* experts) const {
  const auto role = static_cast<moert_role>(weight.role());
  const auto dtype = static_cast<moert_dtype>(weight.dtype());
  const schema::Tensor& first = *root_->tensors()->Get(weight.tensors()->Get(0));
  if (weight.quant() != nullptr) {
    return Unsupported(
        "layer %d: weight %s (tensor '%.200s') is quantised as %s, which layers cannot "
        "use yet",
        layer.model_layer(), RoleName(role), first.name()->c_str(),
        kQuantSchemeNames.Name(static_cast<int>(weight.quant()->scheme())));
  }
  if (!IsComputeDtype(dtype)) {
    return Unsupported("layer %d: weight %s (tensor '%.200s') is %s; layers take F32, BF16 and F16",
                       layer.model_layer(), RoleName(role), first.name()->c_str(),
                       moert_dtype_name(dtype));
  }
  out->role = role;
  out->dtype = dtype;
  out->orientation = static_cast<moert_orientation>(weight.orientation());
  out->packing = static_cast<moert_packing>(weight.packing());
  out->rows = weight.rows();
  out->cols = weight.cols();
  const uint32_t count = weight.tensors()->size();
  if (count == 1) MOERT_RETURN_IF_ERROR(TensorData(weight.tensors()->Get(0), &out->data));
  if (!FindRole(role)->per_expert || (count == 1 && local_experts.empty())) return Status();

  const size_t begin = experts->size();
  const size_t num_local = local_experts.empty() ? count : local_experts.size();
  for (size_t i = 0; i < num_local; ++i) {
    const uint32_t expert =
        local_experts.empty() ? static_cast<uint32_t>(i) : static_cast<uint32_t>(local_experts[i]);
    const void* data = nullptr;
    if (count == 1) {
      const int64_t matrix = weight.rows() * weight.cols() * ElementSize(dtype);
      data = static_cast<const char*>(out->data) + matrix * expert;
    } else {
      MOERT_RETURN_IF_ERROR(TensorData(weight.tensors()->Get(expert), &data));
    }
    experts->push_back(data);
  }
  out->data = nullptr;
  out->experts = experts->data() + begin;
  return Status();
}

// The file's own header against the tensors that the manifest says it holds.
Status OpenManifest::CheckHeader(uint32_t index, const moert::File& file,
                                 std::span<const uint32_t> tensors) const {
  const char* path = root_->files()->Get(index)->path()->c_str();
  std::vector<SafetensorsTensor> header;
  MOERT_RETURN_IF_ERROR(ReadSafetensorsHeader(path, file, true, &header));
  std::sort(header.begin(), header.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.name < b.name; });
  if (header.size() != tensors.size()) {
    return FileChanged("'%s' has %zu tensors, %zu when it was packed", path, header.size(),
                       tensors.size());
  }
  for (size_t i = 0; i < header.size(); ++i) {
    const schema::Tensor& packed = *root_->tensors()->Get(tensors[i]);
    const SafetensorsTensor& found = header[i];
    const size_t rank = packed.shape() != nullptr ? packed.shape()->size() : 0;
    if (found.name != packed.name()->string_view() ||
        found.dtype != static_cast<moert_dtype>(packed.dtype()) ||
        found.offset != packed.offset() || found.bytes != packed.bytes() ||
        found.shape.size() != rank ||
        (rank != 0 &&
         !std::equal(found.shape.begin(), found.shape.end(), packed.shape()->data()))) {
      return FileChanged("'%s': tensor '%.200s' is not the one that was packed", path,
                         found.name.c_str());
    }
  }
  return Status();
}

Status OpenManifest::Verify(moert_progress_fn progress, void* user_data) const {
  const uint32_t num_files = root_->files()->size();
  std::vector<std::vector<uint32_t>> tensors(num_files);
  for (uint32_t i = 0; i < root_->tensors()->size(); ++i) {
    tensors[root_->tensors()->Get(i)->file()].push_back(i);
  }
  // Opened anew: a file that was replaced since then is found too.
  std::vector<Owned<moert::File>> opened(num_files);
  std::vector<FileHash> hashes;
  std::vector<uint32_t> hashed;
  for (uint32_t i = 0; i < num_files; ++i) {
    const schema::File& entry = *root_->files()->Get(i);
    MOERT_RETURN_IF_ERROR(source_->Open(entry.path()->str(), &opened[i]));
    MOERT_RETURN_IF_ERROR(CheckFileSize(entry, *opened[i]));
    MOERT_RETURN_IF_ERROR(CheckHeader(i, *opened[i], tensors[i]));
    if (entry.hash() == nullptr) continue;
    hashes.push_back({opened[i].get(), {0, 0}});
    hashed.push_back(i);
  }
  MOERT_RETURN_IF_ERROR(HashFiles(hashes, progress, user_data));
  for (size_t i = 0; i < hashes.size(); ++i) {
    const schema::File& entry = *root_->files()->Get(hashed[i]);
    if (hashes[i].hash[0] == entry.hash()->low() && hashes[i].hash[1] == entry.hash()->high())
      continue;
    return Status::Make(MOERT_STATUS_FILE_CHANGED, MOERT_CORRUPTION_HASH,
                        "'%s' has XXH3-128 %016llx%016llx, %016llx%016llx when it was packed",
                        entry.path()->c_str(), Print(hashes[i].hash[1]), Print(hashes[i].hash[0]),
                        Print(entry.hash()->high()), Print(entry.hash()->low()));
  }
  return Status();
}

// The folder that the files lie in.
std::string BaseFolder(const moert_manifest_desc& desc, const schema::Manifest& manifest) {
  if (desc.base_dir != nullptr) return desc.base_dir;
  if ((desc.flags & MOERT_MANIFEST_FLAG_PACKED_DIRECTORY) != 0 &&
      manifest.packed_directory() != nullptr) {
    return manifest.packed_directory()->str();
  }
  return desc.path != nullptr ? ParentPath(desc.path) : std::string();
}

}  // namespace

Status Manifest::Open(Allocator& allocator, const Logger& log, const moert_manifest_desc& desc,
                      Owned<Manifest>* out) {
  if (desc.data != nullptr && desc.base_dir == nullptr && desc.files == nullptr &&
      (desc.flags & MOERT_MANIFEST_FLAG_PACKED_DIRECTORY) == 0) {
    return InvalidArgument("base_dir is NULL, and a manifest in memory has no folder of its own");
  }
  Owned<OpenManifest> manifest = MakeOwned<OpenManifest>(allocator, allocator);
  Owned<FileSystem> source;
  if (desc.files != nullptr) {
    MOERT_RETURN_IF_ERROR(manifest->Load(desc, HostFiles(allocator, *desc.files, "")));
    source = MakeOwned<HostFiles>(allocator, allocator, *desc.files,
                                  desc.base_dir != nullptr ? desc.base_dir : "");
  } else {
    MOERT_RETURN_IF_ERROR(manifest->Load(desc, DiskFiles(allocator, "", false)));
    source = MakeOwned<DiskFiles>(allocator, allocator, BaseFolder(desc, manifest->root()),
                                  (desc.flags & MOERT_MANIFEST_FLAG_FORBID_SYMLINKS) != 0);
  }
  manifest->set_source(std::move(source));
  const bool read = desc.files != nullptr || (desc.flags & MOERT_MANIFEST_FLAG_READ) != 0;
  Status status = manifest->OpenFiles(read);
  const flatbuffers::String* packed = manifest->root().packed_directory();
  if (status.code() == MOERT_STATUS_NOT_FOUND && packed != nullptr && desc.base_dir == nullptr &&
      (desc.flags & MOERT_MANIFEST_FLAG_PACKED_DIRECTORY) == 0) {
    return NotFound(
        "%s; the checkpoint was packed in '%.400s': give that as base_dir, or set the "
        "flag PACKED_DIRECTORY",
        status.message(), packed->c_str());
  }
  MOERT_RETURN_IF_ERROR(std::move(status));
  log.Log(MOERT_LOG_LEVEL_DEBUG, "opened a manifest of %u files, %u tensors and %u MoE layers",
          manifest->root().files()->size(), manifest->root().tensors()->size(),
          manifest->root().layers()->size());
  *out = std::move(manifest);
  return Status();
}

}  // namespace moert
