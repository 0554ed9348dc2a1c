#include "primitives/kernels/convolution/direct_convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "primitives/kernels/convolution/convolution_spots.h"
#include "primitives/kernels/convolution/convolution_tile.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::direct_convolution_test {
namespace {

/// One wide layer and its tensors, float32.
struct Layer {
  DirectConvolution convolution;
  Sizes output_padding;
  Tensor x, weight, bias;

  int64_t out_channels() const {
    return convolution.transposed ? weight.size(2) * convolution.groups : weight.size(1);
  }
  Tensor direct(bool with_bias = true) const {
    return direct_convolution(x, pack_filters(weight, convolution.groups, convolution.transposed),
                              with_bias ? std::optional(bias) : std::nullopt, out_channels(),
                              convolution);
  }
  /// Every model by itself, in float64.
  Tensor expected(bool with_bias = true) const {
    Tensors each;
    for (int64_t i = 0; i < x.size(0); ++i)
      each.push_back(at::convolution(x.select(0, i).to(at::kDouble),
                                     weight.select(0, i).to(at::kDouble),
                                     with_bias ? bias.select(0, i).to(at::kDouble) : Tensor(),
                                     convolution.stride, convolution.padding, convolution.dilation,
                                     convolution.transposed, output_padding, convolution.groups));
    return at::stack(each);
  }
};

/// Any layer that leaves at least one result, sizes crossing those of runs and tiles.
std::optional<Layer> random_layer(std::mt19937_64& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Layer layer;
  DirectConvolution& c = layer.convolution;
  c.transposed = pick(0, 1) == 1;
  c.groups = pick(1, 3);
  const int64_t dims = pick(1, 3), in = c.groups * pick(1, 4), out = c.groups * pick(1, 11);
  Sizes x{pick(1, 3), pick(1, 3), in}, w{x[0], out, in / c.groups};
  if (c.transposed) w = {x[0], in, out / c.groups};
  for (int64_t k = 0; k < dims; ++k) {
    const int64_t size = pick(1, k + 1 < dims ? 6 : dims == 3 ? 18 : 70);
    const int64_t taps = pick(1, 4), stride = pick(1, 4), dilation = pick(1, 3),
                  padding = pick(0, 4), extra = c.transposed ? pick(0, stride - 1) : 0;
    const int64_t reach = dilation * (taps - 1);
    const int64_t room = c.transposed ? (size - 1) * stride - 2 * padding + reach + extra
                                      : size + 2 * padding - reach - 1;
    if (room < 0) return std::nullopt;
    c.kernel.push_back(taps);
    c.stride.push_back(stride);
    c.padding.push_back(padding);
    c.dilation.push_back(dilation);
    c.output.push_back(c.transposed ? room + 1 : room / stride + 1);
    layer.output_padding.push_back(extra);
    x.push_back(size);
    w.push_back(taps);
  }
  layer.x = at::randn(x);
  layer.weight = at::randn(w);
  layer.bias = at::randn({x[0], out});
  return layer;
}

TEST(DirectConvolution, EqualsEveryModelByItself) {
  const at::NoGradGuard no_grad;
  std::mt19937_64 random(7);
  int tried = 0;
  while (tried < 150) {
    const auto layer = random_layer(random);
    if (!layer) continue;
    ++tried;
    EXPECT_LT(max_relative_error({layer->direct()}, {layer->expected()}), 1e-5)
        << layer->x.sizes() << " " << layer->weight.sizes() << " stride "
        << layer->convolution.stride << " padding " << layer->convolution.padding << " dilation "
        << layer->convolution.dilation << " groups " << layer->convolution.groups << " transposed "
        << layer->convolution.transposed;
    const Tensor bare = layer->expected(false);
    EXPECT_LE((layer->direct(false) - bare).abs().max().item<double>(),
              1e-5 * (1 + bare.abs().max().item<double>()));
  }
}

/// Images that are read where they are instead of in a padded copy.
TEST(DirectConvolution, ReadsLargeImagesInPlace) {
  const at::NoGradGuard no_grad;
  for (const bool transposed : {false, true})
    for (const Sizes& space : {Sizes{30011}, {61, 37}, {9, 13, 21}}) {
      const size_t dims = space.size();
      const int64_t channels = dims == 1 ? 3 : 34;
      Layer layer;
      DirectConvolution& c = layer.convolution;
      c.transposed = transposed;
      layer.output_padding.assign(dims, 0);
      Sizes x{2, 1, channels}, w{2, transposed ? channels : 9, transposed ? 9 : channels};
      for (size_t k = 0; k < dims; ++k) {
        const int64_t stride = transposed || k + 1 < dims ? 2 : 1;
        c.kernel.push_back(3);
        c.stride.push_back(stride);
        c.padding.push_back(2);
        c.dilation.push_back(k == 0 ? 2 : 1);
        const int64_t reach = c.dilation.back() * 2;
        c.output.push_back(transposed ? (space[k] - 1) * stride - 4 + reach + 1
                                      : (space[k] + 4 - reach - 1) / stride + 1);
        x.push_back(space[k]);
        w.push_back(3);
      }
      layer.x = at::randn(x);
      layer.weight = at::randn(w);
      layer.bias = at::randn({2, 9});
      EXPECT_LT(max_relative_error({layer.direct()}, {layer.expected()}), 1e-5)
          << layer.x.sizes() << " transposed " << transposed;
    }
}

Layer image_layer() {
  Layer layer;
  layer.convolution = {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {9, 19}, 1, false};
  layer.output_padding = {0, 0};
  layer.x = at::randn({3, 2, 5, 9, 19});
  layer.weight = at::randn({3, 10, 5, 3, 3});
  layer.bias = at::randn({3, 10});
  return layer;
}

TEST(DirectConvolution, TakesInputsInAnyLayout) {
  const at::NoGradGuard no_grad;
  Layer layer = image_layer();
  const Tensor expected = layer.direct();
  layer.x = layer.x.permute({4, 1, 3, 0, 2}).contiguous().permute({3, 1, 4, 2, 0});
  EXPECT_TRUE(layer.direct().equal(expected));
  layer.x = layer.x.select(0, 1).unsqueeze(0).expand_as(layer.x);  // one input for all models
  EXPECT_TRUE(layer.direct().select(0, 1).equal(expected.select(0, 1)));
}

TEST(DirectConvolution, NothingOfOneModelReachesAnother) {
  const at::NoGradGuard no_grad;
  for (const bool transposed : {false, true}) {
    Layer layer = image_layer();
    if (transposed) {
      layer.convolution = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {17, 37}, 1, true};
      layer.weight = at::randn({3, 5, 10, 3, 3});
    }
    const Tensor before = layer.direct();
    for (int64_t sick = 0; sick < 3; ++sick) {
      Layer poisoned = layer;
      for (Tensor* t : {&poisoned.x, &poisoned.weight, &poisoned.bias}) {
        *t = t->clone();
        t->select(0, sick).fill_(NAN);
      }
      const Tensor after = poisoned.direct();
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(before.select(0, i).equal(after.select(0, i)), i != sick);
      }
    }
  }
}

