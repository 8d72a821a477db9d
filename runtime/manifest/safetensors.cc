// SPDX-License-Identifier: Apache-2.0
#include "manifest/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/checked_math.h"

namespace moert {
namespace {

using Json = nlohmann::json;

unsigned long long Print(uint64_t value) { return value; }

moert_dtype DtypeByName(const std::string& name) {
  for (moert_dtype dtype = MOERT_DTYPE_FLOAT32; dtype <= MOERT_DTYPE_COMPLEX64; ++dtype) {
    if (name == moert_dtype_name(dtype)) return dtype;
  }
  return MOERT_DTYPE_NONE;
}

// Events of a JSON text, each refused unless a subclass takes it. The first refusal is
// kept.
class Events : public nlohmann::json_sax<Json> {
 public:
  explicit Events(const char* name) : name_(name) {}
  Status& status() { return status_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return Unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not whole");
  }
  bool string(string_t&) override { return Unexpected("a string"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool start_object(size_t) override { return Unexpected("an object"); }
  bool start_array(size_t) override { return Unexpected("a list"); }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    return Refuse(CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX,
                              "'%s': not valid JSON at byte %llu: %s", name_, Print(position),
                              error.what()));
  }

 protected:
  virtual bool Unexpected(const char* found) = 0;
  bool Refuse(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  const char* name_;

 private:
  Status status_;
};

// { "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {...} }
class HeaderEvents final : public Events {
 public:
  HeaderEvents(const char* name, std::vector<SafetensorsTensor>* out) : Events(name), out_(out) {}

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ == Place::kValue) {
      place_ = in_metadata_ ? Place::kMetadata : Place::kTensor;
      return true;
    }
    return Unexpected("an object");
  }

  bool key(string_t& key) override {
    if (place_ == Place::kTop) return TopKey(key);
    if (place_ == Place::kMetadata) {
      field_ = key;
      metadata_keys_.push_back(key);
      return true;
    }
    return TensorKey(key);
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ == Place::kTensor && !FinishTensor()) return false;
    place_ = Place::kTop;
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != "dtype") return Unexpected("a string");
    out_->back().dtype = DtypeByName(value);
    if (out_->back().dtype == MOERT_DTYPE_NONE) {
      return Refuse(CorruptData(MOERT_CORRUPTION_DTYPE,
                                "'%s': tensor '%s': dtype '%.64s' is not known", name_,
                                tensor_name(), value.c_str()));
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return Unexpected("a list");
    place_ = Place::kList;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kList) return Unexpected("a number");
    if (field_ == "data_offsets") {
      if (num_offsets_ < 2) offsets_[num_offsets_] = value;
      ++num_offsets_;
      return true;
    }
    if (value > INT64_MAX) {
      return Refuse(CorruptData(MOERT_CORRUPTION_OVERFLOW,
                                "'%s': tensor '%s': extent %llu passes 63 bits", name_,
                                tensor_name(), Print(value)));
    }
    out_->back().shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  const std::vector<std::string>& metadata_keys() const { return metadata_keys_; }

 private:
  enum class Place { kStart, kTop, kValue, kTensor, kList, kMetadata, kEnd };

  const char* tensor_name() const {
    return in_metadata_ ? "__metadata__" : out_->back().name.c_str();
  }

