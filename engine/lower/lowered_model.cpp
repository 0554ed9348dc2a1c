#include "engine/lower/lowered_model.h"

#include <ATen/ATen.h>

#include "engine/error.h"
#include "engine/lower/memory/plain_memory.h"

namespace wide {

LoweredModel::LoweredModel(Lowered made) : made_(std::move(made)) {
  if (made_.executor->ranges() == 1) whole_ = made_.executor->program();
  if (made_.options.keep_text) whole_program();
}

Tensors LoweredModel::run(const Tensors& inputs) {
  if (made_.options.mode == Mode::reduce_overhead) return replay(inputs);
  bind_inputs(inputs);
  const Tensors& results = made_.results.next(*made_.executor);
  made_.executor->run(made_.ensemble.tensors, results);
  return made_.executor->with_given(results);
}

void LoweredModel::set_weights(const Tensors& weights) {
  const auto at = made_.network.indices(false);
  WIDE_ASSERT(weights.size() == at.size(), "{} weights for {}", weights.size(), at.size());
  for (size_t k = 0; k < at.size(); ++k)
    made_.ensemble.tensors[at[k]] = in_plain_memory(weights[k]);
  made_.executor->set_weights(made_.ensemble.tensors);
  graph_.reset();  // it was captured with the addresses of the old packed weights
}

/// Program(N) of all models at once. Where models run in ranges it is never run, only shown by
/// --explain.
const RangeProgram& LoweredModel::whole_program() const {
  if (!whole_) whole_ = made_.whole(made_.ensemble);
  return *whole_;
}

std::vector<std::string> LoweredModel::differences() const {
  return wide::differences(coverage(), whole_program().wide.coverage);
}

const std::vector<PassRecord>& LoweredModel::passes() const {
  return (made_.options.keep_text ? whole_ : made_.executor->program())->passes;
}

std::vector<StepCost> LoweredModel::explain(const Tensors& inputs) {
  bind_inputs(inputs);
  return made_.executor->explain(made_.ensemble.tensors, made_.results.next(*made_.executor));
}

TimelineCall LoweredModel::timeline(const Tensors& inputs) {
  bind_inputs(inputs);
  TimelineCall call =
      made_.executor->timeline(made_.ensemble.tensors, made_.results.next(*made_.executor));
  if (made_.options.mode == Mode::reduce_overhead)
    call.notes.emplace_back(
        "wide: a call is one launch of a graph; its steps are called one by one "
        "here");
  return call;
}

/// Replays the captured CUDA graph: copies the inputs to the addresses that it reads, launches it,
/// and copies the results from the addresses that it writes.
Tensors LoweredModel::replay(const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  fill_slots(inputs);
  graph_->replay();
  Tensors results;
  for (const Tensor& t : captured_) results.push_back(t.clone());
  return results;
}

/// In mode reduce-overhead only launches the graph, and copies only results that are fed back.
std::function<Tensors()> LoweredModel::repeated(const Tensors& inputs, const FedBack& back) {
  if (made_.options.mode != Mode::reduce_overhead) return CompiledModel::repeated(inputs, back);
  return [this, inputs, back, placed = false]() mutable {
    const at::NoGradGuard no_grad;
    if (!placed || !graph_) fill_slots(inputs);
    placed = true;
    graph_->replay();
    if (back.empty()) return captured_;
    const auto at = made_.network.indices(true);
    Tensors from, to;
    for (const auto& [output, input] : back) {
      from.push_back(captured_[output]);
      to.push_back(slots_[at[input]]);
    }
    at::_foreach_copy_(to, from);
    return captured_;
  };
}

/// Captures the graph if there is none.
void LoweredModel::fill_slots(const Tensors& inputs) {
  const auto at = made_.network.indices(true);
  for (size_t k = 0; k < at.size(); ++k) check_input(k, inputs);
  if (!graph_) {
    bind_inputs(inputs);
    // The graph needs its own memory: other calls bind other inputs and use the executor's results.
    slots_ = made_.ensemble.tensors;
    for (size_t i : at) slots_[i] = slots_[i].clone();
    captured_ = ResultMemory().next(*made_.executor);
    held_ = made_.executor->hold_arenas();
    graph_ = capture(made_.ensemble.device(), [this] { made_.executor->run(slots_, captured_); });
    captured_ = made_.executor->with_given(captured_);
  }
  for (size_t k = 0; k < at.size(); ++k) slots_[at[k]].copy_(inputs[k]);
}

/// Throws Error unless input k has the sizes and type that the model was compiled for.
void LoweredModel::check_input(size_t k, const Tensors& inputs) const {
  const auto at = made_.network.indices(true);
  if (inputs.size() != at.size())
    fail("[{}] inputs: got {}, expected {}; try one tensor for each", made_.network.name,
         inputs.size(), at.size());
  const Tensor& bound = made_.ensemble.tensors[at[k]];
  if (inputs[k].sizes() != bound.sizes() || inputs[k].scalar_type() != bound.scalar_type())
    fail("[{}] input {}: got {}, expected {}; try compiling again for other sizes",
         made_.network.name, made_.network.tensors[at[k]].name, describe(inputs[k]).shape_text(),
         describe(bound).shape_text());
  if (inputs[k].device() != bound.device())
    fail("[{}] input {}: got a tensor on {}, expected one on {}; try .to(\"{}\")",
         made_.network.name, made_.network.tensors[at[k]].name, inputs[k].device().str(),
         bound.device().str(), bound.device().str());
}

void LoweredModel::hold(const Tensors& inputs) {
  if (made_.options.mode == Mode::reduce_overhead) return;  // its graph reads the ones it has
  const auto at = made_.network.indices(true);
  for (size_t k = 0; k < at.size(); ++k)
    if (inputs[k].is_contiguous()) made_.ensemble.tensors[at[k]] = inputs[k];
}

void LoweredModel::bind_inputs(const Tensors& inputs) {
  const auto at = made_.network.indices(true);
  for (size_t k = 0; k < at.size(); ++k) {
    check_input(k, inputs);
    made_.ensemble.tensors[at[k]] = in_plain_memory(inputs[k]);
  }
}

}  // namespace wide
