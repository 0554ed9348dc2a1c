#include "data/checkpoints/checkpoint.h"
#include "data/checkpoints/checkpoint_search.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "data/tensors.h"
#include "tests/data/python.h"

namespace wide::checkpoint_test {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

/// A linear layer and a batch norm; `head` shares the linear layer's weight.
Network small_network() {
  Network n;
  n.name = "small";
  n.tensors = {{"x", Role::input, {2, 3}, at::kFloat, Fill::normal, 1},
               {"fc.weight", Role::parameter, {4, 3}, at::kFloat, Fill::normal, 1},
               {"fc.bias", Role::parameter, {4}, at::kFloat, Fill::normal, 1},
               {"bn.running_mean", Role::buffer, {4}, at::kFloat, Fill::normal, 1},
               {"bn.num_batches_tracked", Role::buffer, {}, at::kLong, Fill::zeros, 1}};
  n.initial = {at::zeros({4, 3}), at::zeros({4}), at::zeros({4}), at::scalar_tensor(5, at::kLong)};
  n.aliases = {{"head.weight", "fc.weight"}};
  return n;
}

Named checkpoint(int seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return {{"fc.weight", at::randn({4, 3})},
          {"fc.bias", at::randn({4})},
          {"bn.running_mean", at::randn({4})},
          {"bn.num_batches_tracked", at::scalar_tensor(seed, at::kLong)},
          {"head.weight", at::Tensor()}};
}

/// Writes w0.safetensors ... after `change`; the twin is written as well where it is there.
class Checkpoints : public ::testing::Test {
 protected:
  std::string save(const std::string& name, Named tensors, const std::string& prefix = "") {
    Named named;
    for (auto& [key, tensor] : tensors) {
      if (key == "head.weight" && !tensor.defined()) tensor = tensors[0].second;
      named.emplace_back(prefix + key, tensor);
    }
    save_tensors(scratch_ / name, named);
    return scratch_ / name;
  }

  std::string refused(const std::string& file) {
    std::string message = error_of([&] { load_checkpoints(network_, {file}, at::kFloat, false); });
    const size_t at = message.find(scratch_.path().string() + "/");
    if (at != std::string::npos) message.erase(at, scratch_.path().string().size() + 1);
    return message;
  }

  static Named without(Named tensors, const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.first == name; });
    return tensors;
  }

  Scratch scratch_;
  Network network_ = small_network();
};

TEST_F(Checkpoints, PacksOneModelAfterTheOther) {
  std::vector<std::string> files;
  for (int i = 0; i < 3; ++i)
    files.push_back(save(fmt::format("w{}.safetensors", i), checkpoint(i)));
  const LoadedWeights w = load_checkpoints(network_, files, at::kFloat, false);
  ASSERT_EQ(w.tensors.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    const Named expected = checkpoint(i);
    for (size_t k = 0; k < 4; ++k)
      EXPECT_TRUE(same_bits(w.tensors[k].select(0, i), expected[k].second)) << i << k;
  }
  EXPECT_TRUE(w.notes.empty());
}

TEST_F(Checkpoints, ConvertsToTheDtypeAskedFor) {
  Named tensors = checkpoint(1);
  tensors[0].second = tensors[0].second.to(at::kBFloat16);
  tensors[1].second = tensors[1].second.to(at::kHalf);
  const auto file = save("w.safetensors", tensors);
  const LoadedWeights w = load_checkpoints(network_, {file}, at::kDouble, false);
  EXPECT_TRUE(same_bits(w.tensors[0][0], tensors[0].second.to(at::kDouble)));
  EXPECT_TRUE(same_bits(w.tensors[1][0], tensors[1].second.to(at::kDouble)));
  EXPECT_EQ(w.tensors[3].scalar_type(), at::kLong);
}

TEST_F(Checkpoints, KnownPrefixesAreDroppedAndSaid) {
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
    const auto file = save("w.safetensors", checkpoint(2), prefix);
    const LoadedWeights w = load_checkpoints(network_, {file}, at::kFloat, false);
    EXPECT_EQ(w.notes,
              std::vector<std::string>{fmt::format("prefix '{}' dropped from names", prefix)});
    EXPECT_TRUE(same_bits(w.tensors[0][0], checkpoint(2)[0].second));
  }
}

TEST_F(Checkpoints, TiedTwinsAndCountersMayBeMissing) {
  const auto first = save("a.safetensors", without(checkpoint(1), "head.weight"));
  Named other = without(checkpoint(2), "bn.num_batches_tracked");
  other[0].first = "head.weight";  // only the other twin is there
  other.pop_back();
  const auto second = save("b.safetensors", other);
  const LoadedWeights w = load_checkpoints(network_, {first, second}, at::kFloat, false);
  EXPECT_TRUE(same_bits(w.tensors[0][1], checkpoint(2)[0].second));
  EXPECT_EQ(w.tensors[3][1].item<int64_t>(), 5);
  EXPECT_EQ(w.notes,
            (std::vector<std::string>{
                "bn.num_batches_tracked is missing in 1 of 2 checkpoints: the network's own value "
                "is kept",
                "fc.weight and head.weight are tied: one is in the checkpoint, both are loaded"}));
}

