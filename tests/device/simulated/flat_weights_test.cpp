// Separate models with recurrent layers are timed with their weights in one piece, as users have
// them on a GPU.
#include "engine/measure/flat_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/measure/baselines.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

constexpr int64_t kHidden = 4;
int64_t flattened = 0;

/// What cuDNN does: puts all weights into one piece of memory.
Tensor flatten_weights(at::TensorList weights, int64_t each, c10::SymInt input, int64_t mode,
                       c10::SymInt hidden, c10::SymInt projected, int64_t layers, bool, bool) {
  ++flattened;
  EXPECT_EQ(each, 4);
  EXPECT_EQ(input, 3);
  EXPECT_EQ(mode, 2) << "CUDNN_LSTM";
  EXPECT_EQ(hidden, kHidden);
  EXPECT_EQ(projected, 0);
  EXPECT_EQ(layers, 1);
  std::vector<Tensor> pieces;
  for (const Tensor& t : weights) pieces.push_back(t.detach().flatten());
  const Tensor all = at::cat(pieces);
  int64_t begin = 0;
  for (const Tensor& t : weights) {
    t.set_(all.slice(0, begin, begin + t.numel()).view(t.sizes()));
    begin += t.numel();
  }
  return all;
}

Network lstm() {
  Network net;
  net.name = "lstm";
  net.tensors = {{"x", Role::input, {5, 2, 3}},
                 {"w_ih", Role::parameter, {4 * kHidden, 3}},
                 {"w_hh", Role::parameter, {4 * kHidden, kHidden}},
                 {"b_ih", Role::parameter, {4 * kHidden}},
                 {"b_hh", Role::parameter, {4 * kHidden}}};
  net.forward = [](const Tensors& t) {
    const Tensor state = at::zeros({1, 2, kHidden}, t[0].options());
    return Tensors{std::get<0>(at::lstm(t[0], {state, state}, {t[1], t[2], t[3], t[4]}, true, 1,
                                        0.0, false, false, false))};
  };
  return net;
}

class SimulatedFlatWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    install();
    Streams::get().reset(1);
    library_ = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    library_->impl("_cudnn_rnn_flatten_weight", &flatten_weights);
    flattened = 0;
  }
  std::unique_ptr<torch::Library> library_;
};

TEST_F(SimulatedFlatWeights, MoveTheTensorsThatHaveThem) {
  const at::NoGradGuard no_grad;
  const Network network = lstm();
  const Tensors own = generate(network, 1, at::kFloat, kDevice, 3).model(0);
  Tensors others;  // of the same memory
  for (const Tensor& t : own) others.push_back(t.view(t.sizes()));
  const Tensor before = network.forward(own)[0].clone();
  {
    const FlatWeights flat(kDevice, others);
    EXPECT_TRUE(network.forward(own)[0].equal(before));
  }
  EXPECT_EQ(flattened, 1);
  for (size_t k = 2; k < own.size(); ++k) {
    EXPECT_TRUE(own[k].is_alias_of(own[1])) << k;
    EXPECT_EQ(others[k].const_data_ptr(), own[k].const_data_ptr()) << k;
  }
  network.forward(own);
  EXPECT_EQ(flattened, 1) << "for as long as it lives";
}

TEST_F(SimulatedFlatWeights, OfEverySeparateModelAreMadeOnce) {
  const Network network = lstm();
  const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
  const Tensors right = in_double(record_single(network, ensemble), ensemble);
  for (const char* name : {"loop", "streams", "graph"}) {
    SCOPED_TRACE(name);
    const Baseline baseline =
        baselines(network, ensemble, 1, [&](const std::string& n) { return n == name; }).at(0);
    ASSERT_EQ(baseline.unavailable, "");
    flattened = 0;
    for (int call = 0; call < 3; ++call) baseline.call();
    EXPECT_EQ(flattened, 3) << "once a model";
    EXPECT_LT(max_relative_error(baseline.run(), right), 1e-5);
  }
  EXPECT_EQ(Streams::get().violations, std::vector<std::string>{});
}

}  // namespace
}  // namespace wide::simulated
