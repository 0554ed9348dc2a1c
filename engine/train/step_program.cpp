#include "engine/train/step_program.h"

#include <ATen/ATen.h>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/record/draws.h"
#include "engine/record/record.h"
#include "engine/widen/gradients.h"

namespace wide {
namespace {

std::vector<WideValue> values_of(const Tensors& tensors, const std::vector<bool>& shared) {
  std::vector<WideValue> values;
  for (size_t i = 0; i < tensors.size(); ++i) values.push_back({tensors[i], !shared[i]});
  return values;
}

Tensor for_all(int64_t n, const WideValue& value) {
  return value.wide ? value.tensor : expanded(n, value.tensor);
}

std::shared_ptr<const RangeProgram> recorded(
    const Program& single, const Ensemble& models,
    const std::function<Tensors(const std::vector<WideValue>&, Coverage*)>& evaluate) {
  std::vector<Binding> bindings;
  for (size_t i = 0; i < models.tensors.size(); ++i) {
    const Value& v = single.value(single.bound[i]);
    bindings.push_back({v.name, v.role, models.tensors[i], !models.shared[i]});
  }
  RangeProgram range;
  range.wide.program = record(
      bindings,
      [&](const Tensors& bound) {
        return evaluate(values_of(bound, models.shared), &range.wide.coverage);
      },
      models.n);
  range.wide.program.updates.clear();
  range.passes = run_passes(range.wide.program);
  return std::make_shared<const RangeProgram>(std::move(range));
}

}  // namespace

LossNetwork with_loss(const Network& forward, const Loss& loss, const StepExtras& extras) {
  LossNetwork made;
  made.network = forward;
  made.inputs = forward.indices(true);
  made.weights = forward.indices(false);
  auto& tensors = made.network.tensors;
  const auto add = [&](const TensorSpec& spec) {
    tensors.push_back(spec);
    return static_cast<int64_t>(tensors.size() - 1);
  };
  const auto number = [&](const char* name, at::ScalarType dtype) {
    return add({name, Role::input, {}, dtype});
  };
  const auto like = [&](const char* name, const Tensor& t) {
    return t.defined() ? add({name, Role::input, t.sizes().vec()}) : -1;
  };
  if (extras.target) made.target = add(*extras.target);
  if (extras.row_weight) made.row_weight = add(*extras.row_weight);
  made.class_weight = like("class weight", extras.class_weight);
  made.pos_weight = like("pos_weight", extras.pos_weight);
  if (extras.label_smoothing) made.label_smoothing = number("label_smoothing", at::kFloat);
  made.seed = number("seed", at::kLong);
  made.step = number("step", at::kLong);
  made.dropout = number("dropout", at::kFloat);
  const size_t count = forward.tensors.size();
  made.network.forward = [forward = forward.forward, count, loss, at = made](const Tensors& bound) {
    const auto given = [&](int64_t i) { return i < 0 ? Tensor() : bound[static_cast<size_t>(i)]; };
    const DrawsByCounter draws(given(at.seed), given(at.step), given(at.dropout));
    const Tensors outputs =
        forward(Tensors(bound.begin(), bound.begin() + static_cast<ptrdiff_t>(count)));
    if (loss.output >= outputs.size())
      fail("[train] output: got {}, expected one of the network's {}; try 0", loss.output,
           outputs.size());
    const LossSums sums =
        loss_sums(loss, {outputs[loss.output], given(at.target), given(at.row_weight),
                         given(at.label_smoothing), given(at.class_weight), given(at.pos_weight)});
    return Tensors{sums.weighted / sums.weights};
  };
  made.network.instantiate = nullptr;
  return made;
}

Program record_loss(const LossNetwork& loss, const Tensors& one) {
  const at::AutoGradMode keep(true);
  std::vector<Binding> bindings;
  for (size_t i = 0; i < one.size(); ++i) {
    const TensorSpec& spec = loss.network.tensors[i];
    bindings.push_back({spec.name, spec.role, one[i].detach().contiguous()});
  }
  Program single = record(bindings, loss.network.forward);
  for (const Node& node : single.nodes)
    if (node.is_random())
      throw Unsupported(reason("train", "random operator", node.name(),
                               "dropout, rand, randn, bernoulli or their like",
                               "to draw with one of those"));
  for (const Update& u : single.updates)
    if (const Value& v = single.value(u.target); v.role == Role::parameter)
      throw Unsupported(reason("train", "parameter " + v.name, "a change in forward",
                               "one that the optimizer alone changes",
                               "a buffer, or a loop of your own around the wide module"));
  return single;
}

Tensors differentiate_wide(const Program& single, const std::vector<size_t>& trained, int64_t n,
                           const std::vector<WideValue>& bound, const WidenOptions& options,
                           Coverage* coverage, std::vector<bool>* reached) {
  const Value& loss = single.value(single.outputs[0]);
  const ForwardAndBack pass =
      forward_and_back("train", bound, trained, {at::ones(wide_sizes(n, loss.sizes), loss.dtype)},
                       [&](const std::vector<WideValue>& values) {
                         return evaluate_wide(single, n, values, options, coverage);
                       });
  if (!pass.differentiable[0])
    throw Unsupported(reason("train", "loss", "one that depends on no trained parameter",
                             "something to differentiate", "to freeze less"));
  if (reached) *reached = pass.reached;
  Tensors results{for_all(n, pass.made[0])};
  results.insert(results.end(), pass.gradients.begin(), pass.gradients.end());
  for (size_t k = 1; k < pass.made.size(); ++k) results.push_back(for_all(n, pass.made[k]));
  return results;
}

std::shared_ptr<const RangeProgram> record_step(const Program& single,
                                                const std::vector<size_t>& trained,
                                                const Ensemble& models, const WidenOptions& options,
                                                std::vector<bool>* reached) {
  return recorded(single, models, [&](const std::vector<WideValue>& bound, Coverage* coverage) {
    return differentiate_wide(single, trained, models.n, bound, options, coverage, reached);
  });
}

std::shared_ptr<const RangeProgram> record_evaluation(const Program& single, const Ensemble& models,
                                                      const WidenOptions& options) {
  const at::NoGradGuard no_grad;
  return recorded(single, models, [&](const std::vector<WideValue>& bound, Coverage* coverage) {
    Tensors outputs;
    for (const WideValue& v : evaluate_wide(single, models.n, bound, options, coverage))
      outputs.push_back(for_all(models.n, v));
    outputs.resize(single.outputs.size());
    return outputs;
  });
}

}  // namespace wide