TEST_F(Checkpoints, MismatchesNameFileAndTensor) {
  EXPECT_EQ(refused(save("w.safetensors", without(checkpoint(1), "fc.bias"))),
            "[w.safetensors] tensors: got none for fc.bias, expected all 4 of the network; try "
            "checkpoints of this architecture");
  EXPECT_EQ(refused(save("w.safetensors", without(checkpoint(1), "bn.running_mean"))),
            "[w.safetensors] tensors: got none for bn.running_mean, expected all 4 of the network; "
            "try checkpoints of this architecture");
  Named renamed = without(checkpoint(1), "head.weight");
  renamed[1].first = "fc.offset";
  EXPECT_EQ(refused(save("w.safetensors", renamed)),
            "[w.safetensors] tensors: got none for fc.bias (but fc.offset), expected all 4 of the "
            "network; try checkpoints of this architecture");
  Named reshaped = without(checkpoint(1), "head.weight");
  reshaped[0].second = at::zeros({3, 4});
  EXPECT_EQ(refused(save("w.safetensors", reshaped)),
            "[w.safetensors] fc.weight: got [3, 4], expected [4, 3] as the network has; try "
            "checkpoints of this architecture");
  Named integers = checkpoint(1);
  integers[1].second = at::zeros({4}, at::kLong);
  EXPECT_EQ(refused(save("w.safetensors", integers)),
            "[w.safetensors] dtype of fc.bias: got i64, expected a floating one; try checkpoints "
            "of this architecture");
  Named counters = checkpoint(1);
  counters[3].second = at::scalar_tensor(1.0, at::kFloat);
  EXPECT_EQ(refused(save("w.safetensors", counters)),
            "[w.safetensors] dtype of bn.num_batches_tracked: got f32, expected i64; try "
            "checkpoints of this architecture");
  Named untied = checkpoint(1);
  untied[4].second = at::ones({4, 3});
  EXPECT_EQ(refused(save("w.safetensors", untied)),
            "[w.safetensors] fc.weight and head.weight: got different values, expected equal ones "
            "as the network ties them; try a network exported without tied weights");
}

