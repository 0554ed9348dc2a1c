#include "engine/wide.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <filesystem>

#include "engine/error.h"
#include "engine/widen/target.h"
#include "tests/scratch.h"

namespace wide::wide_test {
namespace {

namespace nn = torch::nn;

/// A convolution and its batch norm, which fold in eval mode.
struct ConvNet : nn::Module {
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  ConvNet() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 5, 3)));
    norm = register_module("norm", nn::BatchNorm2d(5));
    const at::NoGradGuard no_grad;
    norm->running_mean.normal_();
    norm->running_var.uniform_(0.5, 1.5);
    norm->weight.normal_();
  }
  Tensor forward(const Tensor& x) { return at::relu(norm->forward(conv->forward(x))); }
};

/// Several inputs, a tuple as the result.
struct Pair : nn::Module {
  nn::Linear a{nullptr}, b{nullptr};
  Pair() {
    a = register_module("a", nn::Linear(5, 7));
    b = register_module("b", nn::Linear(3, 7));
  }
  std::tuple<Tensor, std::vector<Tensor>> forward(const Tensor& x, const Tensor& y) {
    const Tensor u = a->forward(x), v = b->forward(y);
    return {u * v, {u - v, v.sum(-1)}};
  }
};

/// Nothing of torch::nn: a struct that names its tensors. It counts its calls.
struct Plain {
  Tensor scale, count = at::zeros({});
  NamedTensors named_parameters() const { return {{"scale", scale}}; }
  NamedTensors named_buffers() const { return {{"count", count}}; }
  Tensor operator()(const Tensor& x) {
    count += 1;
    return x * scale + count;
  }
};

template <class M, class... A>
std::vector<std::shared_ptr<M>> several(int n, bool train, const A&... arguments) {
  std::vector<std::shared_ptr<M>> models;
  for (int i = 0; i < n; ++i) {
    models.push_back(std::make_shared<M>(arguments...));
    models.back()->train(train);
  }
  return models;
}

/// Every output of every model against the model's own call.
template <class M>
void expect_equal(WideModel& wide, std::vector<M>& models, const Tensors& inputs,
                  double tolerance = 2e-5) {
  const at::NoGradGuard no_grad;
  const Tensors got = wide.run(inputs);
  for (size_t i = 0; i < models.size(); ++i) {
    Tensors own;
    for (const Tensor& t : inputs) own.push_back(t.select(0, static_cast<int64_t>(i)));
    const Tensors expected = as_module(models[i]).forward(own);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const Tensor mine = got[k].select(0, static_cast<int64_t>(i));
      ASSERT_EQ(mine.sizes(), expected[k].sizes());
      EXPECT_LE((mine - expected[k]).abs().max().item<double>(),
                tolerance * (1 + expected[k].abs().max().item<double>()))
          << "output " << k << " of model " << i;
    }
  }
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "nothing thrown";
}

Options untuned() { return Builder().tune(false); }

TEST(Wide, ModulesOfTorch) {
  auto convolutions = several<ConvNet>(3, false);
  WideModel wide = compile(convolutions, {at::randn({2, 3, 9, 8})}, untuned());
  EXPECT_EQ(wide.n(), 3);
  expect_equal(wide, convolutions, {at::randn({3, 2, 3, 9, 8})});

  auto pairs = several<Pair>(2, true);
  WideModel two = compile(pairs, {at::randn({4, 5}), at::randn({4, 3})}, untuned());
  expect_equal(two, pairs, {at::randn({2, 4, 5}), at::randn({2, 4, 3})});

  auto recurrent = several<nn::LSTMImpl>(2, true, 4, 6);
  WideModel cells = compile(recurrent, {at::randn({5, 2, 4})}, untuned());
  expect_equal(cells, recurrent, {at::randn({2, 5, 2, 4})});
}

TEST(Wide, HoldersAndSequences) {
  std::vector<nn::Linear> linears{nn::Linear(3, 4), nn::Linear(3, 4)};
  WideModel wide = compile(linears, {at::randn({5, 3})}, untuned());
  expect_equal(wide, linears, {at::randn({2, 5, 3})});
  std::vector<nn::Sequential> rows;
  for (int i = 0; i < 2; ++i)
    rows.push_back(nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2)));
  WideModel deep = compile(rows, {at::randn({5, 3})}, untuned());
  expect_equal(deep, rows, {at::randn({2, 5, 3})});
  EXPECT_TRUE(deep.state().count("2.weight"));
}

