// SPDX-License-Identifier: Apache-2.0
#include "manifest/check.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/checked_math.h"
#include "manifest/files.h"
#include "manifest/names.h"
#include "manifest/safetensors.h"

namespace moert {
namespace {

static_assert(static_cast<int>(schema::Dtype::MAX) == MOERT_DTYPE_COMPLEX64);
static_assert(static_cast<int>(schema::Role::MAX) == kNumRoles - 1);
static_assert(static_cast<int>(schema::QuantScheme::MAX) == MOERT_QUANT_SCHEME_INT4_GROUP);

constexpr uint32_t kMaxDepth = 8;
constexpr uint32_t kMaxName = 65536;

unsigned long long Print(uint64_t value) { return value; }

// What this version understands of Manifest.required_features.
constexpr std::initializer_list<std::string_view> kKnownFeatures = {};

// One pass over a verified buffer.
class Checker {
 public:
  Checker(const schema::Manifest& manifest, uint64_t size) : manifest_(manifest), budget_(size) {}

  Status Run() {
    MOERT_RETURN_IF_ERROR(CheckFeatures());
    MOERT_RETURN_IF_ERROR(CheckText("family", *manifest_.family()));
    MOERT_RETURN_IF_ERROR(CheckText("model_type", *manifest_.model_type()));
    if (manifest_.packed_directory() != nullptr) {
      MOERT_RETURN_IF_ERROR(CheckText("packed_directory", *manifest_.packed_directory()));
    }
    for (uint32_t i = 0; i < manifest_.files()->size(); ++i) {
      MOERT_RETURN_IF_ERROR(CheckFile(i));
    }
    for (uint32_t i = 0; i < manifest_.tensors()->size(); ++i) {
      MOERT_RETURN_IF_ERROR(CheckTensor(i));
    }
    last_user_.assign(manifest_.tensors()->size(), 0);
    for (uint32_t i = 0; i < manifest_.layers()->size(); ++i) {
      MOERT_RETURN_IF_ERROR(CheckLayer(i));
    }
    return Status();
  }

 private:
  // A writer stores each string and list once, so what is visited never passes the size of the
  // buffer. A buffer that shares them to make this pass slow does.
  Status Spend(uint64_t bytes) {
    if (bytes > budget_) {
      return CorruptData(MOERT_CORRUPTION_STRUCTURE,
                         "the manifest uses the same strings or lists over and over");
    }
    budget_ -= bytes;
    return Status();
  }

  Status CheckText(const char* what, const flatbuffers::String& text) {
    MOERT_RETURN_IF_ERROR(Spend(text.size()));
    if (text.size() > kMaxName || memchr(text.c_str(), 0, text.size()) != nullptr) {
      return CorruptData(MOERT_CORRUPTION_FIELD, "%s is longer than %u bytes or holds a NUL", what,
                         kMaxName);
    }
    return Status();
  }

  Status CheckFeatures() {
    if (manifest_.required_features() == nullptr) return Status();
    for (const flatbuffers::String* feature : *manifest_.required_features()) {
      MOERT_RETURN_IF_ERROR(CheckText("required_features", *feature));
      bool known = false;
      for (const std::string_view name : kKnownFeatures) known = known || name == feature->c_str();
      if (!known) {
        return CorruptData(MOERT_CORRUPTION_FEATURE,
                           "the manifest requires the feature '%.64s', which this version lacks",
                           feature->c_str());
      }
    }
    return Status();
  }

  Status CheckFile(uint32_t index) {
    const schema::File& file = *manifest_.files()->Get(index);
    MOERT_RETURN_IF_ERROR(Spend(file.path()->size()));
    MOERT_RETURN_IF_ERROR(CheckRelativePath("path", file.path()->string_view()));
    if (file.bytes() > INT64_MAX) {
      return CorruptData(MOERT_CORRUPTION_OVERFLOW, "file '%s': %llu bytes pass 63 bits",
                         file.path()->c_str(), Print(file.bytes()));
    }
    return Status();
  }

