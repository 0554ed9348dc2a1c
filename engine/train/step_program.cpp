#include "engine/train/step_program.h"

#include <ATen/ATen.h>

#include "engine/error.h"
#include "engine/record/draws.h"

namespace wide {

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

void expect_trainable(const Program& single) {
  for (const Node& node : single.nodes)
    if (node.is_random())
      throw Unsupported(reason("train", "random operator", node.name(),
                               "dropout, rand, randn, bernoulli or their like",
                               "one of those operators"));
  for (const Update& u : single.updates)
    if (const Value& v = single.value(u.target); v.role == Role::parameter)
      throw Unsupported(reason("train", "parameter " + v.name, "a change in forward",
                               "one that the optimizer alone changes",
                               "a buffer, or a loop of your own around the wide module"));
}

}  // namespace wide