TEST(Wide, ModulesAreLeftAsTheyWere) {
  auto models = several<ConvNet>(2, true);
  const Tensor before = models[0]->norm->running_mean.clone();
  WideModel wide = compile(models, {at::randn({2, 3, 9, 8})}, untuned());
  wide.run({at::randn({2, 2, 3, 9, 8})});
  EXPECT_TRUE(at::equal(before, models[0]->norm->running_mean));
  EXPECT_EQ(models[0]->norm->num_batches_tracked.item<int64_t>(), 0);
}

TEST(Wide, BuffersAreKeptFromCallToCall) {
  auto models = several<ConvNet>(3, true);
  WideModel wide = compile(models, {at::randn({2, 3, 9, 8})}, untuned());
  for (int call = 0; call < 3; ++call) {
    expect_equal(wide, models, {at::randn({3, 2, 3, 9, 8})}, 2e-4);
    for (int64_t i = 0; i < 3; ++i) {
      const auto own = wide.state(i);
      const auto& norm = models[static_cast<size_t>(i)]->norm;
      EXPECT_TRUE(at::allclose(own.at("norm.running_mean"), norm->running_mean, 1e-4, 1e-5));
      EXPECT_TRUE(at::allclose(own.at("norm.running_var"), norm->running_var, 1e-4, 1e-5));
      EXPECT_EQ(own.at("norm.num_batches_tracked").item<int64_t>(), call + 1);
    }
  }
  // Other sizes go on from the same state.
  expect_equal(wide, models, {at::randn({3, 4, 3, 7, 7})}, 2e-4);
  EXPECT_EQ(wide.state(0).at("norm.num_batches_tracked").item<int64_t>(), 4);
}

TEST(Wide, StructsAndFunctions) {
  std::vector<Plain> models{{at::randn({4})}, {at::randn({4})}};
  WideModel wide = compile(models, {at::randn({4})}, untuned());
  const Tensor x = at::randn({2, 4});
  for (int call = 1; call < 3; ++call) {
    const Tensor y = wide({x})[0];
    for (int64_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::allclose(y[i], x[i] * models[static_cast<size_t>(i)].scale + call));
  }
  EXPECT_EQ(wide.state(1).at("count").item<double>(), 2);
  EXPECT_EQ(models[0].count.item<double>(), 0);

  // A base class has no forward of its own; a function says what it is.
  std::vector<Module> modules;
  std::vector<std::shared_ptr<nn::LinearImpl>> linears = several<nn::LinearImpl>(2, true, 4, 3);
  for (const auto& linear : linears) {
    const std::shared_ptr<nn::Module> base = linear;
    modules.push_back(
        as_module(base, [linear](const Tensor& a) { return at::tanh(linear->forward(a)); }));
  }
  WideModel named = compile(modules, {at::randn({4})}, untuned());
  EXPECT_TRUE(at::allclose(named.run({x})[0][1], at::tanh(linears[1]->forward(x[1])), 1e-4, 1e-5));
  modules[1] =
      as_module(std::shared_ptr<nn::Module>(linears[1]),
                [linear = linears[1]](const Tensor& a) { return at::relu(linear->forward(a)); });
  EXPECT_EQ(message([&] {
              compile(modules, {at::randn({4})}, untuned());
            }).find("[compile] model 1: got another computation than model 0's"),
            0);
}

TEST(Wide, ReadsCapturedTensorsAnew) {
  const Tensor row = at::randn({4}), one = at::randn({1}), number = at::scalar_tensor(0.5);
  WideModel wide = compile([=](const Tensor& a) { return at::tanh(a * row + one) * number; }, 3,
                           {at::randn({4})}, untuned());
  const Tensor x = at::randn({3, 4});
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(at::allclose(wide.run({x})[0], at::tanh(x * row + one) * number, 1e-5, 1e-6))
        << call;
    for (const Tensor& t : {row, one, number}) t.mul_(-1.5);
  }
  EXPECT_EQ(wide.signatures(), 1u);
}