TEST(DirectConvolution, RefusesGradientsAndWhatDoesNotFit) {
  Layer layer = image_layer();
  layer.convolution.kernel = {3, 2};
  EXPECT_ANY_THROW(layer.direct());
  layer.convolution.kernel = {3, 3};
  layer.x.requires_grad_();
  EXPECT_ANY_THROW(layer.direct().sum().backward());
}

/// A tile by its definition, in double: [filter][run][position], 77 where nothing is to be written.
std::vector<double> tile_in_double(const convolution_tile::Tile& tile, int runs) {
  using namespace convolution_tile;
  std::vector<double> all(static_cast<size_t>(kFilters * kRuns * kPositions), 77.0);
  for (int f = 0; f < tile.rows; ++f)
    for (int r = 0; r < runs; ++r)
      for (int i = 0; i < tile.count[r]; ++i) {
        double sum = tile.bias[f];
        for (int64_t k = 0; k < tile.tap_count; ++k)
          for (int64_t c = 0; c < tile.channels; ++c) {
            const bool inside =
                tile.inside == nullptr || (tile.inside[k][static_cast<size_t>(r)] >> i & 1) != 0;
            const double x =
                inside ? tile.input[r][tile.taps[k].input + c * tile.channel_pitch + i] : 0;
            sum += x * tile.filters[tile.taps[k].filters + c * kFilters + f];
          }
        all[static_cast<size_t>((f * kRuns + r) * kPositions + i)] = tile.relu && sum < 0 ? 0 : sum;
      }
  return all;
}

