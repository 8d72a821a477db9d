// SPDX-License-Identifier: Apache-2.0
// Random values for bench's weights and inputs, made once and copied many times.
#ifndef MOERT_CLI_RANDOM_FILL_H_
#define MOERT_CLI_RANDOM_FILL_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cli/convert.h"
#include "cli/handles.h"
#include "moert/moert.h"

namespace moert::cli {

// Values uniform within +-scale. Each call goes on where the last one stopped in a block whose
// length is prime, so that rows and copies differ.
class RandomFill {
 public:
  RandomFill(moert_dtype dtype, float scale) : element_bytes_(moert_dtype_bits(dtype) / 8) {
    std::minstd_rand engine(1);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    std::vector<float> values(kBlock);
    for (float& value : values) value = uniform(engine);
    block_.resize(kBlock * element_bytes_);
    Narrow(values.data(), kBlock, dtype, block_.data());
  }

  // Waits until the values are in place.
  Status Fill(moert_stream* stream, void* to, int64_t elements) {
    auto* out = static_cast<std::byte*>(to);
    while (elements > 0) {
      const int64_t count = std::min(elements, kBlock - next_);
      MOERT_CLI_TRY(Call(moert_stream_copy, stream, out, block_.data() + next_ * element_bytes_,
                         count * element_bytes_));
      out += count * element_bytes_;
      elements -= count;
      next_ = (next_ + count) % kBlock;
    }
    return Call(moert_stream_synchronize, stream);
  }

 private:
  static constexpr int64_t kBlock = 1048573;

  int64_t element_bytes_;
  std::vector<std::byte> block_;
  int64_t next_ = 0;
};

}  // namespace moert::cli

#endif  // MOERT_CLI_RANDOM_FILL_H_
