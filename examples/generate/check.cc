// SPDX-License-Identifier: Apache-2.0
// Checks the generator's logits and greedy text against stored references.
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

std::ifstream Open(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return file;
}

// A float32 tensor of a safetensors file: 8 bytes of header length, a JSON header, the data.
std::vector<float> ReadTensor(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file = Open(path);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!file || header_bytes > std::filesystem::file_size(path)) {
    throw std::runtime_error(path.string() + " is not a safetensors file");
  }
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const nlohmann::json tensor = nlohmann::json::parse(header).at(name);
  const uint64_t begin = tensor.at("data_offsets").at(0), end = tensor.at("data_offsets").at(1);
  std::vector<float> values((end - begin) / sizeof(float));
  file.seekg(static_cast<std::streamoff>(sizeof header_bytes + header_bytes + begin));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(end - begin));
  if (!file) throw std::runtime_error(path.string() + " ends inside tensor " + name);
  return values;
}

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// ||a - b|| / ||b||; infinite if the sizes differ.
double RelativeError(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace

bool CheckAgainstReference(const std::string& reference_json, double tolerance,
                           Transformer* transformer) {
  std::ifstream file = Open(reference_json);
  const nlohmann::json reference = nlohmann::json::parse(file);
  const std::string expected = reference.at("greedy");
  std::string text = reference.at("prompt");
  const std::filesystem::path folder = std::filesystem::path(reference_json).parent_path();
  const std::vector<float> expected_logits = ReadTensor(folder / "reference.safetensors", "logits");

  transformer->Reset();
  std::span<const float> logits = transformer->Forward(Bytes(text));
  const double error = RelativeError(logits, expected_logits);
  while (text.size() < expected.size()) {
    const auto last = logits.last(transformer->config().vocab_size);
    text.push_back(static_cast<char>(std::ranges::max_element(last) - last.begin()));
    logits = transformer->Forward(Bytes(text).last(1));
  }
  const auto mismatch = std::ranges::mismatch(text, expected);
  const bool same_text = mismatch.in1 == text.end() && mismatch.in2 == expected.end();
  const bool close = error <= tolerance;

  std::printf("logits: relative error %.2g, %s the tolerance of %.0g\n", error,
              close ? "within" : "ABOVE", tolerance);
  if (same_text) {
    std::printf("text: all %zu bytes equal the reference\n", text.size());
  } else {
    std::printf("text: DIFFERS from the reference at byte %td of %zu\n%s\n",
                mismatch.in1 - text.begin(), expected.size(), text.c_str());
  }
  return same_text && close;
}
