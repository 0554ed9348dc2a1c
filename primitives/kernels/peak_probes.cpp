#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>

#include "engine/measure/peaks.h"
#include "primitives/kernels/convolution/convolution_tile.h"
#include "primitives/kernels/gemm/packed_linear.h"

// Probes that are faster than one large product of the library on some processors.

namespace wide::kernel_peak_probes {
namespace {

/// Many small products, as in wide linear layers.
PeakProbe::Work small_products(int threads) {
  const int64_t n = 16L * threads, m = 64, k = 256;
  const at::Tensor a = at::ones({n, m, k}), b = pack_panels(at::ones({n, k, k}), std::nullopt);
  return {[a, b] { packed_linear(a, b, k); }, 2.0 * static_cast<double>(n * m * k * k)};
}

/// The innermost part of the convolutions, with operands in the first-level cache.
PeakProbe::Work convolution_tiles(int threads) {
  using namespace convolution_tile;
  constexpr int64_t kChannels = 64, kTiles = 1000, kPitch = kRuns * kPositions;
  struct Operands {
    std::vector<float> filters = std::vector<float>(kChannels * kFilters, 1);
    std::vector<float> input = std::vector<float>(kChannels * kPitch, 1);
  };
  const auto operands = std::make_shared<Operands>();
  const auto call = [operands, threads] {
    static constexpr Tap kOnly{};
    at::parallel_for(0, threads * kTiles, 1, [&](int64_t begin, int64_t end) {
      float out[kFilters * kPitch];
      const float bias[kFilters] = {};
      Tile tile;
      tile.filters = operands->filters.data();
      tile.taps = &kOnly;
      tile.tap_count = 1;
      tile.channels = kChannels;
      tile.channel_pitch = tile.pitch = kPitch;
      tile.bias = bias;
      for (int r = 0; r < kRuns; ++r) {
        tile.input[r] = operands->input.data() + int64_t{r} * kPositions;
        tile.out[r] = out + int64_t{r} * kPositions;
        tile.count[r] = kPositions;
      }
      for (int64_t i = begin; i < end; ++i) compute(tile, kRuns);
    });
  };
  return {call, 2.0 * static_cast<double>(threads * kTiles * kChannels * kFilters * kPitch)};
}

[[maybe_unused]] const bool registered = add_peak_probe({"small products", small_products}) &&
                                         add_peak_probe({"convolution tiles", convolution_tiles});

}  // namespace
}  // namespace wide::kernel_peak_probes
