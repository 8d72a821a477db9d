// SPDX-License-Identifier: Apache-2.0
// The foundations: status, allocator, handles, the struct_size rule, 16-bit conversions, the roles.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backend/roles.h"
#include "core/caller_struct.h"
#include "core/dtype.h"
#include "core/free_callback.h"
#include "core/handle.h"
#include "core/status.h"

namespace moert {
namespace {

TEST_CASE("a failed status carries code, native code and text into the caller's error") {
  const Status status = IoError(13, "cannot read \"%s\"", "a.bin");
  moert_error error = MOERT_ERROR_INIT;
  CHECK(status.Report(&error) == MOERT_STATUS_IO_ERROR);
  CHECK(error.code == MOERT_STATUS_IO_ERROR);
  CHECK(error.native_code == 13);
  CHECK(std::string(error.message) == "cannot read \"a.bin\"");
}

TEST_CASE("success leaves the caller's error untouched") {
  moert_error error = MOERT_ERROR_INIT;
  std::memset(error.message, 'x', sizeof(error.message));
  CHECK(Status().Report(&error) == MOERT_STATUS_OK);
  CHECK(error.message[0] == 'x');
}

TEST_CASE("an error struct of struct_size 0 is taken as a whole one") {
  moert_error error;
  std::memset(&error, 0, sizeof(error));
  CHECK(InvalidArgument("top_k %d", 9).Report(&error) == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(error.struct_size == sizeof(moert_error));
  CHECK(std::string(error.message) == "top_k 9");
}

TEST_CASE("a shorter error struct is written up to its size and its text still ends") {
  moert_error error = MOERT_ERROR_INIT;
  std::memset(error.message, 'x', sizeof(error.message));
  error.struct_size = 16 + 8;
  CHECK(InvalidArgument("0123456789").Report(&error) == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(error.message) == "0123456");
  CHECK(error.message[8] == 'x');
}

TEST_CASE("a text longer than the error's is cut, not overrun") {
  const std::string text(5000, 'a');
  moert_error error = MOERT_ERROR_INIT;
  (void)NotFound("%s", text.c_str()).Report(&error);
  CHECK(std::strlen(error.message) == sizeof(error.message) - 1);
}

TEST_CASE("a shorter struct is extended with zeros") {
  moert_routing in = MOERT_ROUTING_INIT, out;
  in.num_experts = 8;
  in.input_multiplier = 3;
  in.struct_size = offsetof(moert_routing, top_k);
  CHECK(ReadCallerStruct("moert_routing", in, &out).ok());
  CHECK(out.num_experts == 8);
  CHECK(out.input_multiplier == 0);
  CHECK(out.struct_size == sizeof(moert_routing));
}

TEST_CASE("a longer struct is accepted only with a zero tail") {
  struct Longer {
    moert_gate_desc desc;
    uint64_t unknown;
  } in{MOERT_GATE_DESC_INIT, 0};
  in.desc.struct_size = sizeof(in);
  in.desc.width = 5;
  moert_gate_desc out;
  CHECK(ReadCallerStruct("moert_gate_desc", in.desc, &out).ok());
  CHECK(out.width == 5);
  in.unknown = uint64_t{1} << 40;
  const Status status = ReadCallerStruct("moert_gate_desc", in.desc, &out);
  CHECK(status.code() == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(status.message()).find("byte 37 is not zero") != std::string::npos);
}

TEST_CASE("a struct_size of 0 is refused and its value named") {
  moert_routing in = MOERT_ROUTING_INIT, out;
  in.struct_size = 0;
  const Status status = ReadCallerStruct("moert_routing", in, &out);
  CHECK(status.code() == MOERT_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(status.message()).find("struct_size is 0") != std::string::npos);
}

struct Counter {
  int64_t live = 0;
  int freed = 0;
};

moert_allocator CountingAllocator(Counter* counter) {
  moert_allocator host = MOERT_ALLOCATOR_INIT;
  host.user_data = counter;
  host.alloc = [](void* user, uint64_t bytes, uint64_t alignment) -> void* {
    static_cast<Counter*>(user)->live += static_cast<int64_t>(bytes);
    return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
  };
  host.free = [](void* user, void* block, uint64_t bytes, uint64_t alignment) {
    static_cast<Counter*>(user)->live -= static_cast<int64_t>(bytes);
    ::operator delete(block, std::align_val_t(alignment));
  };
  return host;
}

TEST_CASE("the host's allocator gets back every block with the size it was asked for with") {
  Counter counter;
  const moert_allocator host = CountingAllocator(&counter);
  Allocator allocator(&host);
  {
    std::pmr::vector<int> numbers(1000, 7, &allocator);
    Buffer buffer;
    CHECK(buffer.Allocate(allocator, 12345));
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment == 0);
    CHECK(counter.live >= 4000 + 12345);
  }
  CHECK(counter.live == 0);
}

struct Thing final : Handle {
  explicit Thing(int* destroyed) : destroyed_(destroyed) {}
  ~Thing() override { ++*destroyed_; }
  int* destroyed_;
};

TEST_CASE("a size that no heap has is refused, also where rounding it up passes 64 bits") {
  Allocator allocator(nullptr);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 254, SIZE_MAX / 2 + 1}) {
    CHECK(allocator.TryAllocate(bytes, Buffer::kAlignment) == nullptr);
    Buffer buffer;
    CHECK_FALSE(buffer.Allocate(allocator, bytes));
    CHECK(buffer.size() == 0);
  }
}

