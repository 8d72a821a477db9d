// SPDX-License-Identifier: Apache-2.0
#include "safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace moert::test {

std::map<std::string, Mat> ReadSafetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) throw std::runtime_error(path + " is too short");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
  const size_t start = sizeof header_size + header_size;
  std::map<std::string, Mat> out;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__" || tensor.at("dtype") != "F32") continue;
    int64_t elements = 1;
    for (int64_t extent : tensor.at("shape")) elements *= extent;
    const bool is_matrix = tensor.at("shape").size() > 1;
    const int64_t rows = is_matrix ? tensor.at("shape")[0].get<int64_t>() : 1;
    Mat mat(rows, rows == 0 ? 0 : elements / rows);
    const size_t begin = start + tensor.at("data_offsets")[0].get<size_t>();
    for (size_t i = 0; i < mat.v.size(); ++i) {
      mat.v[i] = Decode(MOERT_DTYPE_FLOAT32, bytes.data() + begin + i * sizeof(float));
    }
    out.emplace(name, std::move(mat));
  }
  return out;
}

}  // namespace moert::test