  Status CheckTensor(uint32_t index) {
    const schema::Tensor& tensor = *manifest_.tensors()->Get(index);
    MOERT_RETURN_IF_ERROR(CheckText("a tensor's name", *tensor.name()));
    const std::string_view name = tensor.name()->string_view();
    if (index > 0 && name <= previous_name_) {
      const bool same = name == previous_name_;
      return CorruptData(same ? MOERT_CORRUPTION_DUPLICATE_KEY : MOERT_CORRUPTION_FIELD,
                         "tensor %u: name '%.200s' %s", index, tensor.name()->c_str(),
                         same ? "stands twice" : "is not in ascending order");
    }
    previous_name_ = name;
    if (tensor.file() >= manifest_.files()->size()) {
      return CorruptData(MOERT_CORRUPTION_INDEX, "tensor '%.200s': file %u of %u", name.data(),
                         tensor.file(), manifest_.files()->size());
    }
    if (moert_dtype_bits(static_cast<moert_dtype>(tensor.dtype())) == 0) {
      return CorruptData(MOERT_CORRUPTION_DTYPE, "tensor '%.200s': dtype %d is not known",
                         name.data(), static_cast<int>(tensor.dtype()));
    }
    MOERT_RETURN_IF_ERROR(CheckShape(tensor));
    uint64_t end = 0;
    if (!CheckedAdd(tensor.offset(), tensor.bytes(), &end)) {
      return CorruptData(MOERT_CORRUPTION_OVERFLOW,
                         "tensor '%.200s': offset %llu + %llu bytes passes 64 bits", name.data(),
                         Print(tensor.offset()), Print(tensor.bytes()));
    }
    const schema::File& file = *manifest_.files()->Get(tensor.file());
    if (end > file.bytes()) {
      return CorruptData(MOERT_CORRUPTION_OFFSETS,
                         "tensor '%.200s' ends at byte %llu of '%s', which has %llu", name.data(),
                         Print(end), file.path()->c_str(), Print(file.bytes()));
    }
    return Status();
  }

  Status CheckShape(const schema::Tensor& tensor) {
    const char* name = tensor.name()->c_str();
    const int64_t* shape = nullptr;
    uint32_t rank = 0;
    if (tensor.shape() != nullptr) {
      shape = tensor.shape()->data();
      rank = tensor.shape()->size();
      MOERT_RETURN_IF_ERROR(Spend(uint64_t{rank} * sizeof(int64_t)));
      if (reinterpret_cast<uintptr_t>(shape) % alignof(int64_t) != 0) {
        return CorruptData(MOERT_CORRUPTION_STRUCTURE, "tensor '%.200s': its shape is not aligned",
                           name);
      }
    }
    for (uint32_t i = 0; i < rank; ++i) {
      if (shape[i] < 0) {
        return CorruptData(MOERT_CORRUPTION_FIELD, "tensor '%.200s': extent %u is %lld", name, i,
                           static_cast<long long>(shape[i]));
      }
    }
    uint64_t elements = 0, bytes = 0;
    if (!TensorBytes(static_cast<moert_dtype>(tensor.dtype()), shape, rank, &elements, &bytes)) {
      return CorruptData(
          MOERT_CORRUPTION_OVERFLOW,
          "tensor '%.200s': the size of its shape passes 64 bits or fills no whole byte", name);
    }
    if (bytes != tensor.bytes()) {
      return CorruptData(MOERT_CORRUPTION_SIZE_MISMATCH,
                         "tensor '%.200s' has %llu bytes, shape and dtype give %llu", name,
                         Print(tensor.bytes()), Print(bytes));
    }
    return Status();
  }

  Status BadField(const char* field, double value, const char* accepted) const {
    return CorruptData(MOERT_CORRUPTION_FIELD, "layer %d: %s is %.9g; accepted is %s", model_layer_,
                       field, value, accepted);
  }
  Status CheckEnum(const char* field, int32_t value, const EnumNames& names) const {
    if (names.Name(value) != nullptr) return Status();
    return CorruptData(MOERT_CORRUPTION_DTYPE, "layer %d: %s %d is not known", model_layer_, field,
                       value);
  }