TEST_CASE("a handle is destroyed by its last release") {
  Counter counter;
  const moert_allocator host = CountingAllocator(&counter);
  Allocator allocator(&host);
  int destroyed = 0;
  Thing* thing = MakeHandle<Thing>(allocator, &destroyed);
  auto second = Ref<Thing>::Retain(thing);
  thing->Release();
  CHECK(destroyed == 0);
  second = Ref<Thing>();
  CHECK(destroyed == 1);
  CHECK(counter.live == 0);
}

TEST_CASE("a free callback runs exactly once however often it is moved") {
  int freed = 0;
  {
    FreeCallback first([](void* count) { ++*static_cast<int*>(count); }, &freed);
    FreeCallback second(std::move(first));
    FreeCallback third;
    third = std::move(second);
    CHECK(freed == 0);
  }
  CHECK(freed == 1);
}

TEST_CASE("every float16 value survives the way to float32 and back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = Float16ToFloat(half);
    if (std::isnan(value)) {
      CHECK(std::isnan(Float16ToFloat(FloatToFloat16(value))));
    } else if (FloatToFloat16(value) != half) {
      FAIL("float16 bits " << bits << " became " << FloatToFloat16(value));
    }
  }
}

TEST_CASE("float16 rounds to nearest, ties to even, and overflows to infinity") {
  CHECK(FloatToFloat16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(FloatToFloat16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(FloatToFloat16(0x1p-25f) == 0x0000);
  CHECK(FloatToFloat16(0x1.8p-25f) == 0x0001);
  CHECK(FloatToFloat16(65519.0f) == 0x7bff);
  CHECK(FloatToFloat16(65520.0f) == 0x7c00);
  CHECK(FloatToFloat16(-0.0f) == 0x8000);
}

TEST_CASE("bfloat16 rounds to nearest, ties to even, and keeps NaN") {
  CHECK(FloatToBfloat16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(FloatToBfloat16(1.0f + 3 * 0x1p-8f) == 0x3f82);
  CHECK(FloatToBfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  // A NaN whose payload lies in the lower half must not become infinity.
  CHECK(std::isnan(Bfloat16ToFloat(FloatToBfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST_CASE("each role stands at its own place in the table") {
  for (moert_role role = 1; role < kNumRoles; ++role) {
    REQUIRE(FindRole(role) != nullptr);
    CHECK(FindRole(role)->role == role);
  }
  CHECK(FindRole(MOERT_ROLE_NONE) == nullptr);
  CHECK(FindRole(kNumRoles) == nullptr);
}

TEST_CASE("a set of roles is refused for the role that is wrong") {
  const auto offence = [](std::initializer_list<moert_role> roles, bool gated, bool shared) {
    bool given[kNumRoles] = {};
    for (const moert_role role : roles) given[role] = true;
    return CheckRoles(given, gated, false, shared, gated);
  };
  CHECK(offence({MOERT_ROLE_EXPERT_GATE_UP, MOERT_ROLE_EXPERT_DOWN}, true, false).what == nullptr);
  CHECK(offence({MOERT_ROLE_EXPERT_UP, MOERT_ROLE_EXPERT_DOWN}, false, false).what == nullptr);
  CHECK(offence({MOERT_ROLE_EXPERT_UP, MOERT_ROLE_EXPERT_DOWN}, true, false).role ==
        MOERT_ROLE_EXPERT_GATE);
  CHECK(offence({MOERT_ROLE_EXPERT_GATE_UP}, true, false).role == MOERT_ROLE_EXPERT_DOWN);
  CHECK(offence({MOERT_ROLE_EXPERT_GATE_UP, MOERT_ROLE_EXPERT_UP, MOERT_ROLE_EXPERT_DOWN}, true,
                false)
            .role == MOERT_ROLE_EXPERT_UP);
  CHECK(offence({MOERT_ROLE_EXPERT_GATE_UP, MOERT_ROLE_EXPERT_DOWN}, true, true).role ==
        MOERT_ROLE_SHARED_GATE);
  CHECK(offence({MOERT_ROLE_EXPERT_GATE_UP, MOERT_ROLE_EXPERT_DOWN, MOERT_ROLE_ROUTER_BIAS}, true,
                false)
            .role == MOERT_ROLE_ROUTER_BIAS);
}

}  // namespace
}  // namespace moert
