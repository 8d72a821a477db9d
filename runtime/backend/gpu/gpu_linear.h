// SPDX-License-Identifier: Apache-2.0
// Products of activation rows with weights on the device: how weights lie, and which kernel runs.
#ifndef MOERT_BACKEND_GPU_GPU_LINEAR_H_
#define MOERT_BACKEND_GPU_GPU_LINEAR_H_

#include <vector>

#include "backend/gpu/gpu_device.h"
#include "backend/gpu/weight_loader.h"

namespace moert {

// How weights are kept.
enum class Keeping {
  kPacked,    // copied in the layout that kernels like best, widened to the compute dtype
  kUnpacked,  // copied as [out, in] rows of their own dtype, which the host may change
  kBorrowed,  // where they lie
};

// One weight of each expert (or of a layer: one entry), and of gated first layers its pair: gate
// and up. Biases are vectors.
struct LinearSource {
  WeightMatrix value, pair, value_bias, pair_bias;
};

class LinearWeights {
 public:
  // A view for moert_layer_weight; kUnpacked only.
  enum class Part { kValue, kPair, kBoth };

  explicit LinearWeights(Allocator& allocator) : entries_(&allocator) {}

  // Makes room and asks `loader` for the weights; they are there once it has run. `dtype` is the
  // compute dtype.
  Status Make(const GpuDevice& device, WeightLoader& loader,
              const std::pmr::vector<LinearSource>& sources, int64_t outputs, int64_t depth,
              moert_dtype dtype, Keeping keeping, const float* in_scale = nullptr);

  bool present() const { return table_.data() != nullptr; }
  int64_t outputs() const { return outputs_; }
  int64_t depth() const { return depth_; }
  uint64_t bytes() const { return values_.bytes() + biases_.bytes() + table_.bytes(); }
  // The rows of 16-bit elements may be read 16 bytes at a time, so tensor cores can be used.
  bool matrix_ready() const { return matrix_ready_; }
  bool gated() const { return gated_; }

  const void* first_value() const { return entries_[0].value; }

  // The fields of a kernel's arguments that describe the weights.
  void Describe(moert_linear_kernel_args* args) const;

  Status View(Part part, bool bias, int64_t entry, moert_matrix* out) const;

 private:
  Status MakePacked(const GpuDevice& device, WeightLoader& loader,
                    const std::pmr::vector<LinearSource>& sources, const float* in_scale);
  Status MakeUnpacked(const GpuDevice& device, WeightLoader& loader,
                      const std::pmr::vector<LinearSource>& sources);
  Status MakeBorrowed(const GpuDevice& device, const std::pmr::vector<LinearSource>& sources);
  Status MakeBiases(const GpuDevice& device, WeightLoader& loader,
                    const std::pmr::vector<LinearSource>& sources);
  void CheckAlignment(moert_dtype compute_dtype);

  int64_t outputs_ = 0, depth_ = 0;
  bool gated_ = false, interleaved_ = false, biases_interleaved_ = false;
  bool matrix_ready_ = false;
  moert_dtype dtype_ = MOERT_DTYPE_NONE, bias_dtype_ = MOERT_DTYPE_FLOAT32;
  int64_t row_stride_ = 0, group_stride_ = 0, in_stride_ = 1, bias_stride_ = 1;
  std::pmr::vector<moert_weight_entry> entries_;
  GpuMemory values_, biases_, table_;
};

// Which kernel multiplies.
enum class LinearPath {
  kGeneric,  // any dtype, stride and alignment
  kTile,     // tensor cores, tiles through shared memory
  kStream,   // tensor cores, few positions, weights straight into registers
};

// Positions of a tile.
constexpr int32_t kGenericPositions = 64;
// For `mean` positions an expert on the tiled path.
int32_t TilePositions(int64_t mean);
// For at most `most` positions an expert on the streaming path.
int32_t StreamPositions(int64_t most);

// Enqueues a product; args is complete but for `tile_positions` of dense rows, which must be set
// too. `max_tiles` bounds *args.num_tiles; ignored for dense rows.
Status LaunchLinear(const GpuDevice& device, GpuStreamHandle stream, LinearPath path,
                    const moert_linear_kernel_args& args, int64_t max_tiles);

// The path and tile for a product of `rows` dense rows that may be read 16 bytes at a time.
LinearPath DensePath(const LinearWeights& weights, moert_dtype row_dtype, int64_t rows,
                     int32_t* tile_positions);

// Copies a matrix into `destination`, rows padded with zeros to `padded_cols`, and makes it the
// rows of `args`.
Status CopyRows(const GpuDevice& device, GpuStreamHandle stream, const Matrix& source,
                int64_t padded_cols, void* destination, moert_linear_kernel_args* args);

// A matrix whose rows kernels may read 16 bytes at a time.
bool HasVectorRows(const Matrix& matrix);

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_LINEAR_H_