  bool Unexpected(const char* found) override {
    if (place_ == Place::kStart) {
      return Refuse(CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX,
                                "'%s': the header is %s, not an object", name_, found));
    }
    const bool offsets = !in_metadata_ && place_ != Place::kValue && field_ == "data_offsets";
    const char* wanted = place_ == Place::kValue ? "an object"
                         : in_metadata_          ? "a string"
                         : field_ == "dtype"     ? "a string"
                                                 : "a list of whole numbers that are not negative";
    return Refuse(CorruptData(offsets ? MOERT_CORRUPTION_OFFSETS : MOERT_CORRUPTION_FIELD,
                              "'%s': tensor '%s'%s%s: found %s where %s belongs", name_,
                              tensor_name(), place_ == Place::kValue ? "" : ": ",
                              place_ == Place::kValue ? "" : field_.c_str(), found, wanted));
  }

  bool TopKey(string_t& key) {
    place_ = Place::kValue;
    in_metadata_ = key == "__metadata__";
    if (in_metadata_) {
      if (has_metadata_) return Duplicate("__metadata__");
      has_metadata_ = true;
      return true;
    }
    if (key.find('\0') != std::string::npos || key.empty() || key.size() > 65536) {
      return Refuse(CorruptData(MOERT_CORRUPTION_FIELD,
                                "'%s': tensor number %llu: a name has 1 to 65536 bytes and no NUL",
                                name_, Print(out_->size())));
    }
    out_->emplace_back();
    out_->back().name = std::move(key);
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    num_offsets_ = 0;
    return true;
  }

  bool TensorKey(string_t& key) {
    bool* seen = key == "dtype"          ? &seen_dtype_
                 : key == "shape"        ? &seen_shape_
                 : key == "data_offsets" ? &seen_offsets_
                                         : nullptr;
    if (seen == nullptr) {
      return Refuse(
          CorruptData(MOERT_CORRUPTION_FIELD,
                      "'%s': tensor '%s': field '%.64s' is not dtype, shape or data_offsets", name_,
                      tensor_name(), key.c_str()));
    }
    if (*seen) return Duplicate(key.c_str());
    *seen = true;
    field_ = std::move(key);
    return true;
  }

  bool Duplicate(const char* key) {
    return Refuse(CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY,
                              "'%s': tensor '%s': duplicate key '%s'", name_, tensor_name(), key));
  }

  bool FinishTensor() {
    SafetensorsTensor& tensor = out_->back();
    const char* missing = !seen_dtype_     ? "dtype"
                          : !seen_shape_   ? "shape"
                          : !seen_offsets_ ? "data_offsets"
                                           : nullptr;
    if (missing != nullptr) {
      return Refuse(CorruptData(MOERT_CORRUPTION_FIELD, "'%s': tensor '%s' has no %s", name_,
                                tensor_name(), missing));
    }
    if (num_offsets_ != 2) {
      return Refuse(CorruptData(MOERT_CORRUPTION_OFFSETS,
                                "'%s': tensor '%s': data_offsets has %llu entries instead of 2",
                                name_, tensor_name(), Print(num_offsets_)));
    }
    if (offsets_[1] < offsets_[0]) {
      return Refuse(CorruptData(MOERT_CORRUPTION_OFFSETS,
                                "'%s': tensor '%s': data_offsets end %llu is below begin %llu",
                                name_, tensor_name(), Print(offsets_[1]), Print(offsets_[0])));
    }
    tensor.offset = offsets_[0];
    tensor.bytes = offsets_[1] - offsets_[0];
    return true;
  }

  std::vector<SafetensorsTensor>* out_;
  std::vector<std::string> metadata_keys_;
  std::string field_;
  Place place_ = Place::kStart;
  bool in_metadata_ = false, has_metadata_ = false;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
  uint64_t num_offsets_ = 0;
  uint64_t offsets_[2] = {0, 0};
};

// The parser takes a NUL for the end of the text and would leave what follows unread.
Status CheckNoNul(const char* name, std::string_view json) {
  const size_t at = json.find('\0');
  if (at == std::string_view::npos) return Status();
  return CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "'%s': not valid JSON: byte %llu is NUL", name,
                     Print(at));
}

Status CheckSizes(const char* name, const SafetensorsTensor& tensor) {
  uint64_t elements = 0, bytes = 0;
  if (!TensorBytes(tensor.dtype, tensor.shape.data(), tensor.shape.size(), &elements, &bytes)) {
    uint64_t product = 1;
    for (const int64_t extent : tensor.shape) {
      if (!CheckedMultiply(product, static_cast<uint64_t>(extent), &product)) break;
    }
    const bool odd = uint64_t{moert_dtype_bits(tensor.dtype)} % 8 != 0 && product % 2 != 0;
    return odd ? CorruptData(MOERT_CORRUPTION_SIZE_MISMATCH,
                             "'%s': tensor '%s': an odd count of %s elements fills no whole byte",
                             name, tensor.name.c_str(), moert_dtype_name(tensor.dtype))
               : CorruptData(MOERT_CORRUPTION_OVERFLOW,
                             "'%s': tensor '%s': the size of its shape passes 64 bits", name,
                             tensor.name.c_str());
  }
  if (bytes != tensor.bytes) {
    return CorruptData(MOERT_CORRUPTION_SIZE_MISMATCH,
                       "'%s': tensor '%s': data_offsets span %llu bytes, shape and dtype give %llu",
                       name, tensor.name.c_str(), Print(tensor.bytes), Print(bytes));
  }
  return Status();
}

