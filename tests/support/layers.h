// SPDX-License-Identifier: Apache-2.0
// Layers and routers of the reference as the library takes them: weights laid out in every way that
// moert.h allows, handles made from them, and forward calls with guarded, poisoned arguments.
#ifndef MOERT_TESTS_SUPPORT_LAYERS_H_
#define MOERT_TESTS_SUPPORT_LAYERS_H_

#include <deque>
#include <optional>

#include "device.h"
#include "reference.h"

namespace moert::test {

// How weights are stored.
struct WeightStyle {
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;         // of experts and latent projections
  moert_dtype router_dtype = MOERT_DTYPE_FLOAT32;  // of router weights, biases and scales
  moert_orientation orientation = MOERT_ORIENTATION_OUT_IN;
  bool packed = false;  // gate and up in one tensor
  moert_packing packing = MOERT_PACKING_CONCATENATED;
  bool one_tensor_each = false;  // a pointer an expert, else stacked
  int64_t row_padding = 0;       // elements
  int64_t expert_padding = 0;    // elements
  int64_t byte_offset = 0;       // from an aligned address
  bool on_device = false;        // in device memory, else in the host's
};

// Stored weights and the descriptors that point at them.
class StoredWeights {
 public:
  StoredWeights() = default;
  StoredWeights(const StoredWeights&) = delete;
  StoredWeights& operator=(const StoredWeights&) = delete;

  void AddRouter(Device& device, const RefRouter& router, const WeightStyle& style);
  // `experts`: the local ones, in order.
  void AddLayer(Device& device, const RefLayer& layer, const std::vector<int32_t>& experts,
                const WeightStyle& style);
  const std::vector<moert_weight>& list() const { return list_; }
  std::vector<moert_weight>& list() { return list_; }

 private:
  void AddOne(Device& device, moert_role role, const Mat& matrix, moert_dtype dtype,
              const WeightStyle& style);
  void AddExperts(Device& device, moert_role role, const std::vector<Mat>& matrices,
                  moert_dtype dtype, const WeightStyle& style);
  // Keeps the bytes alive, on the device or the host, and says where they are.
  const void* Keep(Device& device, std::vector<uint8_t> bytes, const WeightStyle& style);

  std::vector<moert_weight> list_;
  std::deque<std::vector<uint8_t>> host_;
  std::deque<DeviceBuffer> on_device_;
  std::deque<std::vector<const void*>> pointers_;
};

// A layer's desc with everything that it points to.
struct LayerSource {
  LayerSource(Device& device, const RefLayer& layer, const WeightStyle& style);
  Layer Create(Device& device);

  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  moert_routing routing;
  moert_activation activation, shared_activation;
  std::vector<int32_t> local_experts;
  StoredWeights weights;
};
Layer MakeLayer(Device& device, const RefLayer& layer, const WeightStyle& style = {});
// `hidden` 0: for given logits only.
Router MakeRouter(Device& device, const RefRouter& router, moert_dtype dtype, int64_t hidden,
                  const WeightStyle& style = {});

// A layer with random weights for the given shape, rounded to the style's dtypes; gated SiLU,
// softmax.
struct Shape {
  int32_t experts = 8;
  int32_t top_k = 2;
  int64_t hidden = 16;
  int64_t intermediate = 24;
  int64_t shared = 0;
  int64_t latent = 0;
};
RefLayer RandomLayer(Rng& rng, const Shape& shape, moert_dtype dtype,
                     const WeightStyle& style = {});
RefExpert RandomExpert(Rng& rng, int64_t width, int64_t intermediate, bool gated,
                       moert_dtype dtype);
// Every knob and layout at random; sizes are odd more often than not.
RefLayer RandomAnyLayer(Rng& rng, moert_dtype dtype, WeightStyle* style);
moert_routing RandomRouting(Rng& rng);
RefRouter RandomRouter(Rng& rng, const moert_routing& routing, int64_t hidden, moert_dtype dtype);
WeightStyle RandomStyle(Rng& rng, moert_dtype dtype);

// One forward call.
struct ForwardInput {
  Mat x;
  Mat router_x;  // empty: absent
  bool given = false;
  Ints ids;      // with `given`
  Mat weights;   // with `given`
  Mat y_before;  // not empty: accumulate into this
  bool skip_shared = false;
  bool read_back = true;     // ask for ids, weights, logits and counts
  bool own_scratch = false;  // no workspace: the stream's scratch, reserved first
  Spacing spacing;           // of every matrix
};
struct ForwardOutput {
  Mat y;
  std::vector<uint8_t> y_bytes;
  Ints ids, counts;
  Mat weights, logits;
};

// Runs the call with a workspace of exactly the size asked for, waits, and checks every guard.
// `status` gets what the stream reports; without it, that must be OK.
ForwardOutput RunForward(Device& device, const moert_layer* layer, const RefLayer& reference,
                         const ForwardInput& input, moert_status* status = nullptr);

// Runs a router on x or on given logits, with guards and poison as RunForward.
struct RouteOutput {
  Ints ids, counts;
  Mat weights, logits;
};
RouteOutput RunRouter(Device& device, const moert_router* router, const RefRouter& reference,
                      const Mat& in, moert_dtype dtype, bool on_logits, Spacing spacing = {});

void CheckLogits(const Mat& got, const Mat& want);
// Checks ids and weights against the reference's choice on the logits read back.
void CheckRouting(const RefRouter& router, const Mat& logits, const Ints& ids, const Mat& weights);
// Checks a result against y; where a layer is ill-conditioned by chance (few elements that nearly
// cancel), it may be as far off as rounding stored values makes the reference itself.
void CheckOutput(Rng& rng, const RefLayer& layer, const ForwardInput& input, const Ints& ids,
                 const Mat& weights, const Mat& y);
Ints RowIds(const Ints& ids, int64_t row, int64_t top_k);
bool DistinctAndInRange(const Ints& ids, int32_t experts);
// All of it, for one call with read-back.
void CheckForward(Rng& rng, Device& device, const moert_layer* layer, const RefLayer& reference,
                  const ForwardInput& input);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_LAYERS_H_
