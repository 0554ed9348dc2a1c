#include "data/wide_file.h"

#include "data/tensors.h"
#include "tests/data/python.h"
#include "tests/data/truth.h"

namespace wide::wide_file_test {
namespace {

TEST(WideFile, CopiesOfAnArchiveGiveWhatPyTorchGave) {
  const std::string folder =
      std::string(std::getenv("WORKBENCH_SOURCE")) + "/tests/data/networks/pt2/";
  const auto truth = nlohmann::json::parse(read_text(folder + "expected.json"))["decomposed"];
  Tensors inputs, wide_inputs;
  for (const auto& [name, value] : truth["inputs"].items()) {
    inputs.push_back(from_json(value));
    wide_inputs.push_back(at::stack(Tensors(3, inputs.back())));
  }
  for (const bool share : {false, true}) {
    WideModel wide = load(folder + "torch-2.11-decomposed.pt2", 3, inputs,
                          Builder().tune(false).share_weights(share));
    EXPECT_EQ(wide.input_names(), (std::vector<std::string>{"batch.image", "mask", "scale"}));
    const Tensors outputs = wide.run(wide_inputs);
    ASSERT_EQ(outputs.size(), 3u);
    for (size_t k = 0; k < 3; ++k)
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::allclose(outputs[k][i].to(at::kDouble),
                                 from_json(truth["outputs"][k]).to(at::kDouble), 1e-5, 1e-5))
            << "output " << k << " of model " << i;
  }
}

TEST(WideFile, CheckpointsOfAnArchiveAtTwoBatchSizes) {
  const Scratch scratch;
  python(scratch.path(), R"(
import torch, torch.nn as nn
from safetensors.torch import save_file
def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 2)).eval()
x = torch.randn(3, 5)
batch = torch.export.Dim("batch", min=2, max=64)
torch.export.save(torch.export.export(net(0), (x,), dynamic_shapes=({0: batch},)), "net.pt2")
out = {}
for i in range(3):
    torch.save(net(i + 1).state_dict(), f"w{i}.pt")
for size in (3, 4):
    data = torch.randn(3, size, 5)
    out[f"x{size}"] = data
    out[f"y{size}"] = torch.stack([net(i + 1).double()(data[i].double()) for i in range(3)]).detach()
save_file(out, "truth.safetensors")
)");
  std::map<std::string, Tensor> truth;
  for (const auto& [name, t] : load_tensors(scratch / "truth.safetensors")) truth[name] = t;
  WideModel wide =
      load(scratch / "net.pt2", {scratch / "w*.pt"}, {truth.at("x3")[0]}, Builder().tune(false));
  EXPECT_EQ(wide.n(), 3);
  for (const char* size : {"3", "4", "3"}) {
    const Tensor y = wide.run({truth.at(std::string("x") + size)})[0];
    EXPECT_TRUE(at::allclose(y.to(at::kDouble), truth.at(std::string("y") + size), 1e-4, 1e-5));
  }
  EXPECT_EQ(wide.signatures(), 2u);
  const auto path = scratch / "net.pt2";
  const Tensors sample{truth.at("x3")[0]};
  EXPECT_NE(error_of([&] { load(path, 0, sample); }).find("models: got 0"), std::string::npos);
  EXPECT_NE(error_of([&] { load(path, 2, {}); }).find("sample: got 0 inputs, expected 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              load(path, std::vector<std::string>{}, sample);
            }).find("checkpoints: got none"),
            std::string::npos);
}

}  // namespace
}  // namespace wide::wide_file_test