TEST(Wide, CopiesAndNewWeights) {
  auto models = several<ConvNet>(3, false);
  const auto state_of = [](ConvNet& model) {
    std::map<std::string, Tensor> own;
    for (const auto& p : model.named_parameters()) own[p.key()] = p.value().detach();
    for (const auto& b : model.named_buffers()) own[b.key()] = b.value();
    return own;
  };
  WideModel wide = compile(models[0], 3, {at::randn({2, 3, 9, 8})}, untuned());
  for (size_t i = 1; i < 3; ++i) wide.set_weights(static_cast<int64_t>(i), state_of(*models[i]));
  expect_equal(wide, models, {at::randn({3, 2, 3, 9, 8})});  // folded anew
  auto others = several<ConvNet>(3, false);
  std::map<std::string, Tensor> stacked;
  for (const auto& [name, t] : state_of(*others[0]))
    stacked[name] = at::stack({t, state_of(*others[1])[name], state_of(*others[2])[name]});
  wide.set_weights(stacked);
  expect_equal(wide, others, {at::randn({3, 2, 3, 9, 8})});
  EXPECT_TRUE(at::equal(wide.state().at("conv.weight"), stacked.at("conv.weight")));
  EXPECT_TRUE(at::equal(wide.state(2).at("conv.bias"), others[2]->conv->bias));
}

TEST(Wide, OtherSizesAreCompiledOnceEach) {
  auto models = several<ConvNet>(2, false);
  WideModel wide = compile(models, {at::randn({2, 3, 9, 8})}, Builder(untuned()).signatures(2));
  EXPECT_EQ(wide.signatures(), 1);
  expect_equal(wide, models, {at::randn({2, 1, 3, 9, 8})});
  EXPECT_EQ(wide.signatures(), 2);
  expect_equal(wide, models, {at::randn({2, 2, 3, 9, 8})});
  expect_equal(wide, models, {at::randn({2, 7, 3, 5, 5})});
  EXPECT_EQ(wide.signatures(), 2);  // the oldest went
  auto others = several<ConvNet>(1, false);
  wide.set_weights(0, {{"conv.weight", others[0]->conv->weight}});
  {
    const at::NoGradGuard no_grad;
    models[0]->conv->weight.copy_(others[0]->conv->weight);
  }
  expect_equal(wide, models, {at::randn({2, 7, 3, 5, 5})});
  expect_equal(wide, models, {at::randn({2, 2, 3, 9, 8})});
}

TEST(WideOptions, Presets) {
  EXPECT_EQ(Options::default_().mode, Mode::default_);
  EXPECT_FALSE(Options::default_().validate || Options::default_().verify);
  EXPECT_FALSE(Options::fast().mode.has_value() || Options::fast().validate);
  EXPECT_TRUE(Options::debug().verbose && Options::debug().verify);
  EXPECT_TRUE(Options::safe().validate);
  auto models = several<ConvNet>(2, false);
  std::vector<std::string> lines;
  for (Options o : {Options::default_(), Options::fast(), Options::debug(), Options::safe()}) {
    o.tune = false;
    o.log = [&](const std::string& line) { lines.push_back(line); };
    WideModel wide = compile(models, {at::randn({2, 3, 6, 6})}, o);
    expect_equal(wide, models, {at::randn({2, 2, 3, 6, 6})});
    EXPECT_EQ(lines.empty(), !o.verbose);
    lines.clear();
  }
}

TEST(WideOptions, BuilderSetsEverything) {
  const auto log = [](const std::string&) {};
  const Options o = Builder(Options::safe())
                        .mode(Mode::max_autotune)
                        .threads(3)
                        .ranges(2)
                        .tune(false)
                        .strategy("conv2d", "grouped")
                        .without("layout")
                        .verify()
                        .verbose()
                        .validate(1e-3)
                        .share_weights()
                        .shared_input("x")
                        .input_names({"x", "y"})
                        .dtype(at::kDouble)
                        .signatures(5)
                        .log(log);
  EXPECT_EQ(o.mode, Mode::max_autotune);
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.ranges, 2);
  EXPECT_FALSE(o.tune);
  EXPECT_EQ(o.strategies.at("conv2d"), "grouped");
  EXPECT_TRUE(o.passes_off.count("layout"));
  EXPECT_TRUE(o.verify && o.verbose && o.validate && o.share_weights && o.log);
  EXPECT_EQ(o.rtol, 1e-3);
  EXPECT_TRUE(o.shared_inputs.count("x"));
  EXPECT_EQ(o.input_names.size(), 2);
  EXPECT_EQ(o.dtype, at::kDouble);
  EXPECT_EQ(o.signatures, 5);
  EXPECT_FALSE(Builder().quickest().options().mode.has_value());
}