Status CheckNames(const char* name, const std::vector<SafetensorsTensor>& tensors,
                  std::vector<std::string> metadata_keys) {
  std::vector<std::string_view> names(tensors.size());
  std::transform(tensors.begin(), tensors.end(), names.begin(),
                 [](const SafetensorsTensor& tensor) { return std::string_view(tensor.name); });
  std::sort(names.begin(), names.end());
  const auto same = std::adjacent_find(names.begin(), names.end());
  if (same != names.end()) {
    return CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY,
                       "'%s': duplicate key: tensor '%.*s' stands twice", name,
                       static_cast<int>(same->size()), same->data());
  }
  std::sort(metadata_keys.begin(), metadata_keys.end());
  const auto twice = std::adjacent_find(metadata_keys.begin(), metadata_keys.end());
  if (twice != metadata_keys.end()) {
    return CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY, "'%s': duplicate key '%s' in __metadata__",
                       name, twice->c_str());
  }
  return Status();
}

// Bytes that the tensors, ordered by offset, cover: in order, without overlap, without holes.
Status CheckCoverage(const char* name, const std::vector<SafetensorsTensor>& tensors,
                     uint64_t data_size, bool allow_holes) {
  std::vector<const SafetensorsTensor*> order;
  order.reserve(tensors.size());
  uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.bytes != 0) order.push_back(&tensor);
    if (tensor.bytes == 0 && tensor.offset > data_size) {
      return CorruptData(
          MOERT_CORRUPTION_OFFSETS,
          "'%s': tensor '%s': data_offsets begin %llu is past the %llu bytes of data", name,
          tensor.name.c_str(), Print(tensor.offset), Print(data_size));
    }
  }
  std::sort(order.begin(), order.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->name < b->name;
  });
  const SafetensorsTensor* previous = nullptr;
  for (const SafetensorsTensor* tensor : order) {
    const uint64_t end = tensor->offset + tensor->bytes;  // both came from two ordered numbers
    if (previous != nullptr && tensor->offset < covered) {
      return CorruptData(MOERT_CORRUPTION_OVERLAP, "'%s': tensors '%s' and '%s' overlap", name,
                         previous->name.c_str(), tensor->name.c_str());
    }
    if (end > data_size) {
      const bool contiguous = tensor->offset == covered;
      return CorruptData(contiguous ? MOERT_CORRUPTION_TRUNCATED : MOERT_CORRUPTION_OFFSETS,
                         "'%s': tensor '%s' ends at byte %llu of the data, the file has %llu", name,
                         tensor->name.c_str(), Print(end), Print(data_size));
    }
    if (tensor->offset > covered && !allow_holes) {
      return CorruptData(MOERT_CORRUPTION_HOLE,
                         "'%s': %llu bytes before tensor '%s' belong to no tensor", name,
                         Print(tensor->offset - covered), tensor->name.c_str());
    }
    covered = end;
    previous = tensor;
  }
  if (covered < data_size && !allow_holes) {
    return CorruptData(MOERT_CORRUPTION_HOLE, "'%s': the last %llu bytes belong to no tensor", name,
                       Print(data_size - covered));
  }
  return Status();
}

// {"metadata": {...}, "weight_map": {"NAME": "SHARD"}}
class IndexEvents final : public Events {
 public:
  IndexEvents(const char* name, std::vector<ShardEntry>* out) : Events(name), out_(out) {}
  bool seen_map() const { return seen_map_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("true or false"); }
  bool number_integer(number_integer_t) override { return Scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Scalar("a number"); }
  bool string(string_t& value) override {
    if (depth_ == 2 && in_map_) {
      out_->back().shard = std::move(value);
      return true;
    }
    return Scalar("a string");
  }
  bool start_array(size_t) override {
    if (depth_ == 0 || in_map_) return Unexpected("a list");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool start_object(size_t) override {
    if (in_map_ && depth_ == 2) return Unexpected("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == 1) {
      in_map_ = key == "weight_map";
      if (in_map_ && seen_map_) {
        return Refuse(
            CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY, "'%s': duplicate key 'weight_map'", name_));
      }
      seen_map_ = seen_map_ || in_map_;
    } else if (in_map_) {
      out_->push_back({std::move(key), std::string()});
    }
    return true;
  }