  Status CheckLayer(uint32_t index) {
    const schema::Layer& layer = *manifest_.layers()->Get(index);
    const int32_t previous = model_layer_;
    model_layer_ = layer.model_layer();
    if (model_layer_ < -1 || (index > 0 && model_layer_ <= previous)) {
      return CorruptData(MOERT_CORRUPTION_FIELD,
                         "layer %d: numbers are -1 or more, and ascend (the one before is %d)",
                         model_layer_, previous);
    }
    MOERT_RETURN_IF_ERROR(CheckSizeRanges(layer));
    MOERT_RETURN_IF_ERROR(CheckEnum("weight_application",
                                    static_cast<int>(layer.weight_application()),
                                    kWeightApplicationNames));
    MOERT_RETURN_IF_ERROR(CheckRouting(*layer.routing()));
    MOERT_RETURN_IF_ERROR(CheckActivation("activation", *layer.activation()));
    if (layer.shared_activation() != nullptr) {
      MOERT_RETURN_IF_ERROR(CheckActivation("shared_activation", *layer.shared_activation()));
    }
    return CheckWeights(layer);
  }

  Status CheckSizeRanges(const schema::Layer& layer) {
    // Two widths and an element size multiply within 63 bits.
    constexpr int64_t kMax = int64_t{1} << 30;
    const struct {
      const char* field;
      int64_t value;
      int64_t least;
    } sizes[] = {{"hidden", layer.hidden(), 1},
                 {"intermediate", layer.intermediate(), 1},
                 {"latent", layer.latent(), 0},
                 {"shared_intermediate", layer.shared_intermediate(), 0}};
    for (const auto& size : sizes) {
      if (size.value < size.least || size.value > kMax) {
        return BadField(size.field, static_cast<double>(size.value),
                        size.least == 0 ? "0 (none) to 2^30" : "1 to 2^30");
      }
    }
    return Status();
  }

  Status CheckRouting(const schema::Routing& r) {
    MOERT_RETURN_IF_ERROR(CheckEnum("score", static_cast<int>(r.score()), kScoreNames));
    MOERT_RETURN_IF_ERROR(
        CheckEnum("renormalize", static_cast<int>(r.renormalize()), kRenormalizeNames));
    MOERT_RETURN_IF_ERROR(
        CheckEnum("group_score", static_cast<int>(r.group_score()), kGroupScoreNames));
    if (r.num_experts() < 1) return BadField("num_experts", r.num_experts(), "1 or more");
    if (r.top_k() < 1 || r.top_k() > r.num_experts()) {
      return BadField("top_k", r.top_k(), "1 up to num_experts");
    }
    if (r.num_groups() < 0 || (r.num_groups() > 1 && r.num_experts() % r.num_groups() != 0)) {
      return BadField("num_groups", r.num_groups(), "a divisor of num_experts");
    }
    if (r.num_groups() > 1 && (r.top_k_groups() < 1 || r.top_k_groups() > r.num_groups())) {
      return BadField("top_k_groups", r.top_k_groups(), "1 up to num_groups");
    }
    const struct {
      const char* field;
      float value;
    } floats[] = {{"renormalize_value", r.renormalize_value()},
                  {"routed_scaling_factor", r.routed_scaling_factor()},
                  {"logit_soft_cap", r.logit_soft_cap()},
                  {"sparsemixer_epsilon", r.sparsemixer_epsilon()},
                  {"input_rms_epsilon", r.input_rms_epsilon()},
                  {"input_multiplier", r.input_multiplier()}};
    for (const auto& knob : floats) {
      if (!std::isfinite(knob.value)) return BadField(knob.field, knob.value, "a finite number");
    }
    return Status();
  }

  Status CheckActivation(const char* what, const schema::Activation& activation) {
    MOERT_RETURN_IF_ERROR(CheckEnum(what, static_cast<int>(activation.kind()), kActivationNames));
    if (!std::isfinite(activation.alpha()) || !std::isfinite(activation.limit()) ||
        !std::isfinite(activation.up_offset())) {
      return CorruptData(MOERT_CORRUPTION_FIELD, "layer %d: %s holds a number that is not finite",
                         model_layer_, what);
    }
    return Status();
  }

  Status BadRole(moert_role role, const char* why) const {
    return CorruptData(MOERT_CORRUPTION_ROLES, "layer %d: weight %s %s", model_layer_,
                       RoleName(role), why);
  }

