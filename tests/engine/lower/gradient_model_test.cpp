// Forward pass and gradients in two halves, against autograd on one model at a time.
#include "engine/lower/gradient_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/plan/least_saved.h"
#include "engine/machine/clock.h"

namespace wide::gradient_model_test {
namespace {

/// Convolution, batch norm in training, pooling and a linear layer; two results, one of them a row
/// of whole numbers.
Network network() {
  Network net;
  net.name = "net";
  net.training = true;
  net.tensors = {{"x", Role::input, {5, 3, 6, 6}},
                 {"scale", Role::input, {4}},
                 {"conv", Role::parameter, {4, 3, 3, 3}, at::kFloat, Fill::normal, 0.3},
                 {"gamma", Role::parameter, {4}, at::kFloat, Fill::near_one},
                 {"beta", Role::parameter, {4}},
                 {"fc", Role::parameter, {2, 36}, at::kFloat, Fill::normal, 0.2},
                 {"unused", Role::parameter, {3}},
                 {"mean", Role::buffer, {4}},
                 {"var", Role::buffer, {4}, at::kFloat, Fill::positive}};
  net.forward = [](const Tensors& t) -> Tensors {
    Tensor h = at::conv2d(t[0], t[2], {}, 1, 1) * t[1].view({4, 1, 1});
    h = at::batch_norm(h, t[3], t[4], t[7], t[8], true, 0.1, 1e-5, false);
    h = at::max_pool2d(at::relu(h), 2).flatten(1);
    const Tensor y = at::linear(h, t[5]);
    return {y, y.argmax(1), h};
  };
  return net;
}

constexpr size_t kOf[] = {0, 1, 2, 3, 4, 5, 6};

/// Outputs, then gradients of `kOf` on one model's own tensors.
std::pair<Tensors, Tensors> expected(const Network& net, Tensors one, const Tensors& cotangents) {
  const at::AutoGradMode grad(true);
  Tensors of;
  for (const size_t i : kOf) of.push_back(one[i] = one[i].detach().clone().requires_grad_());
  for (const size_t i : {size_t{7}, size_t{8}}) one[i] = one[i].clone();
  const Tensors outputs = net.forward(one);
  return {outputs, torch::autograd::grad({outputs[0], outputs[2]}, of, cotangents, std::nullopt,
                                         false, /*allow_unused=*/true)};
}

double off(const Tensor& got, const Tensor& wanted) {
  return ((got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-9)).item<double>();
}

struct Subject {
  Network net = network();
  Ensemble e;
  std::unique_ptr<GradientModel> model;

  Subject(int64_t n, int ranges, uint64_t seed = 3)
      : e(generate(net, n, at::kDouble, at::kCPU, seed)) {
    e.shared[1] = true;  // the scale is given once
    e.tensors[1] = e.tensors[1].select(0, 0).clone();
    CompileOptions options;
    options.threads = 2;
    options.ranges = ranges;
    options.tune = false;
    model = compile_gradients(net, e, {std::begin(kOf), std::end(kOf)},
                              record_single(net, e, /*grad=*/true), options);
  }

  Tensors cotangents(uint64_t seed) const {
    at::manual_seed(seed);
    const auto real = at::TensorOptions().dtype(at::kDouble);
    return {at::randn({e.n, 5, 2}, real), Tensor(), at::randn({e.n, 5, 36}, real)};
  }

