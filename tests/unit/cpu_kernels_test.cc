// SPDX-License-Identifier: Apache-2.0
// Products of each instruction level: values, and the promise that an element's bits depend on its
// row and its output alone.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "unit/cpu_support.h"

namespace moert::test {
namespace {

// Bytes that end where a page that must not be touched begins.
class Guarded {
 public:
  explicit Guarded(const std::vector<char>& bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes.size() + page - 1) / page * page + page;
    base_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + size_ - page, page, PROT_NONE) == 0);
    data_ = base_ + size_ - page - bytes.size();
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  const char* data() const { return data_; }

 private:
  char* base_;
  char* data_;
  size_t size_;
};

// How a weight [outputs, depth] lies: strides in elements for packed storage.
enum class Layout { kOutIn, kInOut, kNeither };

cpu::WeightView View(const char* data, moert_dtype dtype, Layout layout, int64_t outputs,
                     int64_t depth) {
  switch (layout) {
    case Layout::kOutIn:
      return {data, dtype, depth, 1};
    case Layout::kInOut:
      return {data, dtype, 1, outputs};
    default:
      return {data, dtype, 2, 2 * outputs};
  }
}

struct Problem {
  moert_dtype row_dtype, weight_dtype;
  Layout layout;
  int64_t rows, depth, outputs;
  std::vector<char> x, w;
};

// Rows [row, row + rows) times outputs [output, output + outputs).
std::vector<float> Multiply(const cpu::Kernels& kernels, const Problem& p, const char* w,
                            int64_t row, int64_t rows, int64_t output, int64_t outputs) {
  struct alignas(64) Line {
    float values[16];
  };
  std::vector<Line> panel(static_cast<size_t>(rows * (cpu::kPanelDepth / 16 + 1)));
  std::vector<float> out(static_cast<size_t>(rows * (outputs + 1)), -77.0f);
  cpu::ProductArgs args{};
  args.source = {p.x.data() + row * p.depth * ElementSize(p.row_dtype),
                 p.row_dtype,
                 p.depth,
                 nullptr,
                 nullptr,
                 nullptr,
                 false};
  args.rows = rows;
  args.depth = p.depth;
  args.weight = View(w, p.weight_dtype, p.layout, p.outputs, p.depth);
  args.weight.data = w + output * args.weight.out_stride * ElementSize(p.weight_dtype);
  args.outputs = outputs;
  args.out = out.data();
  args.out_stride = outputs + 1;
  args.panel = panel[0].values;
  kernels.product(args);
  for (int64_t j = 0; j < rows; ++j) {
    REQUIRE(out[static_cast<size_t>(j * (outputs + 1) + outputs)] == -77.0f);
  }
  return out;
}

Problem RandomProblem(Random& random) {
  Problem p;
  p.row_dtype = kDtypes[random.Int(0, 2)];
  p.weight_dtype = kDtypes[random.Int(0, 2)];
  p.layout = static_cast<Layout>(random.Int(0, 2));
  p.rows = random.Int(1, cpu::kBlockRows);
  const int64_t depths[] = {1, 3, 17, 64, 130, 515, 1024, 2048, 2049, 2600};
  p.depth = depths[random.Int(0, p.layout == Layout::kNeither ? 5 : 9)];
  p.outputs = random.Int(1, 140);
  p.x = random.Values(p.row_dtype, p.rows * p.depth);
  const int64_t spread = p.layout == Layout::kNeither ? 2 : 1;
  p.w = random.Values(p.weight_dtype, p.outputs * p.depth * spread);
  return p;
}

TEST_CASE("products equal those in double, and read nothing past the last weight") {
  for (const cpu::Kernels* kernels : Levels()) {
    for (int round = 0; round < 25; ++round) {
      Random random;
      CAPTURE(random.seed);
      CAPTURE(kernels->name);
      const Problem p = RandomProblem(random);
      const Guarded w(p.w);
      const std::vector<float> out = Multiply(*kernels, p, w.data(), 0, p.rows, 0, p.outputs);
      const cpu::WeightView view = View(p.w.data(), p.weight_dtype, p.layout, p.outputs, p.depth);
      double error = 0, norm = 0;
      for (int64_t j = 0; j < p.rows; ++j) {
        for (int64_t o = 0; o < p.outputs; ++o) {
          double want = 0;
          for (int64_t k = 0; k < p.depth; ++k) {
            want += static_cast<double>(LoadFloat(p.x.data(), p.row_dtype, j * p.depth + k)) *
                    static_cast<double>(LoadFloat(p.w.data(), p.weight_dtype,
                                                  o * view.out_stride + k * view.in_stride));
          }
          const double got = out[static_cast<size_t>(j * (p.outputs + 1) + o)];
          error += (got - want) * (got - want);
          norm += want * want;
        }
      }
      CHECK(std::sqrt(error) <= 2e-6 * std::sqrt(norm));
    }
  }
}

TEST_CASE(
    "an element of a product has the same bits in whatever rows and outputs it is asked for") {
  for (const cpu::Kernels* kernels : Levels()) {
    for (int round = 0; round < 25; ++round) {
      Random random;
      CAPTURE(random.seed);
      CAPTURE(kernels->name);
      const Problem p = RandomProblem(random);
      const std::vector<float> whole = Multiply(*kernels, p, p.w.data(), 0, p.rows, 0, p.outputs);
      for (int part = 0; part < 8; ++part) {
        const int64_t row = random.Int(0, p.rows - 1);
        const int64_t rows = part < 4 ? 1 : random.Int(1, p.rows - row);
        const int64_t output = random.Int(0, p.outputs - 1);
        const int64_t outputs = random.Int(1, p.outputs - output);
        const auto some = Multiply(*kernels, p, p.w.data(), row, rows, output, outputs);
        int different = 0;
        for (int64_t j = 0; j < rows; ++j) {
          different +=
              std::memcmp(&some[static_cast<size_t>(j * (outputs + 1))],
                          &whole[static_cast<size_t>((row + j) * (p.outputs + 1) + output)],
                          static_cast<size_t>(outputs) * 4) != 0;
        }
        CHECK(different == 0);
      }
    }
  }
}

}  // namespace
}  // namespace moert::test
