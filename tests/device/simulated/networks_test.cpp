// Networks from files on the simulated device: traces hold the device that they were made on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/networks/network_format.h"
#include "engine/compile.h"
#include "tests/data/python.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

[[maybe_unused]] const bool installed_for_networks = (install(), true);

/// Constant tensors, tensors made on the input's device, an attribute that is no buffer; and
/// PyTorch's recurrent layer, whose trace makes its first state.
constexpr const char* kTraced = R"(
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.cell, s.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 4)
        s.table = torch.arange(4.)
    def forward(s, x):
        y = s.head(s.cell(x)[0]) + torch.arange(4, device=x.device) * torch.tensor([1., 2., 3., 4.])
        return y * torch.full((4,), 2., device=x.device) + s.table
torch.manual_seed(3)
net = Net()
torch.jit.trace(net, torch.randn(2, 5, 3)).save('traced.ts')
)";

Tensors moved_to(c10::Device device, const Tensors& tensors) {
  Tensors there;
  for (const Tensor& t : tensors) there.push_back(t.to(device));
  return there;
}

TEST(SimulatedNetworks, TracesOfTheCpuRunOnTheDevice) {
  const at::NoGradGuard no_grad;
  const Scratch scratch;
  python(scratch.path(), kTraced);
  const Network network =
      open_network(scratch / "traced.ts")
          ->network({{"x", Role::input, {2, 5, 3}, at::kFloat, Fill::normal, 1}});
  const Tensor x = at::randn({2, 5, 3});
  const Tensor expected = network.instantiate(network.initial)({x})[0];
  const Tensor got = network.instantiate(moved_to(kDevice, network.initial))({x.to(kDevice)})[0];
  ASSERT_EQ(got.device(), kDevice);
  EXPECT_TRUE(at::allclose(got.cpu(), expected, 1e-5, 1e-6));

  Ensemble e{1, {x.unsqueeze(0)}, {}};
  for (const Tensor& t : network.initial) e.tensors.push_back(t.unsqueeze(0));
  e.shared.assign(e.tensors.size(), false);
  e.tensors = moved_to(kDevice, e.tensors);
  const Program program = record_single(network, e);
  for (const Value& v : program.values) {
    if (v.role != Role::constant) continue;
    EXPECT_EQ(v.device, kDevice) << v.shape_text();
  }
  Tensors bound{x};
  bound.insert(bound.end(), network.initial.begin(), network.initial.end());
  EXPECT_TRUE(
      at::allclose(interpret(program, moved_to(kDevice, bound))[0].cpu(), expected, 1e-5, 1e-6));
  // The file's own module is as it was.
  EXPECT_TRUE(network.instantiate(network.initial)({x})[0].equal(expected));
}

}  // namespace
}  // namespace wide::simulated
