// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace moert::test {
namespace {

namespace fs = std::filesystem;
using Matrices = std::vector<const Mat*>;

// The matrices one above the other.
Mat Above(const Matrices& parts) {
  Mat out;
  out.cols = parts[0]->cols;
  for (const Mat* part : parts) {
    out.rows += part->rows;
    out.v.insert(out.v.end(), part->v.begin(), part->v.end());
  }
  return out;
}

StoredTensor Tensor(std::string name, std::vector<int64_t> shape, moert_dtype dtype,
                    std::vector<double> values) {
  return {std::move(name), std::move(shape), dtype, std::move(values)};
}

// What a part of each expert consists of.
Matrices OfExpert(const RefExpert& expert, Part part) {
  switch (part) {
    case Part::kGate:
      return {&expert.gate};
    case Part::kUp:
      return {&expert.up};
    case Part::kDown:
      return {&expert.down};
    case Part::kGateUp:
      return {&expert.gate, &expert.up};
    case Part::kGateBias:
      return {&expert.gate_bias};
    case Part::kUpBias:
      return {&expert.up_bias};
    case Part::kDownBias:
      return {&expert.down_bias};
    default:
      return {};
  }
}

Mat OfLayer(const RefLayer& layer, Part part) {
  switch (part) {
    case Part::kRouter:
      return layer.router.weight;
    case Part::kSelectionBias:
    case Part::kSelectionBiasRow:
      return layer.router.selection_bias;
    case Part::kInputScale:
      return layer.router.input_scale;
    case Part::kExpertScale:
      return layer.router.expert_scale;
    case Part::kSharedGate:
      return layer.shared.gate;
    case Part::kSharedUp:
      return layer.shared.up;
    case Part::kSharedDown:
      return layer.shared.down;
    case Part::kSharedGateUp:
      return Above({&layer.shared.gate, &layer.shared.up});
    case Part::kSharedExpertGate:
      return layer.shared_gate;
    case Part::kLatentIn:
      return layer.latent_in;
    default:
      return layer.latent_out;
  }
}

bool IsVector(Part part) {
  return part == Part::kSelectionBias || part == Part::kInputScale || part == Part::kExpertScale ||
         part == Part::kGateBias || part == Part::kUpBias || part == Part::kDownBias;
}

std::vector<int64_t> ShapeOf(const Mat& mat, Part part) {
  return IsVector(part) ? std::vector<int64_t>{mat.cols} : std::vector<int64_t>{mat.rows, mat.cols};
}

void AddExpertTensors(const RefLayer& layer, Part part, const std::string& name,
                      std::vector<StoredTensor>* out) {
  const size_t at = name.find("{e}");
  std::vector<int64_t> shape;
  std::vector<double> stacked;
  for (size_t e = 0; e < layer.experts.size(); ++e) {
    const Mat mat = Above(OfExpert(layer.experts[e], part));
    shape = ShapeOf(mat, part);
    if (at == std::string::npos) {
      stacked.insert(stacked.end(), mat.v.begin(), mat.v.end());
      continue;
    }
    std::string own = name;
    own.replace(at, 3, std::to_string(e));
    out->push_back(Tensor(own, shape, MOERT_DTYPE_BFLOAT16, mat.v));
  }
  if (at != std::string::npos) return;
  shape.insert(shape.begin(), static_cast<int64_t>(layer.experts.size()));
  out->push_back(Tensor(name, shape, MOERT_DTYPE_BFLOAT16, std::move(stacked)));
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "moert-checkpoint-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { fs::remove_all(path_); }

void WriteSafetensors(const fs::path& file, const std::vector<StoredTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    const size_t begin = data.size();
    const size_t bytes = DtypeBytes(tensor.dtype);
    data.resize(begin + tensor.values.size() * bytes);
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      Encode(tensor.dtype, tensor.values[i], data.data() + begin + i * bytes);
    }
    const char* dtype = tensor.dtype == MOERT_DTYPE_FLOAT32    ? "F32"
                        : tensor.dtype == MOERT_DTYPE_BFLOAT16 ? "BF16"
                                                               : "F16";
    REQUIRE(!header.contains(tensor.name));
    header[tensor.name] = {
        {"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(&length), sizeof length);
  stream << text << data;
  REQUIRE(stream.flush().good());
}

void AddTensors(const RefLayer& layer, const std::string& prefix,
                const std::vector<PartName>& names, moert_dtype router_dtype,
                std::vector<StoredTensor>* out) {
  for (const auto& [part, name] : names) {
    if (!OfExpert(layer.experts[0], part).empty()) {
      AddExpertTensors(layer, part, prefix + name, out);
      continue;
    }
    moert_dtype dtype = MOERT_DTYPE_BFLOAT16;
    if (part == Part::kRouter || part == Part::kInputScale || part == Part::kExpertScale) {
      dtype = router_dtype;
    } else if (part == Part::kSelectionBias || part == Part::kSelectionBiasRow) {
      dtype = MOERT_DTYPE_FLOAT32;
    }
    const Mat mat = OfLayer(layer, part);
    out->push_back(Tensor(prefix + name, ShapeOf(mat, part), dtype, mat.v));
  }
}

ManifestHandle PackAndOpen(Device& device, const fs::path& folder, moert_pack_result* result) {
  const std::string from = folder.string(), to = (folder / "model.moem").string();
  moert_pack_desc pack = MOERT_PACK_DESC_INIT;
  pack.directory = from.c_str();
  *result = MOERT_PACK_RESULT_INIT;
  REQUIRE_OK(moert_manifest_pack(device.runtime, &pack, result, &error));
  moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
  desc.path = to.c_str();
  ManifestHandle out;
  REQUIRE_OK(moert_manifest_open(device.runtime, &desc, out.out(), &error));
  return out;
}

}  // namespace moert::test