  void check(const GradientModel::Forward& made, const Tensors& gradients,
             const Tensors& given) const {
    Tensor scale = at::zeros({4}, at::kDouble);
    for (int64_t i = 0; i < e.n; ++i) {
      const auto [outputs, wanted] =
          expected(net, e.model(i), {given[0].select(0, i), given[2].select(0, i)});
      for (const size_t k : {size_t{0}, size_t{2}})
        EXPECT_LT(off(made.outputs[k].select(0, i), outputs[k].detach()), 1e-12);
      EXPECT_TRUE(at::equal(made.outputs[1].select(0, i), outputs[1]));
      scale += wanted[1];
      for (const size_t k : {size_t{0}, size_t{2}, size_t{3}, size_t{4}, size_t{5}})
        EXPECT_LT(off(gradients[k].select(0, i), wanted[k]), 1e-10) << "gradient " << k;
    }
    EXPECT_LT(off(gradients[1], scale), 1e-10);
    EXPECT_FALSE(gradients[6].defined());
  }
};

/// Both passes, of ranges of two and of three models, take turns in the memory of each thread.
TEST(GradientModel, PassesShareAnArenaOfEachThread) {
  const Subject subject(5, 2);
  const std::string text = subject.model->plan_text(), word = "arena ";
  int64_t most = 0, sum = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const int64_t bytes = std::stoll(text.substr(at + word.size()));
    most = std::max(most, bytes);
    sum += bytes;
  }
  EXPECT_GE(subject.model->bytes(), 2 * most);
  EXPECT_LT(subject.model->bytes(), 2 * sum);
}

TEST(GradientModel, IsAutogradOfEveryModel) {
  for (const auto& [n, ranges] : {std::pair{1, 1}, {3, 1}, {5, 2}, {7, 7}, {7, 3}}) {
    const Subject s(n, ranges);
    EXPECT_EQ(s.model->differentiable(), (std::vector<bool>{true, false, true}));
    auto made = s.model->forward(s.e.tensors);
    const Tensors given = s.cotangents(1);
    // What is saved is held here at first, and has to last. Then it becomes gradients.
    for (int pass = 0; pass < 2; ++pass)
      s.check(made, s.model->backward(s.e.tensors, made.outputs, made.saved, given), given);
    Tensors saved = std::move(made.saved);
    s.check(made, s.model->backward(s.e.tensors, made.outputs, std::move(saved), given), given);
  }
}

/// Bytes that a call of four models keeps for its backward pass, in float32.
int64_t saved_bytes(Network net) {
  const Ensemble e = generate(net, 4, at::kFloat, at::kCPU, 5);
  CompileOptions options;
  options.threads = options.ranges = 1;
  options.tune = false;
  const auto model =
      compile_gradients(net, e, {0, 1}, record_single(net, e, /*grad=*/true), options);
  return model->saved_bytes();
}

TEST(GradientModel, KeepsOfReluBeforeAPoolOnlyWhatIsPooled) {
  Network net;
  net.name = "pooled";
  net.tensors = {{"x", Role::input, {5, 3, 16, 16}}, {"w", Role::parameter, {8, 3, 3, 3}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::max_pool2d(at::relu(at::conv2d(t[0], t[1], {}, 1, 1)), 2).cos()};
  };
  const int64_t pooled = 4 * 5 * 8 * 64, input = 4 * 5 * 3 * 256;
  // float32 twice (pooled, and behind relu), places as bytes, and at most a copy of the input.
  EXPECT_LE(saved_bytes(net), pooled * (2 * 4 + 1) + input * 4 + 1024);
}

TEST(GradientModel, KeepsACopyWithoutWhatWasCopied) {
  Network net;
  net.name = "copied";
  net.tensors = {{"x", Role::input, {5, 24, 6}}, {"w", Role::parameter, {24, 6}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::cumsum(t[0] * t[1], 1).transpose(1, 2).clone(at::MemoryFormat::Contiguous).pow(3)};
  };
  EXPECT_EQ(saved_bytes(net), 4 * 5 * 24 * 6 * 4);
}

/// `net` with five models in ranges of two and three; `given_once`: a tensor that is one for all.
struct Five {
  const Network& net;
  Ensemble e;
  std::vector<size_t> of;
  std::unique_ptr<GradientModel> model;

  explicit Five(const Network& network, std::optional<size_t> given_once = {},
                const std::vector<size_t>& gradients_of = {0, 1})
      : net(network), e(generate(net, 5, at::kDouble, at::kCPU, 7)), of(gradients_of) {
    if (given_once) {
      e.shared[*given_once] = true;
      e.tensors[*given_once] = e.tensors[*given_once].select(0, 0).clone();
    }
    CompileOptions options;
    options.threads = options.ranges = 2;
    options.tune = false;
    model = compile_gradients(net, e, of, record_single(net, e, /*grad=*/true), options);
  }

