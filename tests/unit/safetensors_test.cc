// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is accepted, and that each fault has its own code and is
// named.
#include "manifest/safetensors.h"

#include "manifest_support.h"

namespace moert {
namespace {

// Reads `bytes` as a file would be.
class BytesFile final : public File {
 public:
  explicit BytesFile(std::string bytes) : bytes_(std::move(bytes)) { size_ = bytes_.size(); }
  Status Read(uint64_t offset, void* buffer, uint64_t bytes) const override {
    REQUIRE(offset + bytes <= bytes_.size());
    memcpy(buffer, bytes_.data() + offset, bytes);
    return Status();
  }

 private:
  std::string bytes_;
};

std::vector<SafetensorsTensor> tensors;

Status Parse(const std::string& file, bool allow_holes = false) {
  return ReadSafetensorsHeader("x.safetensors", BytesFile(file), allow_holes, &tensors);
}
Status ParseHeader(std::string_view header, size_t data_bytes = 0, bool allow_holes = false) {
  return Parse(Safetensors(header, std::string(data_bytes, '\1')), allow_holes);
}
std::string WithLength(uint64_t length, std::string_view rest) {
  return std::string(reinterpret_cast<const char*>(&length), 8).append(rest);
}

TEST_CASE("tensors are read in any order, with metadata and at odd offsets") {
  CheckOk(ParseHeader(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},
    "__metadata__":{"format":"pt"},
    "a":{"shape":[3],"data_offsets":[0,3],"dtype":"U8"},
    "none":{"dtype":"BF16","shape":[0,7],"data_offsets":[11,11]},
    "scalar":{"dtype":"I64","shape":[],"data_offsets":[11,19]}}  )",
                      19));
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "b");
  CHECK(tensors[0].dtype == MOERT_DTYPE_FLOAT32);
  CHECK(tensors[0].shape == std::vector<int64_t>{2});
  CHECK(tensors[0].bytes == 8);
  CHECK(tensors[0].offset - tensors[1].offset == 3);
  CHECK(tensors[2].bytes == 0);
  CHECK(tensors[3].shape.empty());
}

TEST_CASE("a file without tensors is read") { CheckOk(ParseHeader("{}")); }

TEST_CASE("a header length that does not fit is refused before anything is allocated") {
  CheckCorrupt(Parse("1234567"), MOERT_CORRUPTION_TRUNCATED, "7 bytes");
  CheckCorrupt(Parse(""), MOERT_CORRUPTION_TRUNCATED, "0 bytes");
  for (const uint64_t length : {uint64_t{0}, uint64_t{3}, UINT64_MAX - 4, UINT64_MAX}) {
    CheckCorrupt(Parse(WithLength(length, "{}")), MOERT_CORRUPTION_HEADER_LENGTH,
                 std::to_string(length));
  }
}

TEST_CASE("a header that is not a JSON object is refused") {
  for (const char* header : {"[]", "3", "\"a\"", "null", "{", "{\"a\"", "{} x", " {}",
                             "{\"a\":1e999}", "{\"\xff\":{}}"}) {
    CAPTURE(std::string(header));
    CHECK(ParseHeader(header).code() == MOERT_STATUS_CORRUPT_DATA);
    CHECK(ParseHeader(header).native_code() == MOERT_CORRUPTION_HEADER_SYNTAX);
  }
  CheckCorrupt(ParseHeader("{" + std::string(100000, '[')), MOERT_CORRUPTION_HEADER_SYNTAX, "JSON");
  CheckCorrupt(ParseHeader("{}" + std::string(6, '\0')), MOERT_CORRUPTION_HEADER_SYNTAX, "NUL");
  CheckCorrupt(ParseHeader("{}" + std::string(1, '\0') + R"({"a":1})"),
               MOERT_CORRUPTION_HEADER_SYNTAX, "NUL");
}

TEST_CASE("a name that stands twice is refused, with the same and with other offsets") {
  const char* same = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                         "a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  CheckCorrupt(ParseHeader(same, 4), MOERT_CORRUPTION_DUPLICATE_KEY, "duplicate key: tensor 'a'");
  const char* other = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                          "a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  CheckCorrupt(ParseHeader(other, 8), MOERT_CORRUPTION_DUPLICATE_KEY, "duplicate key: tensor 'a'");
  CheckCorrupt(ParseHeader(R"({"a":{"dtype":"U8","dtype":"U8"}})"), MOERT_CORRUPTION_DUPLICATE_KEY,
               "tensor 'a': duplicate key 'dtype'");
  CheckCorrupt(ParseHeader(R"({"__metadata__":{},"__metadata__":{}})"),
               MOERT_CORRUPTION_DUPLICATE_KEY, "__metadata__");
  CheckCorrupt(ParseHeader(R"({"__metadata__":{"k":"1","k":"1"}})"), MOERT_CORRUPTION_DUPLICATE_KEY,
               "'k'");
}

