#include "engine/model/reduce.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

Tensor reduce_one(Reduce reduce, const Tensor& t) {
  switch (reduce) {
    case Reduce::none:
      return t;
    case Reduce::mean:
      return at::mean(t, at::IntArrayRef{0});
    case Reduce::std:
      return at::std(t, at::OptionalIntArrayRef(at::IntArrayRef{0}), 1);
    case Reduce::vote: {
      const Tensor votes = at::argmax(t, -1).unsqueeze(-1);
      const Tensor classes = at::arange(t.size(-1), votes.options());
      return at::argmax(at::sum(at::eq(votes, classes), at::IntArrayRef{0}), -1);
    }
  }
  WIDE_ASSERT(false, "unknown reduction");
}

class Reduced final : public CompiledModel {
 public:
  Reduced(std::unique_ptr<CompiledModel> model, Reduce reduce)
      : model_(std::move(model)), reduce_(reduce), program_(model_->program()) {
    append_reduce(program_, reduce_);
  }

  Tensors run(const Tensors& inputs) override {
    const at::NoGradGuard no_grad;
    Tensors results = model_->run(inputs);
    const auto updates =
        results.begin() + static_cast<std::ptrdiff_t>(model_->single().outputs.size());
    Tensors out = reduce_models(reduce_, {results.begin(), updates});
    out.insert(out.end(), updates, results.end());
    return out;
  }

  std::vector<StepCost> explain(const Tensors& inputs) override {
    std::vector<StepCost> steps = model_->explain(inputs);
    Tensors outputs = model_->run(inputs);
    outputs.resize(model_->single().outputs.size());
    std::vector<double> samples;
    for (int i = 0; i < 9; ++i) {
      const double start = now_ns();
      reduce_models(reduce_, outputs);
      samples.push_back(now_ns() - start);
    }
    std::nth_element(samples.begin(), samples.begin() + 4, samples.end());
    StepCost own;
    own.op = std::string(to_string(reduce_)) + " over the models";
    own.strategy = to_string(Way::strategy);
    own.median_ns = samples[4];
    steps.push_back(own);
    double sum = 0;
    for (const StepCost& step : steps) sum += step.median_ns;
    for (StepCost& step : steps) step.share = sum > 0 ? step.median_ns / sum : 0;
    return steps;
  }

  TimelineCall timeline(const Tensors& inputs) override {
    TimelineCall call = model_->timeline(inputs);
    call.notes.push_back(std::string(to_string(reduce_)) +
                         " over the models runs after the steps shown");
    return call;
  }

  void set_weights(const Tensors& weights) override { model_->set_weights(weights); }
  const Program& single() const override { return model_->single(); }
  const Program& program() const override { return program_; }
  std::vector<std::string> differences() const override { return model_->differences(); }
  const Coverage& coverage() const override { return model_->coverage(); }
  const std::vector<PassRecord>& passes() const override { return model_->passes(); }
  int ranges() const override { return model_->ranges(); }
  std::string plan_text() const override { return model_->plan_text(); }
  int64_t bytes() const override { return model_->bytes(); }
  int64_t steps() const override {
    return model_->steps() + static_cast<int64_t>(program_.nodes.size()) -
           static_cast<int64_t>(model_->program().nodes.size());
  }
  double computed_flops() const override { return model_->computed_flops(); }

 private:
  std::unique_ptr<CompiledModel> model_;
  Reduce reduce_;
  Program program_;
};

/// True for votes that must agree: no model's choice depends on rounding.
Tensor certain(const Tensor& expected, double margin) {
  if (expected.size(-1) < 2) return at::ones_like(expected.select(-1, 0).select(0, 0), at::kBool);
  const Tensor best = std::get<0>(at::topk(expected, 2, -1));
  const Tensor gap = best.select(-1, 0) - best.select(-1, 1);
  return at::all(gap > margin, 0);
}

}  // namespace

