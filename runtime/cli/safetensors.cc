// SPDX-License-Identifier: Apache-2.0
#include "cli/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "cli/file.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxHeader = 100'000'000;  // as the format's own library
constexpr size_t kMaxNames = 8;               // listed in an error

// The header's JSON object; `data_begin` is where offsets count from.
Status ReadHeader(const InputFile& file, const std::string& path, Json* header,
                  uint64_t* data_begin) {
  const uint64_t size = file.size();
  uint64_t length = 0;
  if (size < sizeof(length)) {
    return Status::Format("%s has %llu bytes, too few for a safetensors file", path.c_str(),
                          static_cast<unsigned long long>(size));
  }
  MOERT_CLI_TRY(file.ReadAt(0, &length, sizeof(length)));
  const uint64_t limit = std::min(size - sizeof(length), kMaxHeader);
  if (length == 0 || length > limit) {
    return Status::Format("%s is no safetensors file: header length %llu is not from 1 to %llu",
                          path.c_str(), static_cast<unsigned long long>(length),
                          static_cast<unsigned long long>(limit));
  }
  std::string text(length, '\0');
  MOERT_CLI_TRY(file.ReadAt(sizeof(length), text.data(), length));
  std::set<std::string> names;
  std::string twice;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  *header = Json::parse(text, check, /*allow_exceptions=*/false);
  if (!header->is_object()) {
    return Status::Format("%s is no safetensors file: its header is not a JSON object",
                          path.c_str());
  }
  if (!twice.empty()) {
    return Status::Format("%s names tensor \"%s\" twice", path.c_str(), twice.c_str());
  }
  *data_begin = sizeof(length) + length;
  return Status();
}

std::string Names(const Json& header) {
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    if (++count > kMaxNames) return names + ", ...";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "none" : names;
}

moert_dtype ParseStoredDtype(const Json& name) {
  if (!name.is_string()) return MOERT_DTYPE_NONE;
  for (moert_dtype dtype = MOERT_DTYPE_FLOAT32; moert_dtype_bits(dtype) != 0; ++dtype) {
    if (name.get_ref<const std::string&>() == moert_dtype_name(dtype)) return dtype;
  }
  return MOERT_DTYPE_NONE;
}

// Fills dtype and shape, and gives the tensor's place behind the header.
Status ReadEntry(const Json& entry, const std::string& where, uint64_t data_bytes, Tensor* out,
                 uint64_t* offset, uint64_t* bytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Status::Format("%s lacks dtype, shape or data_offsets", where.c_str());
  }
  out->dtype = ParseStoredDtype(entry["dtype"]);
  if (out->dtype == MOERT_DTYPE_NONE) {
    return Status::Format("%s has an unknown dtype %s", where.c_str(),
                          entry["dtype"].dump().c_str());
  }
  uint64_t bits = moert_dtype_bits(out->dtype);
  for (const Json& extent : entry["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX ||
        __builtin_mul_overflow(bits, extent.get<uint64_t>(), &bits)) {
      return Status::Format("%s has an impossible shape %s", where.c_str(),
                            entry["shape"].dump().c_str());
    }
    out->shape.push_back(extent.get<int64_t>());
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned() || offsets[0] > offsets[1] ||
      offsets[1].get<uint64_t>() > data_bytes ||
      offsets[1].get<uint64_t>() - offsets[0].get<uint64_t>() != bits / 8 || bits % 8 != 0) {
    return Status::Format("%s: data_offsets %s do not hold shape %s of %s inside %llu bytes",
                          where.c_str(), offsets.dump().c_str(), entry["shape"].dump().c_str(),
                          moert_dtype_name(out->dtype),
                          static_cast<unsigned long long>(data_bytes));
  }
  *offset = offsets[0].get<uint64_t>();
  *bytes = bits / 8;
  return Status();
}

std::string Header(std::span<const Tensor> tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", moert_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Status ReadTensor(const std::string& path, const std::string& name, Tensor* out) {
  InputFile file;
  MOERT_CLI_TRY(file.Open(path));
  Json header;
  uint64_t data_begin = 0;
  MOERT_CLI_TRY(ReadHeader(file, path, &header, &data_begin));
  if (name == "__metadata__" || !header.contains(name)) {
    return Status::Format("%s has no tensor \"%s\"; it has %s", path.c_str(), name.c_str(),
                          Names(header).c_str());
  }
  Tensor tensor;
  tensor.name = name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  MOERT_CLI_TRY(ReadEntry(header[name], path + ":" + name, file.size() - data_begin, &tensor,
                          &offset, &bytes));
  tensor.data.resize(bytes);
  MOERT_CLI_TRY(file.ReadAt(data_begin + offset, tensor.data.data(), bytes));
  *out = std::move(tensor);
  return Status();
}

Status WriteTensors(const std::string& path, std::span<const Tensor> tensors) {
  const std::string header = Header(tensors);
  const uint64_t length = header.size();
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&length), sizeof(length)},
                                         header};
  for (const Tensor& tensor : tensors) {
    parts.emplace_back(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return WriteWholeFile(path, parts);
}

}  // namespace moert::cli