TEST_CASE("a field that is missing, unknown or of the wrong type is refused and named") {
  const struct {
    const char* tensor;
    const char* part;
  } cases[] = {{R"({"shape":[1],"data_offsets":[0,1]})", "no dtype"},
               {R"({"dtype":"U8","data_offsets":[0,1]})", "no shape"},
               {R"({"dtype":"U8","shape":[1]})", "no data_offsets"},
               {R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})", "'x'"},
               {R"({"dtype":7,"shape":[1],"data_offsets":[0,1]})", "dtype: found a number"},
               {R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", "shape: found a number"},
               {R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", "a negative number"},
               {R"({"dtype":"U8","shape":[1.5],"data_offsets":[0,1]})", "not whole"},
               {R"({"dtype":"U8","shape":[[1]],"data_offsets":[0,1]})", "a list"},
               {R"({"dtype":{},"shape":[1],"data_offsets":[0,1]})", "an object"},
               {"3", "found a number where an object belongs"},
               {"null", "found null"}};
  for (const auto& entry : cases) {
    CheckCorrupt(ParseHeader("{\"t\":" + std::string(entry.tensor) + "}", 1),
                 MOERT_CORRUPTION_FIELD, entry.part);
    CheckCorrupt(ParseHeader("{\"t\":" + std::string(entry.tensor) + "}", 1),
                 MOERT_CORRUPTION_FIELD, "'t'");
  }
  CheckCorrupt(ParseHeader(R"({"__metadata__":{"a":1}})"), MOERT_CORRUPTION_FIELD, "__metadata__");
}

TEST_CASE("offsets that are not two ordered whole numbers inside the file are refused") {
  for (const char* offsets :
       {"[4,0]", "[0]", "[0,4,8]", "[]", "[-1,3]", "[0,1e30]", "[0,4.0]", "\"0,4\"", "[\"0\",4]",
        "[0,99999999999999999999999]", "[8,12]", "[18446744073709551611,18446744073709551615]"}) {
    CAPTURE(std::string(offsets));
    const std::string header =
        R"({"t":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(offsets) + "}}";
    CheckCorrupt(ParseHeader(header, 4), MOERT_CORRUPTION_OFFSETS, "'t'");
  }
}

TEST_CASE("a file cut short is refused") {
  const std::string file = MakeSafetensors({{"a", {4}}, {"b", {5}}});
  CheckOk(Parse(file));
  CheckCorrupt(Parse(file.substr(0, file.size() - 1)), MOERT_CORRUPTION_TRUNCATED, "'b'");
}

TEST_CASE("a byte count that shape and dtype do not give is refused") {
  CheckCorrupt(ParseHeader(R"({"t":{"dtype":"F64","shape":[4],"data_offsets":[0,16]}})", 16),
               MOERT_CORRUPTION_SIZE_MISMATCH, "span 16 bytes, shape and dtype give 32");
  CheckCorrupt(ParseHeader(R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1),
               MOERT_CORRUPTION_SIZE_MISMATCH, "odd count");
}

TEST_CASE("a size that passes 64 bits is refused") {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]",
                            "[9223372036854775807]", "[18446744073709551615]"}) {
    CAPTURE(std::string(shape));
    const std::string header =
        R"({"t":{"dtype":"F32","data_offsets":[0,4],"shape":)" + std::string(shape) + "}}";
    CheckCorrupt(ParseHeader(header, 4), MOERT_CORRUPTION_OVERFLOW, "'t'");
  }
}

TEST_CASE("an unknown dtype is refused") {
  CheckCorrupt(ParseHeader(R"({"t":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4),
               MOERT_CORRUPTION_DTYPE, "'F33'");
}

TEST_CASE("two tensors that share bytes are refused") {
  const auto two = [](const char* first, const char* second) {
    return R"({"a":{"dtype":"U8","shape":[64],"data_offsets":)" + std::string(first) +
           R"(},"b":{"dtype":"U8","shape":[64],"data_offsets":)" + second + "}}";
  };
  CheckCorrupt(ParseHeader(two("[0,64]", "[0,64]"), 64), MOERT_CORRUPTION_OVERLAP, "'a' and 'b'");
  CheckCorrupt(ParseHeader(two("[0,64]", "[32,96]"), 96), MOERT_CORRUPTION_OVERLAP, "'a' and 'b'");
  CheckCorrupt(ParseHeader(two("[32,96]", "[0,64]"), 96, true), MOERT_CORRUPTION_OVERLAP,
               "'b' and 'a'");
}

TEST_CASE("bytes of no tensor are refused unless holes are allowed") {
  const char* middle = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                           "b":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}})";
  CheckCorrupt(ParseHeader(middle, 16), MOERT_CORRUPTION_HOLE, "8 bytes before tensor 'b'");
  CheckOk(ParseHeader(middle, 16, true));
  const char* end = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  CheckCorrupt(ParseHeader(end, 12), MOERT_CORRUPTION_HOLE, "last 8 bytes");
  CheckOk(ParseHeader(end, 12, true));
}

TEST_CASE("a shard index is read, and refused where it is not one") {
  std::vector<ShardEntry> entries;
  CheckOk(ParseShardIndex("i", R"({"metadata":{"total_size":1,"x":[1,{"weight_map":2}]},
    "weight_map":{"b":"2.safetensors","a":"1.safetensors"}})",
                          &entries));
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].tensor == "a");
  CHECK(entries[0].shard == "1.safetensors");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":{"a":"1","a":"2"}})", &entries),
               MOERT_CORRUPTION_DUPLICATE_KEY, "'a'");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":{},"weight_map":{}})", &entries),
               MOERT_CORRUPTION_DUPLICATE_KEY, "weight_map");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":{"a":3}})", &entries), MOERT_CORRUPTION_FIELD,
               "a");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":[]})", &entries), MOERT_CORRUPTION_FIELD,
               "a list");
  CheckCorrupt(ParseShardIndex("i", R"({})", &entries), MOERT_CORRUPTION_FIELD, "no weight_map");
  CheckCorrupt(ParseShardIndex("i", R"([])", &entries), MOERT_CORRUPTION_HEADER_SYNTAX, "a list");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":{}})" + std::string(1, '\0'), &entries),
               MOERT_CORRUPTION_HEADER_SYNTAX, "NUL");
  CheckCorrupt(ParseShardIndex("i", R"({"weight_map":)", &entries), MOERT_CORRUPTION_HEADER_SYNTAX,
               "JSON");
}

}  // namespace
}  // namespace moert