const char* to_string(Reduce reduce) {
  constexpr const char* kNames[] = {"none", "mean", "std", "vote"};
  return kNames[static_cast<size_t>(reduce)];
}

Reduce parse_reduce(const std::string& name) {
  for (const Reduce reduce : {Reduce::mean, Reduce::std, Reduce::vote})
    if (name == to_string(reduce)) return reduce;
  fail("[--reduce] name: got {}, expected mean, std or vote; try mean", name);
}

void check_reduce(Reduce reduce, const Program& single, int64_t n) {
  if (reduce == Reduce::std && n < 2)
    fail("[--reduce] std: got n=1, expected at least 2 models; try -n 2 or mean");
  for (size_t k = 0; reduce != Reduce::none && k < single.outputs.size(); ++k) {
    const Value& v = single.value(single.outputs[k]);
    const bool vote = reduce == Reduce::vote;
    const bool fits = vote ? v.sizes.size() > 1 && v.sizes.back() > 1 && v.dtype != at::kBool &&
                                 !c10::isComplexType(v.dtype)
                           : c10::isFloatingType(v.dtype);
    if (!fits)
      fail("[--reduce] output {}: got {}, expected {}; try without --reduce", k, v.shape_text(),
           vote ? "scores of at least 2 classes along the last of several dimensions"
                : "a floating one");
  }
}

Tensors reduce_models(Reduce reduce, const Tensors& outputs) {
  Tensors out;
  for (const Tensor& t : outputs) out.push_back(reduce_one(reduce, t));
  return out;
}

void append_reduce(Program& wide, Reduce reduce) {
  if (reduce == Reduce::none) return;
  std::vector<Binding> bindings;
  for (const ValueId id : wide.outputs) {
    const Value& v = wide.value(id);
    bindings.push_back(
        {"", Role::input, at::zeros(v.sizes, at::TensorOptions(v.dtype).device(v.device)), true});
  }
  const Program end = record(
      bindings, [&](const Tensors& outputs) { return reduce_models(reduce, outputs); }, wide.n);
  ByValue<ValueId> known(end.values.size(), kNone);
  for (size_t k = 0; k < end.bound.size(); ++k) known[end.bound[k]] = wide.outputs[k];
  const auto id_of = [&](ValueId id) {
    if (id == kNone) return id;
    ValueId& own = known[id];
    if (own == kNone) own = wide.add_value(end.value(id));
    return own;
  };
  for (Node node : end.nodes) {
    for (auto* list : {&node.arguments, &node.results})
      for (Argument& a : *list)
        for (ValueId& id : a.values) id = id_of(id);
    node.origin = {};
    node.origin.primitive = "reduce";
    node.origin.strategy = to_string(reduce);
    wide.nodes.push_back(std::move(node));
  }
  for (size_t k = 0; k < end.outputs.size(); ++k) wide.outputs[k] = id_of(end.outputs[k]);
}

std::unique_ptr<CompiledModel> reduced(std::unique_ptr<CompiledModel> model, Reduce reduce) {
  if (reduce == Reduce::none) return model;
  return std::make_unique<Reduced>(std::move(model), reduce);
}

double reduced_error(Reduce reduce, const Tensors& got, const Tensors& expected, double tolerance) {
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    const Tensor all = expected[k].to(at::kDouble), want = reduce_one(reduce, all);
    if (want.sizes() != got[k].sizes()) return INFINITY;
    if (want.numel() == 0) continue;
    const double largest = all.abs().max().item<double>();
    double error = 0;
    if (reduce == Reduce::vote) {
      const Tensor wrong = at::ne(got[k], want) & certain(all, 2 * tolerance * largest);
      error = wrong.any().item<bool>() ? 1 : 0;
    } else {
      error = (got[k].to(at::kDouble) - want).abs().max().item<double>();
      if (largest > 0) error /= largest;
    }
    if (!(error <= worst)) worst = error;  // NaN counts as worst
  }
  return worst;
}

}  // namespace wide