  /// What the backward pass does not read may have changed meanwhile: its gradients are those of
  /// autograd for one model after the other.
  void check() const {
    Tensors bound;
    for (const Tensor& t : e.tensors) bound.push_back(t.clone());
    auto made = model->forward(bound);
    Tensors given, wanted(of.size());
    at::manual_seed(11);
    for (const Tensor& t : made.outputs) given.push_back(at::randn_like(t));
    for (size_t i = 0; i < bound.size(); ++i)
      if (!model->reads()[i]) bound[i].fill_(1e9);
    for (size_t k = 0; k < given.size(); ++k)
      if (!model->reads_output()[k]) made.outputs[k].fill_(1e9);
    const Tensors gradients = model->backward(bound, made.outputs, made.saved, given);
    for (int64_t i = 0; i < e.n; ++i) {
      const at::AutoGradMode grad(true);
      Tensors one = e.model(i), leaves, own;
      for (const size_t k : of) leaves.push_back(one[k] = one[k].detach().clone().requires_grad_());
      for (const Tensor& g : given) own.push_back(g.select(0, i));
      const Tensors theirs = torch::autograd::grad(net.forward(one), leaves, own);
      for (size_t k = 0; k < of.size(); ++k) {
        const bool once = e.shared[of[k]];
        wanted[k] = once && i > 0 ? wanted[k] + theirs[k] : theirs[k];
        const Tensor got = once ? gradients[k] : gradients[k].select(0, i);
        if (!once || i + 1 == e.n) {
          EXPECT_LT(off(got, wanted[k]), 1e-12) << "gradient " << k;
        }
      }
    }
  }
};

TEST(GradientModel, MakesCheapValuesAgain) {
  Network net;
  net.name = "cheap";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor h = at::silu(at::linear(t[0], t[1]));
    return {at::matmul(h.transpose(0, 1), h)};
  };
  EXPECT_EQ(saved_bytes(net), 4 * 5 * 24 * 4);  // what silu was given, not what it made
  Five(net).check();
}

/// Their backward pass reads what they were given, from which their result is made again.
TEST(GradientModel, MakesResultsOfNormsAgain) {
  using Norm = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Norm>> norms{
      {"layer", [](const Tensor& h) { return at::layer_norm(h, {24}); }},
      {"group", [](const Tensor& h) { return at::group_norm(h, 3); }},
      {"batch", [](const Tensor& h) {
         return at::batch_norm(h, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, true);
       }}};
  for (const auto& [name, norm] : norms) {
    Network net;
    net.name = name;
    net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
    net.forward = [&](const Tensors& t) -> Tensors {
      const Tensor h = norm(at::linear(t[0], t[1]));
      return {at::matmul(h.transpose(0, 1), h)};
    };
    const int64_t moments = 4 * 2 * 24;
    EXPECT_LE(saved_bytes(net), (4 * 5 * 24 + moments) * 4) << name;
    Five(net).check();
  }
}

/// Attention with bounded scores, which no kernel does as a whole, saves queries, keys,
/// values and the mask.
TEST(GradientModel, MakesScoresAgain) {
  Network net;
  net.name = "scores";
  net.tensors = {{"x", Role::input, {2, 19, 3}}, {"mask", Role::input, {19, 19}}};
  for (const char* name : {"q", "k", "v"}) net.tensors.push_back({name, Role::parameter, {4, 3}});
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor q = at::linear(t[0], t[2]), k = at::linear(t[0], t[3]);
    const Tensor scores = at::tanh(at::matmul(q, k.transpose(-2, -1)) * 0.5) * 3 + t[1];
    return {at::matmul(at::softmax(scores, -1), at::linear(t[0], t[4]))};
  };
  EXPECT_LE(saved_bytes(net), 4 * (3 * 2 * 19 * 4 + 19 * 19) * 4);
  Five(net).check();
}

/// What something else reads too is saved, since the product would be made again for it.
TEST(GradientModel, SavesAProductThatIsNotOnlyScores) {
  Network net;
  net.name = "product";
  net.tensors = {{"x", Role::input, {19, 3}}, {"w", Role::parameter, {4, 3}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor q = at::linear(t[0], t[1]), scores = at::matmul(q, q.transpose(0, 1));
    return {at::matmul(at::softmax(scores, -1) * at::sin(scores), q)};
  };
  EXPECT_GE(saved_bytes(net), 4 * (19 * 19 + 19 * 4) * 4);
  Five(net).check();
}

TEST(GradientModel, MakesPaddedCopiesAgain) {
  Network net;
  net.name = "padded";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor h = at::constant_pad_nd(at::tanh(at::linear(t[0], t[1])), {2, 2, 1, 0});
    return {at::matmul(h.transpose(0, 1), h)};
  };
  EXPECT_LE(saved_bytes(net), 4 * 5 * 24 * 4);
  Five(net).check();
}