  Status CheckWeights(const schema::Layer& layer) {
    if (layer.weights()->size() >= static_cast<uint32_t>(kNumRoles)) {
      return CorruptData(MOERT_CORRUPTION_ROLES, "layer %d has %u weights; there are %d roles",
                         model_layer_, layer.weights()->size(), kNumRoles - 1);
    }
    bool has[kNumRoles] = {};
    const Widths widths = WidthsOf(layer);
    for (const schema::Weight* weight : *layer.weights()) {
      const moert_role role = static_cast<moert_role>(weight->role());
      if (FindRole(role) == nullptr) {
        return CorruptData(MOERT_CORRUPTION_DTYPE, "layer %d: role %d is not known", model_layer_,
                           role);
      }
      if (has[role]) return BadRole(role, "stands twice");
      has[role] = true;
      MOERT_RETURN_IF_ERROR(CheckWeight(*weight, role, widths));
    }
    return CheckComplete(layer, has);
  }

  Status CheckComplete(const schema::Layer& layer, const bool (&has)[kNumRoles]) const {
    const schema::Activation& shared =
        layer.shared_activation() != nullptr ? *layer.shared_activation() : *layer.activation();
    if (!has[MOERT_ROLE_ROUTER]) return BadRole(MOERT_ROLE_ROUTER, "is missing");
    const RoleOffence offence = CheckRoles(has, !layer.activation()->ungated(), layer.latent() != 0,
                                           layer.shared_intermediate() != 0, !shared.ungated());
    return offence.what == nullptr ? Status() : BadRole(offence.role, offence.what);
  }

  Status CheckWeight(const schema::Weight& weight, moert_role role, const Widths& widths) {
    MOERT_RETURN_IF_ERROR(
        CheckEnum("orientation", static_cast<int>(weight.orientation()), kOrientationNames));
    MOERT_RETURN_IF_ERROR(CheckEnum("packing", static_cast<int>(weight.packing()), kPackingNames));
    if (moert_dtype_bits(static_cast<moert_dtype>(weight.dtype())) == 0) {
      return CorruptData(MOERT_CORRUPTION_DTYPE, "layer %d: weight %s: dtype %d is not known",
                         model_layer_, RoleName(role), static_cast<int>(weight.dtype()));
    }
    const Role& info = *FindRole(role);
    int64_t rows = widths.Get(info.rows), cols = widths.Get(info.cols);
    if (weight.orientation() == schema::Orientation::InOut) std::swap(rows, cols);
    if (rows != weight.rows() || cols != weight.cols()) {
      return CorruptData(MOERT_CORRUPTION_ROLES,
                         "layer %d: weight %s is [%lld, %lld]; the layer needs [%lld, %lld]",
                         model_layer_, RoleName(role), static_cast<long long>(weight.rows()),
                         static_cast<long long>(weight.cols()), static_cast<long long>(rows),
                         static_cast<long long>(cols));
    }
    const uint32_t count = weight.tensors()->size();
    const bool per_expert = info.per_expert;
    if (count != 1 && (!per_expert || count != static_cast<uint32_t>(widths.experts))) {
      return CorruptData(MOERT_CORRUPTION_ROLES,
                         "layer %d: weight %s has %u tensors; accepted is 1%s", model_layer_,
                         RoleName(role), count, per_expert ? " or one an expert" : "");
    }
    const int64_t matrices = per_expert && count == 1 ? widths.experts : 1;
    MOERT_RETURN_IF_ERROR(CheckIndices(role, *weight.tensors()));
    for (const uint32_t index : *weight.tensors()) {
      const schema::Tensor& tensor = *manifest_.tensors()->Get(index);
      MOERT_RETURN_IF_ERROR(weight.quant() == nullptr
                                ? CheckPlainTensor(weight, role, tensor, matrices)
                                : CheckQuantTensor(weight, role, tensor, matrices));
    }
    return weight.quant() == nullptr ? Status() : CheckQuant(weight, role, matrices);
  }