TEST(ConvolutionTile, EqualsDoubleUnderEveryInstructionSet) {
  using namespace convolution_tile;
  for_each_target([](const std::string& target) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 40; ++round) {
      const auto channels = static_cast<int64_t>(1 + random() % 9);
      const std::vector<Tap> taps{{0, 0}, {1, channels * kFilters}, {24, 2 * channels * kFilters}};
      std::vector<Inside> inside(taps.size());
      for (Inside& tap : inside)
        for (uint16_t& run : tap) run = static_cast<uint16_t>(random() % 3 == 0 ? 0 : random());
      const Tensor filters = at::randn({3, channels, kFilters}), bias = at::randn({kFilters});
      Tensor input = at::randn({kRuns, channels + 2, 40});
      if (round % 3 == 0) input.view(-1)[5] = NAN;
      const Tensor out = at::full({kFilters, kRuns, kPositions}, 77.0F);
      Tile tile;
      tile.filters = filters.const_data_ptr<float>();
      tile.taps = taps.data();
      tile.inside = reads_inside() && round % 5 == 0 ? inside.data() : nullptr;
      tile.tap_count = static_cast<int64_t>(round % 4);
      tile.channels = channels;
      tile.channel_pitch = 40;
      tile.bias = bias.const_data_ptr<float>();
      tile.relu = round % 2 == 0;
      tile.pitch = kRuns * kPositions;
      tile.rows = 1 + round % kFilters;
      const int runs = 1 + round % kRuns;
      for (int r = 0; r < runs; ++r) {
        tile.input[r] = input.const_data_ptr<float>() + r * (channels + 2) * 40;
        tile.out[r] = out.mutable_data_ptr<float>() + r * kPositions;
        tile.count[r] = 1 + (round + 5 * r) % kPositions;
      }
      compute(tile, runs);
      const Tensor expected = at::tensor(tile_in_double(tile, runs)).view(out.sizes());
      EXPECT_TRUE(at::allclose(out.to(at::kDouble), expected, 1e-5, 1e-5, /*equal_nan=*/true))
          << target << " " << round;
    }
  });
}

TEST(DirectConvolution, EqualsDoubleUnderEveryInstructionSet) {
  const at::NoGradGuard no_grad;
  for_each_target([](const std::string& target) {
    std::mt19937_64 random(5);
    int tried = 0;
    for (int round = 0; round < 30; ++round)
      if (const auto layer = random_layer(random)) {
        EXPECT_LT(max_relative_error({layer->direct()}, {layer->expected()}), 1e-5)
            << target << " " << round;
        ++tried;
      }
    EXPECT_GT(tried, 10);
  });
}

/// Rows of results that are short or end with a few of a vector; filters in one to seven blocks,
/// the last of them not whole.
TEST(DirectConvolution, OfShortRowsEqualsDoubleUnderEveryInstructionSet) {
  const at::NoGradGuard no_grad;
  int by_filters = 0;
  for_each_target([&](const std::string& target) {
    for (const int64_t filters : {1, 5, 8, 13, 16, 24, 33, 48, 50})
      for (const Sizes& image : {Sizes{1, 50}, Sizes{7, 7}, Sizes{3, 17}, Sizes{1, 1}, Sizes{5, 2}})
        for (const int64_t stride : {1, 2}) {
          const Tensor x = at::randn({2, 3, 3, image[0], image[1]}),
                       w = at::randn({2, filters, 3, 1, 3}), b = at::randn({2, filters});
          const DirectConvolution layer{
              {1, 3}, {1, stride}, {0, 2}, {1, 2}, {image[0], (image[1] - 1) / stride + 1},
              1,      false};
          Tensors rows;
          for (int64_t i = 0; i < 2; ++i)
            rows.push_back(at::conv2d(x[i].to(at::kDouble), w[i].to(at::kDouble),
                                      b[i].to(at::kDouble), at::IntArrayRef({1, stride}),
                                      at::IntArrayRef({0, 2}), at::IntArrayRef({1, 2})));
          EXPECT_LT(max_relative_error(
                        {direct_convolution(x, pack_filters(w, 1, false), b, filters, layer)},
                        {at::stack(rows)}),
                    1e-5)
              << target << " " << filters << " " << image << " " << stride;
          const int64_t columns = layer.output[1];
          by_filters += convolution_spots::worth_it(image[0] * columns, filters, 3,
                                                    image[0] * ((columns + 15) / 16));
        }
  });
  if (convolution_tile::reads_inside()) {
    EXPECT_GT(by_filters, 0);
  }
}

/// In a plan it does the relu behind it, and NaN goes through.
TEST(DirectConvolution, DoesTheReluBehindIt) {
  const at::NoGradGuard no_grad;
  Network net;
  net.name = "conv-relu";
  net.tensors = {{"w", Role::parameter, {6, 5, 3, 3}}, {"x", Role::input, {2, 5, 7, 8}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::relu(at::conv2d(t[1], t[0], {}, 1, 1))};
  };
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
  CompileOptions options;
  options.widen.force["conv2d"] = "direct";
  auto model = compile(net, ensemble, options);
  EXPECT_NE(model->plan_text().find("wide::direct_convolution.out with relu"), std::string::npos)
      << model->plan_text();
  const Program single = record_single(net, ensemble);
  EXPECT_LT(max_relative_error(as_function(*model, net)(ensemble), in_double(single, ensemble)),
            1e-5);
  ensemble.tensors[1].fill_(NAN);
  EXPECT_TRUE(model->run({ensemble.tensors[1]})[0].isnan().all().item<bool>());
}

}  // namespace
}  // namespace wide::direct_convolution_test