/// A norm's result that is an output exists anyway, but is made again together with the moments.
TEST(GradientModel, MakesANormAgainWhoseResultIsAnOutput) {
  Network net;
  net.name = "output";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor h = at::layer_norm(at::linear(t[0], t[1]), {24});
    return {at::matmul(h.transpose(0, 1), h), h};
  };
  Five(net).check();
}

TEST(GradientModel, CopiesBoundTensorsAgain) {
  Network net;
  net.name = "bound";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {5, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {t[0].t().clone(at::MemoryFormat::Contiguous).pow(3) +
            t[1].t().clone(at::MemoryFormat::Contiguous).pow(3)};
  };
  EXPECT_EQ(saved_bytes(net), 0);
  Five(net).check();
}

/// Users may change an input after a call as PyTorch allows: relu keeps its result, not its input.
TEST(GradientModel, DoesNotReadABoundTensorThatPyTorchDoesNot) {
  Network net;
  net.name = "result";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {5, 7}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::relu(t[0]).cumsum(1) + t[1]}; };
  const Five five(net);
  EXPECT_FALSE(five.model->reads()[0]);
  five.check();
}

TEST(GradientModel, DoesNotReadABoundTensorToCopyItFirst) {
  Network net;
  net.name = "copied";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {7, 5}}};
  net.forward = [](const Tensors& t) -> Tensors {
    return {at::relu(t[0].t().clone(at::MemoryFormat::Contiguous)).cumsum(1) + t[1]};
  };
  const Five five(net);
  EXPECT_FALSE(five.model->reads()[0]);
  five.check();
}

/// So they may an output that PyTorch does not keep.
TEST(GradientModel, DoesNotReadAnOutputThatPyTorchDoesNot) {
  Network net;
  net.name = "output";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor h = at::linear(t[0], t[1]);
    const Tensor r = at::relu(h);
    return {at::matmul(r.transpose(0, 1), r), h};
  };
  const Five five(net);
  EXPECT_FALSE(five.model->reads_output()[1]);
  five.check();
}

TEST(GradientModel, ReadsAnOutputThatPyTorchReads) {
  Network net;
  net.name = "output";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::tanh(at::linear(t[0], t[1]))}; };
  const Five five(net);
  EXPECT_TRUE(five.model->reads_output()[0]);
  EXPECT_EQ(five.model->saved_bytes(), 0);
  five.check();
}

/// What is made of tensors that all models share is kept as PyTorch keeps it, once for all.
TEST(GradientModel, KeepsWhatAllModelsShare) {
  Network net;
  net.name = "shared";
  net.tensors = {{"x", Role::input, {5, 32}}, {"w", Role::parameter, {5, 32}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::relu(t[0]).cumsum(1) * t[1]}; };
  const Five five(net, 0);
  EXPECT_FALSE(five.model->reads()[0]);
  EXPECT_LE(five.model->saved_bytes(), 2 * (2 * 5 * 32 * 8));  // for each of two sizes of ranges
  five.check();
}

TEST(GradientModel, DoesNotReadASharedTensorToMakeAValueAgain) {
  Network net;
  net.name = "shared";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {5, 7}}};
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor s = at::relu(t[0]), h = t[1].cumsum(1);
    return {at::relu(s + h).cumsum(1) + at::relu(s - h).cumsum(1) + at::relu(s * 2 - h).cumsum(1)};
  };
  const Five five(net, 0, {1});
  EXPECT_FALSE(five.model->reads()[0]);
  EXPECT_FALSE(five.model->reads()[1]);
  five.check();
}

/// A shared tensor that the backward pass reads anyway.
TEST(GradientModel, ReadsASharedTensorAsPyTorchDoes) {
  Network net;
  net.name = "shared";
  net.tensors = {{"x", Role::input, {5, 7}}, {"w", Role::parameter, {24, 7}}};
  net.forward = [](const Tensors& t) -> Tensors { return {at::silu(at::linear(t[0], t[1]))}; };
  const Five five(net, 0);
  EXPECT_TRUE(five.model->reads()[0]);
  five.check();
}