 private:
  bool Scalar(const char* found) { return depth_ == 0 || in_map_ ? Unexpected(found) : true; }
  bool Unexpected(const char* found) override {
    if (depth_ == 0) {
      return Refuse(
          CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "'%s' is %s, not an object", name_, found));
    }
    return Refuse(CorruptData(
        MOERT_CORRUPTION_FIELD, "'%s': weight_map%s%s: found %s where a shard's name belongs",
        name_, out_->empty() ? "" : ": ", out_->empty() ? "" : out_->back().tensor.c_str(), found));
  }

  std::vector<ShardEntry>* out_;
  int64_t depth_ = 0;
  bool in_map_ = false, seen_map_ = false;
};

}  // namespace

bool TensorBytes(moert_dtype dtype, const int64_t* shape, uint64_t rank, uint64_t* elements,
                 uint64_t* bytes) {
  // A zero extent gives zero whatever the others are.
  uint64_t count = 1;
  const bool empty = std::find(shape, shape + rank, 0) != shape + rank;
  for (uint64_t i = 0; i < rank && !empty; ++i) {
    if (!CheckedMultiply(count, static_cast<uint64_t>(shape[i]), &count)) return false;
  }
  *elements = empty ? 0 : count;
  uint64_t bits = 0;
  if (!CheckedMultiply(*elements, uint64_t{moert_dtype_bits(dtype)}, &bits)) return false;
  *bytes = bits / 8;
  return bits % 8 == 0;
}

Status ParseSafetensorsHeader(const char* name, std::string_view json, uint64_t file_size,
                              bool allow_holes, std::vector<SafetensorsTensor>* out) {
  out->clear();
  if (json.empty() || json.front() != '{') {
    return CorruptData(MOERT_CORRUPTION_HEADER_SYNTAX, "'%s': the header does not begin with '{'",
                       name);
  }
  MOERT_RETURN_IF_ERROR(CheckNoNul(name, json));
  HeaderEvents events(name, out);
  if (!Json::sax_parse(json.begin(), json.end(), &events)) return std::move(events.status());
  MOERT_RETURN_IF_ERROR(CheckNames(name, *out, events.metadata_keys()));
  for (const SafetensorsTensor& tensor : *out) MOERT_RETURN_IF_ERROR(CheckSizes(name, tensor));
  const uint64_t data_begin = 8 + json.size();
  MOERT_RETURN_IF_ERROR(CheckCoverage(name, *out, file_size - data_begin, allow_holes));
  for (SafetensorsTensor& tensor : *out) tensor.offset += data_begin;
  return Status();
}

Status ReadSafetensorsHeader(const char* name, const File& file, bool allow_holes,
                             std::vector<SafetensorsTensor>* out) {
  uint8_t bytes[8];
  if (file.size() < sizeof bytes) {
    return CorruptData(
        MOERT_CORRUPTION_TRUNCATED,
        "'%s' has %llu bytes; a safetensors file begins with 8 bytes of header length", name,
        Print(file.size()));
  }
  MOERT_RETURN_IF_ERROR(file.Read(0, bytes, sizeof bytes));
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= uint64_t{bytes[i]} << (8 * i);
  if (length == 0 || length > file.size() - sizeof bytes || length > kMaxSafetensorsHeader) {
    return CorruptData(MOERT_CORRUPTION_HEADER_LENGTH,
                       "'%s': header length %llu is not between 1 and the %llu bytes that follow "
                       "(at most %llu)",
                       name, Print(length), Print(file.size() - sizeof bytes),
                       Print(kMaxSafetensorsHeader));
  }
  std::string json(length, '\0');
  MOERT_RETURN_IF_ERROR(file.Read(sizeof bytes, json.data(), length));
  return ParseSafetensorsHeader(name, json, file.size(), allow_holes, out);
}

Status ParseShardIndex(const char* name, std::string_view json, std::vector<ShardEntry>* out) {
  out->clear();
  MOERT_RETURN_IF_ERROR(CheckNoNul(name, json));
  IndexEvents events(name, out);
  if (!Json::sax_parse(json.begin(), json.end(), &events)) return std::move(events.status());
  if (!events.seen_map()) {
    return CorruptData(MOERT_CORRUPTION_FIELD, "'%s' has no weight_map", name);
  }
  std::sort(out->begin(), out->end(),
            [](const ShardEntry& a, const ShardEntry& b) { return a.tensor < b.tensor; });
  const auto twice = std::adjacent_find(
      out->begin(), out->end(),
      [](const ShardEntry& a, const ShardEntry& b) { return a.tensor == b.tensor; });
  if (twice != out->end()) {
    return CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY,
                       "'%s': duplicate key: tensor '%s' stands twice", name,
                       twice->tensor.c_str());
  }
  return Status();
}

}  // namespace moert
