#include <ATen/ATen.h>
#include <fmt/format.h>

#include "data/networks/network_format.h"
#include "data/tensors.h"
#include "engine/compile.h"
#include "tests/data/python.h"

namespace wide::torchscript_test {
namespace {

TensorSpec floats(const std::string& name, Sizes sizes) {
  return {name, Role::input, std::move(sizes), at::kFloat, Fill::normal, 1};
}

/// Exports `net` of a Python snippet, scripted, as net.ts.
std::string exported(const Scratch& scratch, const std::string& body) {
  python(scratch.path(), "import torch, torch.nn as nn\nfrom typing import *\n" + body +
                             "\ntorch.jit.script(net).save('net.ts')\n");
  return scratch / "net.ts";
}

constexpr const char* kTied = R"(
class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.a, s.b = nn.Linear(3, 3), nn.Linear(3, 3)
        s.b.weight = s.a.weight
        s.register_buffer("seen", torch.zeros(2))
        s.register_buffer("step", torch.tensor(3))
        s.table = torch.arange(3.)
    def forward(s, x: torch.Tensor, scale: Optional[torch.Tensor] = None):
        s.seen.add_(1.0)
        y = s.b(torch.relu(s.a(x))) + s.table
        if scale is not None: y = y * scale
        return y, {"seen": s.seen + 0, "none": y.sum()}, [x, y]
torch.manual_seed(3)
net = Net()
)";

TEST(TorchScript, WeightsOnceTiedOnesUnderBothNames) {
  const Scratch scratch;
  const auto file = open_network(exported(scratch, kTied));
  EXPECT_EQ(file->wanted(), "x: Tensor, scale: Tensor? = ...");
  EXPECT_EQ(file->input_names(), std::vector<std::string>{"x"});
  const Network network = file->network({floats("x", {2, 3})});
  std::vector<std::string> names;
  for (const TensorSpec& spec : network.tensors) names.push_back(spec.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "a.weight", "a.bias", "b.bias", "seen", "step"}));
  EXPECT_EQ(network.tensors[5].dtype, at::kLong);
  EXPECT_EQ(network.tensors[4].role, Role::buffer);
  EXPECT_EQ(network.aliases, (std::map<std::string, std::string>{{"b.weight", "a.weight"}}));
  EXPECT_EQ(network.initial.size(), 5u);
}

TEST(TorchScript, OutputsAreFlatAndModelsKeepTheirOwnBuffers) {
  const Scratch scratch;
  const Network network = open_network(exported(scratch, kTied))->network({floats("x", {2, 3})});
  const at::Tensor x = at::randn({2, 3});
  Tensors weights = network.initial;
  weights[3] = at::full({2}, 7.0);
  const Model model = network.instantiate(weights);
  const Tensors first = model({x}), second = model({x});
  ASSERT_EQ(first.size(), 5u);  // y, seen, sum, x, y
  EXPECT_TRUE(at::equal(first[0], first[4]));
  EXPECT_TRUE(at::equal(first[3], x));
  EXPECT_EQ(first[1][0].item<float>(), 8.0f);
  EXPECT_EQ(second[1][0].item<float>(), 9.0f);
  EXPECT_EQ(weights[3][0].item<float>(), 7.0f);
  EXPECT_EQ(network.initial[3][0].item<float>(), 0.0f);
}

TEST(TorchScript, AnotherDeviceInTheCodeIsThatOfTheWeights) {
  const Scratch scratch;  // as in the code of a trace that was made on a GPU
  const Network network = open_network(exported(scratch, R"(
def shifted(x: torch.Tensor): return x + torch.ones(3, device=torch.device("cuda:0"))
class Part(nn.Module):
    def __init__(s):
        super().__init__()
        s.scale = nn.Parameter(torch.tensor([2., 3., 4.]))
    def forward(s, x): return shifted(x) * s.scale * torch.full([3], 5., device=torch.device("cuda:0"))
class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.part = Part()
    def forward(s, x): return s.part(x).to(torch.device("cuda:0"))
net = Net()
)"))
                              ->network({floats("x", {2, 3})});
  const at::Tensor x = at::randn({2, 3}), scale = at::tensor({2.0F, 3.0F, 4.0F});
  const at::Tensor expected = (x + 1) * scale * 5;
  EXPECT_TRUE(at::allclose(network.instantiate(network.initial)({x})[0], expected));
  const Program program =
      record_single(network, {1, {x.unsqueeze(0), scale.unsqueeze(0)}, {false, false}});
  EXPECT_TRUE(at::allclose(interpret(program, {x, scale})[0], expected));
}

TEST(TorchScript, OptionalInputsAreTakenByName) {
  const Scratch scratch;
  const auto file = open_network(exported(scratch, kTied));
  const Network plain = file->network({floats("x", {2, 3})});
  const Network scaled = file->network({floats("scale", {1}), floats("x", {2, 3})});
  const at::Tensor x = at::randn({2, 3});
  const at::Tensor y = plain.instantiate(plain.initial)({x})[0];
  const at::Tensor z = scaled.instantiate(scaled.initial)({at::full({1}, 2.0), x})[0];
  EXPECT_TRUE(at::equal(y * 2, z));
}

TEST(TorchScript, RecordingLeavesTheModuleAsItWas) {
  const Scratch scratch;
  Network network = open_network(exported(scratch, kTied))->network({floats("x", {2, 3})});
  Ensemble e{1, {at::randn({1, 2, 3})}, {}};
  for (const at::Tensor& t : network.initial) e.tensors.push_back(t.unsqueeze(0).clone());
  e.shared.assign(e.tensors.size(), false);
  Tensors before;
  for (const at::Tensor& t : network.initial) before.push_back(t.clone());
  for (int i = 0; i < 2; ++i) {
    const Program program = record_single(network, e);
    EXPECT_EQ(program.outputs.size(), 5u);
    EXPECT_EQ(program.updates.size(), 1u);
  }
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(network.initial[i], before[i])) << i;
  const Tensors after = network.instantiate(network.initial)({e.tensors[0][0]});
  EXPECT_EQ(after[1][0].item<float>(), 1.0f);
}