/// Milliseconds that it takes to choose what a chain of `nodes` cheap calls and products saves.
double choosing_ms(int64_t nodes) {
  Program program;
  const auto add = [&](Role role) {
    Value v;
    v.role = role;
    v.sizes = {4, 4};
    v.strides = {4, 1};
    return program.add_value(std::move(v));
  };
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto relu = dispatcher.findSchemaOrThrow("aten::relu", ""),
             sine = dispatcher.findSchemaOrThrow("aten::sin", "");
  ValueId last = program.bound.emplace_back(add(Role::input));
  for (int64_t i = 0; i < nodes; ++i) {
    const ValueId made = add(Role::intermediate);
    program.nodes.push_back(
        {i % 3 == 0 ? sine : relu, {Argument::of_value(last)}, {Argument::of_value(made)}, {}});
    last = made;
  }
  const ForwardPass forward{std::vector<bool>(program.nodes.size(), true),
                            ByValue<bool>(program.values.size(), true),
                            ByValue<bool>(program.values.size(), false)};
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = now_ns();
    const ByValue<bool> saved = least_saved(program, forward);
    best = std::min(best, (now_ns() - start) / 1e6);
    EXPECT_TRUE(saved[1]);   // of the sine
    EXPECT_FALSE(saved[2]);  // of the relu behind it
  }
  return best;
}

TEST(GradientModel, ChoosesWhatIsSavedInLinearTime) {
  EXPECT_LT(choosing_ms(24000), 1000);  // some 80; 2600 if each value is looked for from the start
}

TEST(GradientModel, KnowsWhatSeparateModelsNeed) {
  Network net;
  net.name = "mlp";
  net.tensors = {{"x", Role::input, {70, 10}},
                 {"w", Role::parameter, {20, 10}},
                 {"v", Role::parameter, {3, 20}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::linear(at::tanh(at::linear(t[0], t[1])), t[2])};
  };
  const auto bytes = [&](int64_t rows) {
    net.tensors[0].sizes = {rows, 10};
    const Ensemble e = generate(net, 5, at::kFloat, at::kCPU, 3);
    return WithGradients("net", record_single(net, e, true), {1, 2}, Cotangents::bound)
        .step_bytes_of_one(e.model(0))
        .value();
  };
  const StepBytes few = bytes(1), many = bytes(70);
  EXPECT_EQ(few.of(5), 5 * (3 + 20 * 10 + 3 * 20) * 4) << "outputs and gradients";
  EXPECT_EQ(many.saved, (70 * 20 + 70 * 3) * 4) << "what tanh made, and outputs";
  EXPECT_GE(many.working, 70 * 20 * 4) << "a gradient";
  EXPECT_LE(many.working, (2 * 70 * 20 + 70 * 3 + 20 * 10 + 3 * 20) * 4);
  EXPECT_EQ(many.of(5), 5 * many.saved + many.working);
}

TEST(GradientModel, PassesMayBeAliveInAnyNumberAndOrder) {
  Subject s(5, 2);
  Ensemble other = s.e;
  other.tensors[0] = s.e.tensors[0].flip(0);
  const auto first = s.model->forward(s.e.tensors);
  const auto second = s.model->forward(other.tensors);
  const Tensors one = s.cotangents(1), two = s.cotangents(2);
  const Tensors of_second = s.model->backward(other.tensors, second.outputs, second.saved, two);
  const Tensors of_first = s.model->backward(s.e.tensors, first.outputs, first.saved, one);
  s.check(first, of_first, one);
  std::swap(s.e, other);
  s.check(second, of_second, two);
}

TEST(GradientModel, SaysWhatItReads) {
  const Subject s(3, 1);
  const auto made = s.model->forward(s.e.tensors);
  Tensors bound = s.e.tensors, outputs = made.outputs;
  for (size_t i = 0; i < bound.size(); ++i)
    if (!s.model->reads()[i]) bound[i] = Tensor();
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!s.model->reads_output()[k]) outputs[k] = Tensor();
  EXPECT_FALSE(bound[6].defined());  // unused
  EXPECT_FALSE(bound[4].defined());  // beta
  const Tensors given = s.cotangents(1);
  s.check(made, s.model->backward(bound, outputs, made.saved, given), given);
}

TEST(GradientModel, RefusesOperatorsWithoutAGradient) {
  Network net = network();
  net.tensors = {{"x", Role::input, {4}}};
  net.training = false;
  net.forward = [](const Tensors& t) -> Tensors {
    const Tensor z = at::complex(t[0], t[0]);
    return {at::slice_scatter(z, z.narrow(0, 0, 2), 0, 0, 2).abs()};
  };
  const Ensemble e = generate(net, 2, at::kFloat, at::kCPU, 3);
  EXPECT_THROW(compile_gradients(net, e, {0}, record_single(net, e, true), {}), Unsupported);
}

}  // namespace
}  // namespace wide::gradient_model_test