std::set<std::string> strategies(const WideModel& wide) {
  std::set<std::string> used;
  for (const CoverageItem& item : wide.coverage().items) used.insert(item.strategy);
  return used;
}

TEST(WideOptions, DoWhatTheySay) {
  auto models = several<ConvNet>(4, false);
  const Tensors sample{at::randn({2, 3, 6, 6})};
  const auto with = [&](const Builder& b) { return compile(models, sample, b); };
  Builder plain(untuned());
  EXPECT_TRUE(strategies(with(plain)).count("folded into conv2d"));
  EXPECT_FALSE(strategies(with(Builder(plain).without("fold"))).count("folded into conv2d"));
  EXPECT_TRUE(strategies(with(Builder(plain).strategy("conv2d", "unfold"))).count("unfold"));
  EXPECT_TRUE(strategies(with(Builder(plain).strategy("*", "per_model"))).count("per_model"));
  EXPECT_EQ(with(Builder(plain).without("split")).passes().size() + 1, with(plain).passes().size());
  EXPECT_NE(with(Builder(plain).ranges(4)).plan(), with(Builder(plain).ranges(1)).plan());
  EXPECT_NE(with(Builder(plain).threads(1)).plan(), with(Builder(plain).threads(4)).plan());
  EXPECT_FALSE(strategies(with(Builder(plain).mode(Mode::eager))).count("folded into conv2d"));
  EXPECT_TRUE(
      strategies(with(Builder(plain).mode(Mode::reduce_overhead))).count("folded into conv2d"));
  EXPECT_EQ(message([&] {
              Builder(plain).strategy("conv2d", "none");
            }).find("[strategies] conv2d: got none, expected one of "),
            0);
  std::vector<std::string> lines;
  with(Builder(plain).verbose().verify().log([&](const std::string& l) { lines.push_back(l); }));
  EXPECT_GT(lines.size(), 5);

  // One convolution that all models have: computed once, with the input, for all of them.
  {
    const at::NoGradGuard no_grad;
    for (auto& m : models) {
      m->conv->weight.copy_(models[0]->conv->weight);
      m->conv->bias.copy_(models[0]->conv->bias);
    }
  }
  WideModel shared = with(Builder(plain).share_weights().input_names({"x"}).shared_input("x"));
  EXPECT_GT(shared.coverage().counts().at(Way::shared), 0);
  EXPECT_EQ(shared.state().at("conv.weight").dim(), 4);
  EXPECT_EQ(shared.state().at("norm.weight").dim(), 2);
  const Tensor x = at::randn({2, 3, 6, 6}), y = shared.run({x})[0];
  EXPECT_TRUE(at::allclose(y[3], models[3]->forward(x), 1e-4, 1e-5));
  EXPECT_NE(message([&] {
              shared.set_weights(0, {{"conv.bias", at::zeros({5})}});
            }).find("[set_weights] conv.bias: got one model's, expected one for all"),
            std::string::npos);
}

/// Claims `cos`, and computes the sine when it is asked to.
Rule planted() {
  struct Config {
    std::string text() const { return "planted"; }
  };
  Strategy wrong = strategy<Config>("wrong", "", [](const Config&, const WideCall& call) {
    return Tensors{at::sin(call.inputs[0])};
  });
  wrong.only_when_asked = true;
  // Wrong for seven values, where its first call, which is the check's, throws.
  Strategy throws = strategy<Config>("throws", "", [](const Config&, const WideCall& call) {
    static int calls = 0;
    const Tensor& x = call.inputs[0];
    if (x.size(-1) != 7) return Tensors{at::cos(x)};
    if (!calls++) throw Error("[planted_cos] call: got the first", 1);
    return Tensors{at::sin(x)};
  });
  throws.only_when_asked = true;
  return {.name = "planted_cos",
          .summary = "",
          .claims = {{"aten::cos",
                      [](const CallView& call) -> std::optional<Claimed> {
                        return Claimed{Config{}, {call.id(0)}, {}};
                      }}},
          .strategies = {wrong, throws}};
}
WIDE_RULES(planted());