  // In range, and no tensor for two experts.
  Status CheckIndices(moert_role role, const flatbuffers::Vector<uint32_t>& indices) {
    MOERT_RETURN_IF_ERROR(Spend(uint64_t{indices.size()} * sizeof(uint32_t)));
    ++user_;
    for (const uint32_t index : indices) {
      if (index >= last_user_.size()) {
        return CorruptData(MOERT_CORRUPTION_INDEX, "layer %d: weight %s: tensor %u of %llu",
                           model_layer_, RoleName(role), index, Print(last_user_.size()));
      }
      if (last_user_[index] == user_) {
        return CorruptData(MOERT_CORRUPTION_ROLES,
                           "layer %d: weight %s uses tensor '%.200s' for two experts", model_layer_,
                           RoleName(role), manifest_.tensors()->Get(index)->name()->c_str());
      }
      last_user_[index] = user_;
    }
    return Status();
  }

  Status CheckPlainTensor(const schema::Weight& weight, moert_role role,
                          const schema::Tensor& tensor, int64_t matrices) {
    if (tensor.dtype() != weight.dtype()) {
      return CorruptData(
          MOERT_CORRUPTION_ROLES, "layer %d: weight %s is %s, its tensor '%.200s' is %s",
          model_layer_, RoleName(role), moert_dtype_name(static_cast<moert_dtype>(weight.dtype())),
          tensor.name()->c_str(), moert_dtype_name(static_cast<moert_dtype>(tensor.dtype())));
    }
    // [matrices, rows, cols], [matrices * rows, cols], or [cols] for a vector.
    const uint32_t rank = tensor.shape() == nullptr ? 0 : tensor.shape()->size();
    const auto extent = [&](uint32_t i) { return tensor.shape()->Get(i); };
    int64_t all_rows = 0;
    bool fits = CheckedMultiply(matrices, weight.rows(), &all_rows);
    if (rank == 3) {
      fits =
          fits && extent(0) == matrices && extent(1) == weight.rows() && extent(2) == weight.cols();
    } else if (rank == 2) {
      fits = fits && extent(0) == all_rows && extent(1) == weight.cols();
    } else {
      fits = fits && rank == 1 && all_rows == 1 && extent(0) == weight.cols();
    }
    if (fits) return Status();
    std::string shape;
    for (uint32_t i = 0; i < rank && i < 8; ++i) {
      if (i != 0) shape += ", ";
      shape += std::to_string(extent(i));
    }
    return CorruptData(MOERT_CORRUPTION_ROLES,
                       "layer %d: weight %s: tensor '%.200s' has shape [%s]; needed is %lld times "
                       "[%lld, %lld]",
                       model_layer_, RoleName(role), tensor.name()->c_str(), shape.c_str(),
                       static_cast<long long>(matrices), static_cast<long long>(weight.rows()),
                       static_cast<long long>(weight.cols()));
  }

  // Packed values: whole storage units along the packed dimension.
  Status CheckQuantTensor(const schema::Weight& weight, moert_role role,
                          const schema::Tensor& tensor, int64_t matrices) {
    const schema::Quant& quant = *weight.quant();
    const uint64_t elements = quant.storage_elements(), unit = quant.storage_bytes();
    const bool down = quant.packing() == schema::QuantPacking::WordsDown;
    const uint64_t packed = static_cast<uint64_t>(down ? weight.rows() : weight.cols());
    const uint64_t other = static_cast<uint64_t>(down ? weight.cols() : weight.rows());
    uint64_t needed = 0;
    const bool fits = elements != 0 && unit != 0 &&
                      CheckedMultiply((packed + elements - 1) / elements, unit, &needed) &&
                      CheckedMultiply(needed, other, &needed) &&
                      CheckedMultiply(needed, static_cast<uint64_t>(matrices), &needed);
    if (!fits || needed != tensor.bytes()) {
      return CorruptData(MOERT_CORRUPTION_ROLES,
                         "layer %d: weight %s: tensor '%.200s' has %llu bytes; %lld quantised "
                         "matrices [%lld, %lld] need %llu",
                         model_layer_, RoleName(role), tensor.name()->c_str(),
                         Print(tensor.bytes()), static_cast<long long>(matrices),
                         static_cast<long long>(weight.rows()),
                         static_cast<long long>(weight.cols()), Print(needed));
    }
    return Status();
  }

