#include "data/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "data/tensors.h"
#include "tests/data/python.h"

namespace wide {
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
class CheckpointFile : public ::testing::Test {
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

TEST_F(CheckpointFile, PacksOneModelAfterTheOther) {
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

TEST_F(CheckpointFile, ConvertsToTheDtypeAskedFor) {
  Named tensors = checkpoint(1);
  tensors[0].second = tensors[0].second.to(at::kBFloat16);
  tensors[1].second = tensors[1].second.to(at::kHalf);
  const auto file = save("w.safetensors", tensors);
  const LoadedWeights w = load_checkpoints(network_, {file}, at::kDouble, false);
  EXPECT_TRUE(same_bits(w.tensors[0][0], tensors[0].second.to(at::kDouble)));
  EXPECT_TRUE(same_bits(w.tensors[1][0], tensors[1].second.to(at::kDouble)));
  EXPECT_EQ(w.tensors[3].scalar_type(), at::kLong);
}

TEST_F(CheckpointFile, KnownPrefixesAreDroppedAndSaid) {
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
    const auto file = save("w.safetensors", checkpoint(2), prefix);
    const LoadedWeights w = load_checkpoints(network_, {file}, at::kFloat, false);
    EXPECT_EQ(w.notes,
              std::vector<std::string>{fmt::format("prefix '{}' dropped from names", prefix)});
    EXPECT_TRUE(same_bits(w.tensors[0][0], checkpoint(2)[0].second));
  }
}

TEST_F(CheckpointFile, TiedTwinsAndCountersMayBeMissing) {
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
                "bn.num_batches_tracked is in no checkpoint: the network's own value is kept",
                "fc.weight and head.weight are tied: one is in the checkpoint, both are loaded"}));
}

TEST_F(CheckpointFile, MismatchesNameFileAndTensor) {
  EXPECT_EQ(refused(save("w.safetensors", without(checkpoint(1), "fc.bias"))),
            "[w.safetensors] tensors: got none for fc.bias, expected all 4 of the network; try "
            "checkpoints of this architecture");
  EXPECT_EQ(refused(save("w.safetensors", without(checkpoint(1), "bn.running_mean"))),
            "[w.safetensors] tensors: got none for bn.running_mean, expected all 4 of the network; "
            "try checkpoints of this architecture");
  Named more = checkpoint(1);
  more.emplace_back("fc2.weight", at::zeros({1}));
  EXPECT_EQ(refused(save("w.safetensors", more)),
            "[w.safetensors] tensors: got fc2.weight, expected only what the network has; try "
            "checkpoints of this architecture");
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

TEST_F(CheckpointFile, EqualWeightsAreSharedWhenAsked) {
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

TEST_F(CheckpointFile, FoldersAndGlobsInNumberOrder) {
  for (const int i : {10, 9, 1}) save(fmt::format("w{}.safetensors", i), checkpoint(i));
  write_text(scratch_ / "notes.txt", "");
  const std::vector<std::string> expected = {
      scratch_ / "w1.safetensors", scratch_ / "w9.safetensors", scratch_ / "w10.safetensors"};
  EXPECT_EQ(expand_checkpoints({scratch_.path().string()}), expected);
  EXPECT_EQ(expand_checkpoints({scratch_ / "w*.safetensors"}), expected);
  const auto refusal = [](const std::string& argument) {
    return error_of([&] { expand_checkpoints({argument}); });
  };
  EXPECT_EQ(refusal(scratch_ / "notes.txt"),
            "[" + (scratch_ / "notes.txt") +
                "] weights: got a .txt file, expected .safetensors; try "
                "safetensors.torch.save_file(model.state_dict(), ...)");
  EXPECT_EQ(refusal("/nowhere/w.safetensors"),
            "[/nowhere/w.safetensors] weights: got no such file, expected a checkpoint; try "
            "another path");
  EXPECT_EQ(refusal("/nowhere/*"),
            "[/nowhere/*] weights: got no file, expected one per model; try another pattern");
}

}  // namespace
}  // namespace wide