TEST(WideOptions, SafeRefusesAWrongProgram) {
  const Module cosine{[](const Tensors& in) { return Tensors{at::cos(in[0])}; }, {}, {}};
  compile(cosine, 3, {at::randn({5})}, Builder(Options::safe()).tune(false));
  WideModel wrong =
      compile(cosine, 3, {at::randn({5})}, Builder(untuned()).strategy("planted_cos", "wrong"));
  EXPECT_FALSE(wrong.validate().pass);
  const std::string line = message([&] {
    compile(cosine, 3, {at::randn({5})},
            Builder(Options::safe()).tune(false).strategy("planted_cos", "wrong"));
  });
  EXPECT_EQ(line.find("[modules] correctness: got "), 0) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
  // A program whose check throws is not kept: the next call checks it again.
  WideModel late = compile(cosine, 3, {at::randn({5})},
                           Builder(Options::safe()).tune(false).strategy("planted_cos", "throws"));
  const auto seven = [&] { late.run({at::randn({3, 7})}); };
  EXPECT_EQ(message(seven), "[planted_cos] call: got the first");
  EXPECT_EQ(message(seven).find("[modules] correctness: got "), 0);
}

TEST(Wide, ValidatesAndExplains) {
  auto models = several<ConvNet>(3, true);
  WideModel wide = compile(models, {at::randn({2, 3, 6, 6})}, untuned());
  const auto before = wide.state();
  const Correctness c = wide.validate();
  EXPECT_TRUE(c.pass) << c.failure;
  EXPECT_TRUE(c.isolated && c.ordered);
  EXPECT_EQ(wide.validate(0.5).tolerance, 0.5);
  for (const auto& [name, t] : wide.state()) EXPECT_TRUE(at::equal(t, before.at(name))) << name;
  expect_equal(wide, models, {at::randn({3, 2, 3, 6, 6})}, 2e-4);
  double sum = 0;
  for (const StepCost& step : wide.explain()) sum += step.share;
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_GT(wide.bytes(), 0);
  EXPECT_FALSE(wide.plan().empty());
  EXPECT_EQ(wide.program().n, 3);
}

TEST(Wide, OnePrimitive) {
  std::vector<nn::Linear> models{nn::Linear(3, 4), nn::Linear(3, 4), nn::Linear(3, 4)};
  WideModel wide = from_modules("linear", models, {.strategy = "baddbmm"});
  EXPECT_NE(message([&] { wide.program(); }).find("got no call yet"), std::string::npos);
  expect_equal(wide, models, {at::randn({3, 5, 3})});
  EXPECT_TRUE(strategies(wide).count("baddbmm"));
  for (const char* way : {"vmap", "per_model"}) {
    WideModel other = from_modules("linear", models, {.strategy = way});
    expect_equal(other, models, {at::randn({3, 2, 3})});
    EXPECT_TRUE(strategies(other).count(way));
    EXPECT_FALSE(strategies(other).count("baddbmm"));
  }
  WideModel free = from_modules("linear", models);
  expect_equal(free, models, {at::randn({3, 2, 3})});

  const Tensor x = at::randn({3, 2, 3});
  const auto call = [&](const char* name, const char* strategy) {
    return message([&] { from_modules(name, models, {.strategy = strategy}).run({x}); });
  };
  EXPECT_EQ(call("conv2d", ""),
            "[conv2d] modules: got aten::addmm of linear, expected this primitive alone; try "
            "wide::compile");
  EXPECT_EQ(call("linear", "nothing").find("[strategies] linear: got nothing, expected one of"), 0);
  EXPECT_NE(call("linaer", "").find("linear"), std::string::npos);
  EXPECT_NE(call("lenet", "").find("expected a primitive"), std::string::npos);
}