  Status CheckQuant(const schema::Weight& weight, moert_role role, int64_t matrices) {
    const schema::Quant& quant = *weight.quant();
    MOERT_RETURN_IF_ERROR(
        CheckEnum("quant scheme", static_cast<int>(quant.scheme()), kQuantSchemeNames));
    MOERT_RETURN_IF_ERROR(
        CheckEnum("quant packing", static_cast<int>(quant.packing()), kQuantPackingNames));
    MOERT_RETURN_IF_ERROR(
        CheckEnum("zero point", static_cast<int>(quant.zero_point()), kZeroPointNames));
    if (quant.scheme() == schema::QuantScheme::None || quant.block_rows() == 0 ||
        quant.block_cols() == 0) {
      return BadRole(role, "has a quant without a scheme or with an empty block");
    }
    const bool stores_zero = quant.zero_point() == schema::ZeroPoint::Stored ||
                             quant.zero_point() == schema::ZeroPoint::StoredMinusOne;
    if (stores_zero != (quant.zero_points() != nullptr)) {
      return BadRole(role, "has zero points that do not go with their convention");
    }
    for (const auto* list : {quant.scales(), quant.zero_points(), quant.second_scales()}) {
      if (list == nullptr) continue;
      if (list->size() != weight.tensors()->size()) {
        return BadRole(role, "has another number of scales or zero points than of tensors");
      }
      MOERT_RETURN_IF_ERROR(CheckIndices(role, *list));
    }
    uint64_t blocks = 0;
    const uint64_t down = DivideUp(weight.rows(), quant.block_rows());
    const uint64_t across = DivideUp(weight.cols(), quant.block_cols());
    if (!CheckedMultiply(down, across, &blocks) ||
        !CheckedMultiply(blocks, static_cast<uint64_t>(matrices), &blocks)) {
      return BadRole(role, "has more blocks than 64 bits count");
    }
    for (const uint32_t index : *quant.scales()) {
      const schema::Tensor& scales = *manifest_.tensors()->Get(index);
      const uint64_t bits = moert_dtype_bits(static_cast<moert_dtype>(scales.dtype()));
      if (scales.bytes() / bits * 8 + scales.bytes() % bits * 8 / bits != blocks) {
        return CorruptData(
            MOERT_CORRUPTION_ROLES,
            "layer %d: weight %s: tensor '%.200s' does not hold the %llu scales needed",
            model_layer_, RoleName(role), scales.name()->c_str(), Print(blocks));
      }
    }
    return Status();
  }

  const schema::Manifest& manifest_;
  uint64_t budget_;
  std::string_view previous_name_;
  int32_t model_layer_ = -1;
  std::vector<uint64_t> last_user_;  // per tensor, the list that used it last
  uint64_t user_ = 0;
};

}  // namespace

Widths WidthsOf(const schema::Layer& layer) {
  return {layer.routing()->num_experts(), layer.hidden(), layer.intermediate(), layer.latent(),
          layer.shared_intermediate()};
}

Status CheckManifest(const void* data, uint64_t size, const schema::Manifest** out) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (size < 8 || size > kMaxManifestBytes) {
    return CorruptData(size < 8 ? MOERT_CORRUPTION_TRUNCATED : MOERT_CORRUPTION_HEADER_LENGTH,
                       "a manifest has 8 to %llu bytes, this one %llu", Print(kMaxManifestBytes),
                       Print(size));
  }
  if (!schema::ManifestBufferHasIdentifier(bytes)) {
    return CorruptData(MOERT_CORRUPTION_IDENTIFIER,
                       "not a moert manifest: bytes 4 to 7 are not the identifier 'MOEM'");
  }
  // A table takes 4 bytes and another 4 where it is referred to; more tables than that are shared.
  flatbuffers::Verifier verifier(bytes, size, kMaxDepth, static_cast<uint32_t>(size / 8 + 1));
  if (!schema::VerifyManifestBuffer(verifier)) {
    return CorruptData(
        MOERT_CORRUPTION_STRUCTURE,
        "the FlatBuffers verifier refused the manifest: an offset, length, alignment, "
        "nesting or required field is wrong");
  }
  const schema::Manifest* manifest = schema::GetManifest(bytes);
  MOERT_RETURN_IF_ERROR(Checker(*manifest, size).Run());
  *out = manifest;
  return Status();
}

}  // namespace moert
