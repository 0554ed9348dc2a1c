#include <ATen/ATen.h>
#include <fmt/format.h>

#include "data/networks/network_format.h"
#include "data/tensors.h"
#include "engine/compile.h"
#include "tests/data/python.h"
#include "tests/data/truth.h"

namespace wide::pt2_test {
namespace {

namespace fs = std::filesystem;

TensorSpec input(const std::string& name, Sizes sizes, at::ScalarType dtype = at::kFloat) {
  return {name, Role::input, std::move(sizes), dtype, Fill::normal, 1};
}

/// Exports `net` for the arguments `args` and `kwargs` of a Python snippet as net.pt2.
std::string exported(const Scratch& scratch, const std::string& body) {
  python(scratch.path(), "import torch, torch.nn as nn\nkwargs, shapes = {}, None\n" + body +
                             "\nep = torch.export.export(net.eval(), args, kwargs, "
                             "dynamic_shapes=shapes, strict=False)\n"
                             "torch.export.save(ep, 'net.pt2')\n");
  return scratch / "net.pt2";
}

TEST(Pt2, ArchivesOfFourVersionsOfPyTorchGiveWhatPyTorchGave) {
  const std::string folder =
      std::string(std::getenv("WORKBENCH_SOURCE")) + "/tests/data/networks/pt2/";
  const auto expected = nlohmann::json::parse(read_text(folder + "expected.json"));
  for (const char* version : {"2.6", "2.8", "2.9", "2.11"})
    for (const bool decomposed : {false, true}) {
      const std::string path =
          fmt::format("{}torch-{}{}.pt2", folder, version, decomposed ? "-decomposed" : "");
      SCOPED_TRACE(path);
      const auto& truth = expected[decomposed ? "decomposed" : "training"];
      std::vector<TensorSpec> specs;
      Tensors inputs;
      for (const auto& [name, value] : truth["inputs"].items()) {
        inputs.push_back(from_json(value));
        specs.push_back(input(name, inputs.back().sizes().vec(), inputs.back().scalar_type()));
      }
      const Network network = open_network(path)->network(specs);
      EXPECT_EQ(network.aliases.size(), 1u);
      const Model model = network.instantiate(network.initial);
      for (int call = 0; call < 2; ++call) {
        const Tensors outputs = model(inputs);
        ASSERT_EQ(outputs.size(), 3u);
        for (size_t k = 0; k < 3; ++k) {
          // The buffer counts calls, and the second output has it added.
          const Tensor ref = from_json(truth["outputs"][k]) + (k == 1 ? call : 0);
          EXPECT_LT((outputs[k].to(at::kDouble) - ref).abs().max().item<double>(),
                    1e-2 * !decomposed + 1e-5);
        }
      }
    }
}

constexpr const char* kNet = R"(
class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.a, s.b = nn.Linear(3, 3), nn.Linear(3, 3)
        s.b.weight = s.a.weight
        s.register_buffer("seen", torch.zeros(3))
        s.register_buffer("hidden", torch.ones(3), persistent=False)
        s.register_buffer("table", torch.arange(3.), persistent=False)
    def forward(s, batch, pair, flag=None, *, scale):
        s.seen.add_(1.0)
        s.hidden.mul_(2.0)
        y = s.b(torch.relu(s.a(batch["image"]))) * scale + s.table + s.hidden
        return {"y": y, "none": None, "n": 3}, (s.seen + pair[0], y.shape[0] * pair[1])
net = Net()
args = ({"image": torch.randn(4, 3)}, (torch.randn(3), torch.arange(3)))
kwargs = {"scale": torch.randn(3)}
shapes = {"batch": {"image": {0: torch.export.Dim("b", min=2, max=9)}}, "pair": (None, None), "scale": None}
)";

TEST(Pt2, InputsWeightsAndUpdatesHaveTheirNames) {
  const Scratch scratch;
  const auto file = open_network(exported(scratch, kNet));
  EXPECT_EQ(file->input_names(),
            (std::vector<std::string>{"batch.image", "pair.0", "pair.1", "scale"}));
  const std::vector<TensorSpec> inputs = {input("scale", {3}), input("pair.1", {3}, at::kLong),
                                          input("batch.image", {5, 3}), input("pair.0", {3})};
  const Network network = file->network(inputs);
  std::vector<std::string> names;
  for (const TensorSpec& spec : network.tensors)
    if (spec.role != Role::input) names.push_back(spec.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a.bias", "a.weight", "b.bias", "hidden", "seen"}));
  EXPECT_EQ(network.aliases, (std::map<std::string, std::string>{{"b.weight", "a.weight"}}));

  Ensemble one;
  one.n = 1;
  for (const TensorSpec& spec : inputs)
    one.tensors.push_back(spec.dtype == at::kLong ? at::arange(3).unsqueeze(0)
                                                  : at::randn(spec.sizes).unsqueeze(0));
  for (const Tensor& weight : network.initial) one.tensors.push_back(weight.unsqueeze(0).clone());
  one.shared.assign(one.tensors.size(), false);
  const Program program = record_single(network, one);
  EXPECT_EQ(program.updates.size(), 2u);
  EXPECT_EQ(network.initial.size(), 5u);
}

TEST(Pt2, ModelsKeepTheirOwnBuffers) {
  const Scratch scratch;
  const Network network = open_network(exported(scratch, kNet))
                              ->network({input("batch.image", {2, 3}), input("pair.0", {3}),
                                         input("pair.1", {3}, at::kLong), input("scale", {3})});
  const Tensors inputs = {at::randn({2, 3}), at::zeros({3}), at::arange(3), at::ones({3})};
  const Model first = network.instantiate(network.initial),
              second = network.instantiate(network.initial);
  EXPECT_EQ(first(inputs)[1][0].item<float>(), 1.0f);
  EXPECT_EQ(first(inputs)[1][0].item<float>(), 2.0f);
  EXPECT_EQ(second(inputs)[1][0].item<float>(), 1.0f);
  for (const Tensor& t : network.initial) EXPECT_LT(t.abs().max().item<float>(), 1.5f);
}

TEST(Pt2, AnotherDtypeReachesConstantsAndCasts) {
  const Scratch scratch;
  const auto file = open_network(exported(scratch, R"(
class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(3, 3)
        s.table = torch.tensor([1., 2., 3.])
    def forward(s, x): return s.l(x.to(torch.float32)) * s.table + torch.zeros(3)
net, args = Net(), (torch.randn(2, 3),)
)"));
  const Network network = file->network({input("x", {2, 3})});
  Tensors weights;
  for (const Tensor& t : network.initial) weights.push_back(t.to(at::kDouble));
  EXPECT_EQ(network.instantiate(weights)({at::randn({2, 3}, at::kDouble)})[0].scalar_type(),
            at::kDouble);
}

std::string refused(const std::string& path, const std::vector<TensorSpec>& inputs) {
  return error_of([&] { open_network(path)->network(inputs); });
}

TEST(Pt2, InputsThatDoNotFitAreRefused) {
  const Scratch scratch;
  const std::string path = exported(scratch, R"(
class Net(nn.Module):
    def forward(s, x, i): return x[i] * 2
net, args = Net(), (torch.randn(4, 3), torch.tensor([1, 2]))
)");
  EXPECT_EQ(refused(path, {input("x", {4, 3})}),
            fmt::format("[{}] inputs: got x, expected (x: f32[4, 3], i: i64[2]); try to give "
                        "--inputs FILE.safetensors with these names or --input NAME=2x3x64x64:f32",
                        path));
  EXPECT_EQ(refused(path, {input("x", {5, 3}), input("i", {2}, at::kLong)}),
            fmt::format("[{}] input x: got [5, 3], expected [4, 3] as exported; try to give inputs "
                        "of these sizes, or to export with dynamic_shapes",
                        path));
  EXPECT_EQ(refused(path, {input("x", {4, 3}), input("i", {2})}),
            fmt::format("[{}] dtype of input i: got float, expected i64 as exported; try to "
                        "--input i=...:i64",
                        path));
  EXPECT_NE(refused(path, {input("x", {4, 3}), input("i", {2}, at::kLong), input("z", {1})}), "");
}

TEST(Pt2, ControlFlowIsRefusedByName) {
  const Scratch scratch;
  const std::string tail =
      ": got an operator that chooses or repeats what is computed, expected a flat graph of "
      "operators; try to export the network without it: torch.where instead of a branch, a loop of "
      "fixed length";
  const std::string branch = exported(scratch, R"(
class Net(nn.Module):
    def forward(s, x): return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
net, args = Net(), (torch.randn(3),)
)");
  EXPECT_EQ(refused(branch, {}), "[" + branch + "] operator torch.ops.higher_order.cond" + tail);
  const std::string loop = exported(scratch, R"(
from torch._higher_order_ops.while_loop import while_loop
class Net(nn.Module):
    def forward(s, x):
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))
net, args = Net(), (torch.randn(3),)
)");
  EXPECT_EQ(refused(loop, {}), "[" + loop + "] operator torch.ops.higher_order.while_loop" + tail);
}

}  // namespace
}  // namespace wide::pt2_test