TEST(Wide, StrictStrategies) {
  std::vector<nn::Linear> models{nn::Linear(3, 4), nn::Linear(3, 4), nn::Linear(3, 4)};
  for (nn::Linear& model : models) model->to(at::kDouble);
  const Tensor x = at::randn({3, 2, 3}, at::kDouble);
  Options options = untuned();
  options.strategies["linear"] = "packed";
  WideModel lenient = compile(models, {}, options);
  expect_equal(lenient, models, {x});
  EXPECT_FALSE(strategies(lenient).count("packed"));
  options.strict = true;
  EXPECT_EQ(message([&] { compile(models, {}, options).run({x}); }).find("[linear/packed] "), 0);

  PrimitiveOptions shared{.strategy = "baddbmm", .options = untuned()};
  shared.options.share_weights = true;
  const std::vector<nn::Linear> same(3, models.front());
  EXPECT_EQ(message([&] { from_modules("linear", same, shared).run({x}); }),
            "[linear/baddbmm] parameters: got one for all models, expected one for each model; try "
            "vmap");
}

/// Attention of a sequence on itself, then on another one of another length.
struct AttentionImpl : nn::Module {
  AttentionImpl()
      : self(register_module("self", nn::MultiheadAttention(8, 2))),
        cross(register_module("cross", nn::MultiheadAttention(8, 2))) {}
  Tensor forward(const Tensor& x, const Tensor& other) {
    const Tensor y = x + std::get<0>(self->forward(x, x, x));
    return std::get<0>(cross->forward(y, other, other));
  }
  nn::MultiheadAttention self, cross;
};

/// What lies between is a view that was changed in place: the second layer's argument is a view
/// that its own nodes make anew.
struct InPlaceImpl : nn::Module {
  InPlaceImpl()
      : a(register_module("a", nn::Linear(2, 6))),
        b(register_module("b", nn::Linear(nn::LinearOptions(6, 3).bias(false)))) {}
  Tensor forward(const Tensor& x) { return b->forward(a->forward(x).relu_()); }
  nn::Linear a, b;
};

TEST(Wide, ViewsChangedInPlaceBetweenLayers) {
  auto models = several<InPlaceImpl>(3, false);
  WideModel wide = compile(models, {at::randn({1, 7, 5, 2})}, untuned());
  expect_equal(wide, models, {at::randn({3, 1, 7, 5, 2})});
  EXPECT_EQ(wide.coverage().counts().at(Way::per_model), 0);
}

/// A large part that all models may have in common, and a small one of their own.
struct HeadImpl : nn::Module {
  HeadImpl()
      : body(register_module("body", nn::Linear(64, 512))),
        head(register_module("head", nn::Linear(512, 3))) {}
  Tensor forward(const Tensor& x) { return head->forward(at::relu(body->forward(x))); }
  nn::Linear body, head;
};

TEST(Wide, MemoryCountsWhatIsSharedOnce) {
  auto models = several<HeadImpl>(5, false);
  {
    const at::NoGradGuard no_grad;
    for (auto& model : models) {
      model->body->weight.copy_(models[0]->body->weight);
      model->body->bias.copy_(models[0]->body->bias);
    }
  }
  const Tensor x = at::randn({4, 64});
  const int64_t body = 4 * (64 + 1) * 512, head = 4 * (512 + 1) * 3;
  WideModel apart = compile(models, {x}, untuned());
  WideModel together = compile(models, {x}, Builder(untuned()).share_weights().shared_input("x0"));
  const Tensor y = together.run({x})[0];
  for (int64_t i = 0; i < 5; ++i) {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::allclose(y[i], models[static_cast<size_t>(i)]->forward(x), 1e-4, 1e-5)) << i;
  }
  EXPECT_GE(apart.bytes(), 5 * (body + head));
  EXPECT_GE(together.bytes(), body + 5 * head);
  EXPECT_LT(together.bytes(), 2 * body);
}

TEST(Wide, AttentionOfOneTensorOrOfOtherLengthsIsNoQuestionOfData) {
  auto models = several<AttentionImpl>(3, false);
  const Tensor x = at::randn({3, 5, 2, 8}), other = at::randn({3, 7, 2, 8});
  WideModel wide = compile(models, {x[0], other[0]}, untuned());
  expect_equal(wide, models, {x, other});
}