TEST_F(Checkpoints, EqualWeightsAreSharedWhenAsked) {
  Named a = checkpoint(1), b = checkpoint(2);
  b[1].second = a[1].second.clone();
  const std::vector<std::string> files = {save("a.safetensors", a), save("b.safetensors", b)};
  const LoadedWeights shared = load_checkpoints(network_, files, at::kFloat, true);
  EXPECT_EQ(shared.shared, (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(shared.tensors[1].sizes(), at::IntArrayRef{4});
  EXPECT_EQ(shared.notes.at(0), "1 of 4 weights are equal in all checkpoints and shared");
  const LoadedWeights apart = load_checkpoints(network_, files, at::kFloat, false);
  EXPECT_EQ(apart.tensors[1].sizes(), (at::IntArrayRef{2, 4}));
}

TEST_F(Checkpoints, WhatIsLeftOverIsSaid) {
  Named more = checkpoint(1);
  more.emplace_back("fc2.weight", at::zeros({1}));
  more.emplace_back("optimizer.state.0.step", at::zeros({1}));
  const LoadedWeights w =
      load_checkpoints(network_, {save("w.safetensors", more)}, at::kFloat, false);
  EXPECT_EQ(w.notes,
            std::vector<std::string>{
                "2 tensors of a checkpoint are not used: fc2.weight, optimizer.state.0.step"});
  EXPECT_EQ(refused(save("w.safetensors", {{"other.kernel", at::zeros({1})}})),
            "[w.safetensors] tensors: got none for fc.weight, fc.bias, bn.running_mean (but "
            "other.kernel), expected all 4 of the network; try checkpoints of this architecture");
}

TEST_F(Checkpoints, ContainersAndPrefixesOfAnyName) {
  const auto notes = [&](const std::string& prefix) {
    return load_checkpoints(network_, {save("w.safetensors", checkpoint(2), prefix)}, at::kFloat,
                            false)
        .notes;
  };
  EXPECT_EQ(notes("student.net."),
            std::vector<std::string>{"prefix 'student.net.' dropped from names"});
  // Of two that match alike the one of the usual name is meant.
  Named both;
  for (const auto& [name, tensor] : checkpoint(3))
    if (tensor.defined()) both.emplace_back("ema." + name, tensor);
  for (const auto& [name, tensor] : checkpoint(2))
    if (tensor.defined()) both.emplace_back("model." + name, tensor);
  const LoadedWeights w =
      load_checkpoints(network_, {save("w.safetensors", both)}, at::kFloat, false);
  EXPECT_TRUE(same_bits(w.tensors[0][0], checkpoint(2)[0].second));
  // Compiled submodules leave their wrapper in the middle of names.
  Named inside = without(checkpoint(2), "head.weight");
  inside[0].first = "fc._orig_mod.weight";
  const LoadedWeights inner =
      load_checkpoints(network_, {save("w.safetensors", inside)}, at::kFloat, false);
  EXPECT_TRUE(same_bits(inner.tensors[0][0], checkpoint(2)[0].second));
  // The network was exported with a wrapper that the checkpoints lack.
  for (TensorSpec& spec : network_.tensors)
    if (spec.role != Role::input) spec.name = "model." + spec.name;
  network_.aliases = {{"model.head.weight", "model.fc.weight"}};
  EXPECT_EQ(notes(""),
            std::vector<std::string>{"prefix 'model.' put before names, as the network has it"});
}

TEST_F(Checkpoints, ATorchCheckpointOfTrainingIsTakenFromItsContainer) {
  save("w.safetensors", checkpoint(4));
  python(scratch_.path(), R"(
import torch
from safetensors.torch import load_file
state = {"module." + k: v for k, v in load_file("w.safetensors").items()}
torch.save({"epoch": 1, "model_state_dict": state, "ema": state,
            "optimizer": {"state": {0: {"exp_avg": torch.zeros(4)}}}}, "w.pt")
torch.save({"model_state_dict": {k: v.half() for k, v in state.items()}}, "half.pt",
           _use_new_zipfile_serialization=False)
)");
  const LoadedWeights w = load_checkpoints(network_, {scratch_ / "w.pt"}, at::kFloat, false);
  for (size_t k = 0; k < 4; ++k) EXPECT_TRUE(same_bits(w.tensors[k][0], checkpoint(4)[k].second));
  EXPECT_EQ(w.notes, (std::vector<std::string>{"1 tensor of a checkpoint is not used: "
                                               "optimizer.state.0.exp_avg",
                                               "prefix 'module.' dropped from names",
                                               "weights taken from 'model_state_dict'"}));
  EXPECT_EQ(refused(scratch_ / "half.pt"),
            "[half.pt] dtype of model_state_dict.module.bn.num_batches_tracked: got f16, expected "
            "i64; try checkpoints of this architecture");
}

TEST_F(Checkpoints, SharingIsOfferedInBytes) {
  Named a = checkpoint(1), b = checkpoint(2), c = checkpoint(3);
  b[0].second = c[0].second = a[0].second.clone();
  const std::vector<std::string> files = {save("a.safetensors", a), save("b.safetensors", b),
                                          save("c.safetensors", c)};
  const LoadedWeights apart = load_checkpoints(network_, files, at::kFloat, false);
  EXPECT_EQ(apart.equal_bytes, 2 * 12 * 4);
  EXPECT_EQ(apart.notes, std::vector<std::string>{"1 of 4 weights are equal in all checkpoints: "
                                                  "--share-weights would save 96 B"});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(apart.tensors[0][i], a[0].second));
  // Equal in the first two only: what was not written yet is written then.
  const LoadedWeights late = load_checkpoints(
      network_, {files[0], files[1], save("d.safetensors", checkpoint(4))}, at::kFloat, true);
  EXPECT_FALSE(late.shared[0]);
  std::vector<int64_t> equal;
  const auto watch = [&](int64_t bytes) {
    equal.push_back(bytes);
    if (equal.size() == 5) throw Error("[watch] too many", 5);
  };
  load_checkpoints(network_, files, at::kFloat, true, watch);
  EXPECT_EQ(equal, (std::vector<int64_t>{20 * 4 + 8, 12 * 4, 12 * 4}));
  EXPECT_EQ(error_of([&] { load_checkpoints(network_, files, at::kFloat, true, watch); }),
            "[watch] too many");
  EXPECT_EQ(equal.size(), 5u);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(late.tensors[0][i], a[0].second));
  EXPECT_TRUE(same_bits(late.tensors[0][2], checkpoint(4)[0].second));
}

