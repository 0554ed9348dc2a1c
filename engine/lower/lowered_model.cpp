#include "engine/lower/lowered_model.h"

#include <ATen/ATen.h>

#include "engine/error.h"

namespace wide {

LoweredModel::LoweredModel(Lowered lowered)
    : network_(std::move(lowered.network)),
      ensemble_(std::move(lowered.ensemble)),
      options_(std::move(lowered.options)),
      single_(std::move(lowered.single)),
      widening_(std::move(lowered.widening)),
      executor_(std::move(lowered.executor)),
      results_(std::move(lowered.results)),
      make_whole_(std::move(lowered.whole)) {
  if (executor_->ranges() == 1) whole_ = executor_->program();
  if (options_.keep_text) whole_program();
}

Tensors LoweredModel::run(const Tensors& inputs) {
  if (options_.mode == Mode::reduce_overhead) return replay(inputs);
  bind_inputs(inputs);
  const Tensors& results = results_.next(*executor_);
  executor_->run(ensemble_.tensors, results);
  return results;
}

void LoweredModel::set_weights(const Tensors& weights) {
  const auto at = network_.indices(false);
  WIDE_ASSERT(weights.size() == at.size(), "{} weights for {}", weights.size(), at.size());
  for (size_t k = 0; k < at.size(); ++k) ensemble_.tensors[at[k]] = weights[k].contiguous();
  executor_->set_weights(ensemble_.tensors);
  graph_.reset();  // it reads the packed weights where they were
}

/// Nothing runs it where models run in ranges: it is made for those who want to see it.
const RangeProgram& LoweredModel::whole_program() const {
  if (!whole_) whole_ = make_whole_(ensemble_);
  return *whole_;
}

std::vector<std::string> LoweredModel::differences() const {
  return wide::differences(coverage(), whole_program().wide.coverage);
}

const std::vector<PassRecord>& LoweredModel::passes() const {
  return (options_.keep_text ? whole_ : executor_->program())->passes;
}

std::vector<StepCost> LoweredModel::explain(const Tensors& inputs) {
  bind_inputs(inputs);
  return executor_->explain(ensemble_.tensors, results_.next(*executor_));
}

/// One launch of everything: inputs are copied to where the captured graph reads them, results
/// out of where it leaves them.
Tensors LoweredModel::replay(const Tensors& inputs) {
  at::NoGradGuard no_grad;
  const auto at = network_.indices(true);
  if (!graph_) {
    bind_inputs(inputs);
    for (size_t i : at) ensemble_.tensors[i] = ensemble_.tensors[i].clone();
    captured_ = results_.next(*executor_);
    const c10::Device device = ensemble_.tensors[0].device();
    graph_ = device_runtime(device.type())->capture(device, [this] {
      executor_->run(ensemble_.tensors, captured_);
    });
  }
  for (size_t k = 0; k < at.size(); ++k) {
    check_input(k, inputs);
    ensemble_.tensors[at[k]].copy_(inputs[k]);
  }
  graph_->replay();
  Tensors results;
  for (const Tensor& t : captured_) results.push_back(t.clone());
  return results;
}

/// Throws Error unless input k is there with the sizes and type that were compiled for.
void LoweredModel::check_input(size_t k, const Tensors& inputs) const {
  const auto at = network_.indices(true);
  if (inputs.size() != at.size())
    fail("[{}] inputs: got {}, expected {}; try one tensor for each", network_.name, inputs.size(),
         at.size());
  const Tensor& bound = ensemble_.tensors[at[k]];
  if (inputs[k].sizes() != bound.sizes() || inputs[k].scalar_type() != bound.scalar_type())
    fail("[{}] input {}: got {}, expected {}; try compiling again for other sizes", network_.name,
         network_.tensors[at[k]].name, describe(inputs[k]).shape_text(),
         describe(bound).shape_text());
}

void LoweredModel::bind_inputs(const Tensors& inputs) {
  const auto at = network_.indices(true);
  for (size_t k = 0; k < at.size(); ++k) {
    check_input(k, inputs);
    ensemble_.tensors[at[k]] = inputs[k].contiguous();
  }
}

}  // namespace wide