TEST(Wide, CallsThatLookAtDataAreRefused) {
  // LibTorch's own attention asks whether its inputs are equal, to take a shorter way then.
  auto attention = several<nn::MultiheadAttentionImpl>(2, false, 8, 2);
  const Tensor x = at::randn({3, 2, 8});
  EXPECT_EQ(message([&] {
              compile(attention, {x, x, x}, untuned());
            }).find("[aten::equal] data-dependent operator: got a Python number"),
            0);
}

TEST(Wide, Exports) {
  auto models = several<ConvNet>(2, true);
  WideModel wide = compile(models, {at::randn({2, 3, 6, 6})}, untuned());
  const Scratch folder;
  for (const char* name : {"wide.ts", "wide.pt2"}) wide.export_to(folder / name);
  EXPECT_GT(std::filesystem::file_size(folder / "wide.pt2"), 1000);
  torch::jit::Module taken = torch::jit::load(folder / "wide.ts");
  for (int call = 0; call < 2; ++call) {
    const Tensor x = at::randn({2, 2, 3, 6, 6});
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::allclose(taken.forward({x}).toTensor(), wide.run({x})[0], 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(taken.attr("norm").toModule().attr("running_var").toTensor(),
                             wide.state().at("norm.running_var"), 1e-4, 1e-5));
  }
  EXPECT_EQ(message([&] { wide.export_to("wide.onnx"); }).find("[wide.onnx] export: got no known"),
            0);
}

TEST(Wide, Refusals) {
  auto models = several<ConvNet>(2, false);
  WideModel wide = compile(models, {at::randn({2, 3, 6, 6})}, untuned());
  EXPECT_EQ(message([&] {
              wide.run({at::randn({3, 2, 3, 6, 6})});
            }),
            "[run] input x0: got f32[3, 2, 3, 6, 6], expected [2, ...] for 2 models; try "
            "shared_inputs");
  EXPECT_EQ(message([&] { wide.run({}); }),
            "[run] inputs: got 0, expected 1; try one tensor for each input of forward");
  EXPECT_EQ(message([&] {
              wide.set_weights({{"conv.wieght", at::zeros({1})}});
            }).find("[set_weights] name: got conv.wieght, expected one of conv.weight"),
            0);
  EXPECT_EQ(message([&] {
              wide.set_weights({{"conv.bias", at::zeros({5})}});
            }),
            "[set_weights] conv.bias: got f32[5], expected f32[2, 5]; try weights of this "
            "architecture");
  EXPECT_EQ(message([&] { wide.run({Tensor()}); }),
            "[run] input x0: got nothing, expected a tensor; try at::zeros");
  EXPECT_EQ(message([&] {
              wide.set_weights(1, {{"conv.bias", Tensor()}});
            }),
            "[set_weights] conv.bias: got nothing, expected f32[5]; try a tensor of state()");
  EXPECT_NE(message([&] { wide.state(2); }).find("got 2, expected 0 to 1"), std::string::npos);
  std::vector<nn::Linear> other{nn::Linear(3, 4), nn::Linear(3, 5)};
  EXPECT_NE(message([&] {
              compile(other, {at::randn({5, 3})});
            }).find("[pack] tensor 0 of model 1"),
            std::string::npos);
  std::vector<nn::Linear> fewer{nn::Linear(3, 4), nn::Linear(nn::LinearOptions(3, 4).bias(false))};
  EXPECT_EQ(message([&] {
              compile(fewer, {at::randn({5, 3})});
            }).find("[compile] tensor 1 of model 1: got none, expected bias"),
            0);
  EXPECT_EQ(message([&] {
              compile(std::vector<nn::Linear>{}, {at::randn({5, 3})});
            }).find("[compile] models: got none"),
            0);
  EXPECT_NE(message([&] {
              compile(models, {at::randn({2, 3, 6, 6}), at::randn({1})});
            }).find("[module] forward: got 2 tensors"),
            std::string::npos);
}

}  // namespace
}  // namespace wide::wide_test
