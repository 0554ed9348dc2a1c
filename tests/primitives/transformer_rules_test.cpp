// The written-out forms of the fused transformer operators equal the operators themselves.
#include "tests/properties/harness.h"

namespace wide::testing::transformer_rules_test {
namespace {

constexpr int64_t kBatch = 2, kLength = 5, kDim = 8, kHeads = 2, kHidden = 12;

Tensor random(Sizes sizes, double scale = 0.5) {
  return at::randn(sizes, at::TensorOptions().dtype(at::kDouble)) * scale;
}

/// No row is masked away entirely: what is then right nobody defines.
Tensor mask_of_kind(int64_t kind) {
  Sizes sizes{kLength, kLength};
  if (kind == 1) sizes = {kBatch, kLength};
  if (kind == 2) sizes = {kBatch, kHeads, kLength, kLength};
  Tensor mask = at::rand(sizes).lt(0.4);
  mask.select(-1, 0).fill_(false);
  return mask;
}

Program record_on(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& function) {
  std::vector<Binding> bindings;
  for (size_t k = 0; k < inputs.size(); ++k)
    bindings.push_back({fmt::format("input.{}", k), Role::input, inputs[k], false});
  return record(bindings, function);
}

void expect_same(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& function,
                 const std::string& replaced) {
  const at::NoGradGuard guard;
  const Program program = record_on(inputs, function);
  for (const Node& node : program.nodes) EXPECT_NE(node.name(), replaced);
  EXPECT_LT(relative_error(interpret(program, inputs), function(inputs)), 1e-12);
}

TEST(TransformerRules, EncoderLayerInAllItsForms) {
  at::manual_seed(3);
  const Tensors inputs{random({kBatch, kLength, kDim}, 1.0),
                       random({3 * kDim, kDim}),
                       random({3 * kDim}),
                       random({kDim, kDim}),
                       random({kDim}),
                       random({kDim}),
                       random({kDim}),
                       random({kDim}),
                       random({kDim}),
                       random({kHidden, kDim}),
                       random({kHidden}),
                       random({kDim, kHidden}),
                       random({kDim})};
  for (const bool gelu : {false, true})
    for (const bool norm_first : {false, true})
      for (const int64_t kind : {-1, 0, 1, 2}) {
        SCOPED_TRACE(fmt::format("gelu {} norm_first {} mask {}", gelu, norm_first, kind));
        Tensors all = inputs;
        if (kind >= 0) all.push_back(mask_of_kind(kind));
        expect_same(
            all,
            [=](const Tensors& t) -> Tensors {
              std::optional<Tensor> mask;
              std::optional<int64_t> mask_type;
              if (kind >= 0) {
                mask = t[13];
                mask_type = kind;
              }
              return {at::_transformer_encoder_layer_fwd(
                  t[0], kDim, kHeads, t[1], t[2], t[3], t[4], gelu, norm_first, 1e-5, t[5], t[6],
                  t[7], t[8], t[9], t[10], t[11], t[12], mask, mask_type)};
            },
            "aten::_transformer_encoder_layer_fwd");
      }
}

TEST(TransformerRules, SelfAttention) {
  at::manual_seed(4);
  const Tensors inputs{random({kBatch, kLength, kDim}, 1.0), random({3 * kDim, kDim}),
                       random({3 * kDim}), random({kDim, kDim}), random({kDim})};
  for (const int64_t kind : {-1, 0, 1, 2}) {
    Tensors all = inputs;
    if (kind >= 0) all.push_back(mask_of_kind(kind));
    expect_same(
        all,
        [=](const Tensors& t) -> Tensors {
          std::optional<Tensor> mask;
          std::optional<int64_t> mask_type;
          if (kind >= 0) {
            mask = t[5];
            mask_type = kind;
          }
          return {std::get<0>(at::_native_multi_head_attention(t[0], t[0], t[0], kDim, kHeads, t[1],
                                                               t[2], t[3], t[4], mask, false, true,
                                                               mask_type))};
        },
        "aten::_native_multi_head_attention");
  }
}

TEST(TransformerRules, TrainingBatchNormShowsItsUpdate) {
  const at::NoGradGuard guard;
  at::manual_seed(5);
  const Tensors inputs{random({4, 3, 2, 2}), random({3}), random({3}), random({3}),
                       at::rand({3}, at::kDouble)};
  const auto function = [](const Tensors& t) -> Tensors {
    return {std::get<0>(at::native_batch_norm(t[0], t[1], t[2], t[3], t[4], true, 0.1, 1e-5))};
  };
  std::vector<Binding> bindings;
  for (size_t k = 0; k < inputs.size(); ++k)
    bindings.push_back(
        {fmt::format("t{}", k), k < 3 ? Role::input : Role::buffer, inputs[k], false});
  const Program program = record(bindings, function);
  ASSERT_EQ(program.updates.size(), 2u);
  const Tensors got = interpret(program, inputs);
  Tensors changed;
  for (const Tensor& t : inputs) changed.push_back(t.clone());
  const Tensors expected{function(changed)[0], changed[3], changed[4]};
  EXPECT_LT(relative_error(got, expected), 1e-12);
}

}  // namespace
}  // namespace wide::testing::transformer_rules_test