constexpr const char* kNested = R"(
class Net(nn.Module):
    def forward(s, batch: Dict[str, torch.Tensor], xs: List[torch.Tensor], pair: Tuple[torch.Tensor, Optional[torch.Tensor]]):
        extra = pair[1]
        y = batch["a.b"] - batch["c"] + xs[0] * 2 + xs[1] * 3 + pair[0] * 5
        return y if extra is None else y + extra
net = Net()
)";

TEST(TorchScript, NestedInputsByName) {
  const Scratch scratch;
  const auto file = open_network(exported(scratch, kNested));
  std::vector<TensorSpec> specs;
  Tensors values;
  for (const char* name : {"xs.1", "pair.0", "batch.c", "xs.0", "batch.a.b"}) {
    specs.push_back(floats(name, {2}));
    values.push_back(at::full({2}, static_cast<double>(specs.size())));
  }
  const Network network = file->network(specs);
  // a.b - c + xs0*2 + xs1*3 + pair0*5
  EXPECT_EQ(network.instantiate({})(values)[0][0].item<float>(), 5 - 3 + 8 + 3 + 10);
}

TEST(TorchScript, WrongInputsNameWhatForwardWants) {
  const Scratch scratch;
  const std::string path = exported(scratch, kTied);
  const auto file = open_network(path);
  const std::string wants =
      ", expected (x: Tensor, scale: Tensor? = ...); try --inputs FILE.safetensors with "
      "these names or --input NAME=2x3x64x64:f32";
  EXPECT_EQ(error_of([&] { file->network({}); }), "[" + path + "] inputs: got none" + wants);
  EXPECT_EQ(error_of([&] {
              file->network({floats("x", {1}), floats("z", {1})});
            }),
            "[" + path + "] inputs: got x, z" + wants);
  const auto nested = open_network(exported(scratch, kNested));
  EXPECT_EQ(error_of([&] {
              nested->network({floats("pair.1", {1}), floats("xs.0", {1}), floats("batch.a", {1})});
            }),
            "[" + path + "] inputs: got no pair.0, expected all 2 of pair; try --input pair.0=...");
}

TEST(TorchScript, OtherFilesAreRefusedByName) {
  const Scratch scratch;
  python(scratch.path(), "import torch\ntorch.save({'a': torch.ones(2)}, 'state.pt')\n");
  const std::string expected =
      "network: got a file of an unknown kind, expected TorchScript (.ts, .pt, .torchscript), "
      "torch.export (.pt2); try torch.export.save(torch.export.export(model, args), path)";
  EXPECT_EQ(error_of([&] { open_network(scratch / "state.pt"); }),
            "[" + (scratch / "state.pt") + "] " + expected);
  write_text(scratch / "text.ts", "hello");
  EXPECT_EQ(error_of([&] { open_network(scratch / "text.ts"); }),
            "[" + (scratch / "text.ts") + "] " + expected);
  EXPECT_EQ(error_of([&] { open_network(scratch / "none.ts"); }),
            "[" + (scratch / "none.ts") + "] file: got none, expected a network; try another path");
}

TEST(TorchScript, NumbersBesideTensorsAreLeftOutAndAloneRefused) {
  const Scratch scratch;
  const auto results = [&](const char* result) {
    const auto file = open_network(exported(scratch, fmt::format(R"(
class Net(nn.Module):
    def forward(s, x: torch.Tensor):
        return {}
net = Net()
)",
                                                                 result)));
    return file->network({floats("x", {2})}).instantiate({})({at::ones({2})});
  };
  EXPECT_EQ(results("x, 3, 'text', 0.5").size(), 1u);
  EXPECT_NE(error_of([&] { results("3"); }).find("output: got Int, expected at least one tensor"),
            std::string::npos);
}

}  // namespace
}  // namespace wide::torchscript_test