TEST_F(Checkpoints, FoldersAndGlobsInNumberOrder) {
  for (const int i : {10, 9, 1}) save(fmt::format("w{}.safetensors", i), checkpoint(i));
  write_text(scratch_ / "notes.txt", "no checkpoint");
  write_text(scratch_ / "w1.pt", "");
  const std::vector<std::string> expected = {
      scratch_ / "w1.safetensors", scratch_ / "w9.safetensors", scratch_ / "w10.safetensors"};
  const FoundCheckpoints folder = find_checkpoints({scratch_.path().string()});
  EXPECT_EQ(folder.files, expected);
  EXPECT_EQ(folder.notes,
            std::vector<std::string>{scratch_.path().string() +
                                     ": 3 checkpoints taken (w1.safetensors .. w10.safetensors), 1 "
                                     "files of other formats left out"});
  EXPECT_EQ(find_checkpoints({scratch_ / "w*.safetensors"}).files, expected);
  EXPECT_TRUE(find_checkpoints(expected).notes.empty());
  const std::vector<std::string> shells = {expected[0], expected[2], expected[1]};
  const FoundCheckpoints given = find_checkpoints(shells);
  EXPECT_EQ(given.files, shells);
  EXPECT_EQ(given.notes,
            std::vector<std::string>{"checkpoints are numbered as given, w1.safetensors first and "
                                     "w9.safetensors last; try a folder or a quoted pattern for "
                                     "the order of their numbers"});
  const auto refusal = [](const std::string& argument) {
    return error_of([&] { find_checkpoints({argument}); });
  };
  EXPECT_EQ(refused(scratch_ / "notes.txt"),
            "[notes.txt] checkpoint: got a file of an unknown kind, expected PyTorch state_dict, "
            "PyTorch state_dict (before 1.6), safetensors, sharded index; try to save it with "
            "safetensors.torch.save_file(model.state_dict(), ...)");
  EXPECT_EQ(refusal("/nowhere/w.safetensors"),
            "[/nowhere/w.safetensors] weights: got no such file, expected a checkpoint; try "
            "another path");
  EXPECT_EQ(refusal("/nowhere/*"),
            "[/nowhere/*] weights: got no file, expected one per model; try another pattern");
  std::filesystem::create_directory(scratch_ / "empty");
  EXPECT_EQ(refusal(scratch_ / "empty"),
            "[" + (scratch_ / "empty") +
                "] weights: got a folder without checkpoints (.pt, .pth, .bin, .ckpt, "
                ".safetensors, .safetensors.index.json, .bin.index.json), expected one per model; "
                "try another folder");
}

TEST_F(Checkpoints, RunsInFoldersOfTheirOwn) {
  for (const int i : {2, 10}) {
    std::filesystem::create_directory(scratch_ / fmt::format("seed{}", i));
    save(fmt::format("seed{}/model.safetensors", i), checkpoint(i));
  }
  const std::vector<std::string> expected = {scratch_ / "seed2/model.safetensors",
                                             scratch_ / "seed10/model.safetensors"};
  EXPECT_EQ(find_checkpoints({scratch_.path().string()}).files, expected);
  EXPECT_EQ(find_checkpoints({scratch_ / "seed*"}).files, expected);
}

TEST_F(Checkpoints, AShardedCheckpointIsOneModel) {
  save("w.safetensors", checkpoint(6));
  python(scratch_.path(), R"(
import json, os, torch
from safetensors.torch import load_file, save_file
state = load_file("w.safetensors"); os.remove("w.safetensors")
names = sorted(state)
for kind in ("safetensors", "bin"):
    where = {}
    for i, part in enumerate((names[:2], names[2:])):
        file = f"model-0000{i + 1}-of-00002.{kind}"
        held = {k: state[k] for k in part}
        save_file(held, file) if kind == "safetensors" else torch.save(held, file)
        where.update({k: file for k in part})
    with open(f"model.{kind}.index.json", "w") as out:
        json.dump({"metadata": {"total_size": 1}, "weight_map": where}, out, indent=1)
)");
  const FoundCheckpoints found = find_checkpoints({scratch_.path().string()});
  ASSERT_EQ(found.files.size(), 2u);  // the same model twice, each under its own index
  EXPECT_EQ(found.files[1], scratch_ / "model.safetensors.index.json");
  for (const std::string& file : found.files) {
    const LoadedWeights w = load_checkpoints(network_, {file}, at::kFloat, false);
    for (size_t k = 0; k < 4; ++k) EXPECT_TRUE(same_bits(w.tensors[k][0], checkpoint(6)[k].second));
  }
  const std::string index = scratch_ / "model.safetensors.index.json";
  std::string text = read_text(index);
  write_text(index, R"({"weight_map": {"fc.weight": "../x.safetensors"}})");
  EXPECT_EQ(
      refused(index),
      "[model.safetensors.index.json] file of fc.weight: got '../x.safetensors', expected the "
      "name of a file beside it; try to save the file again");
  write_text(index, R"({"weight_map": {"gone": "model-00001-of-00002.safetensors"}})");
  EXPECT_NE(refused(index).find("tensor gone: got none, expected it here as "), std::string::npos);
}

}  // namespace
}  // namespace wide::checkpoint_test
