#include "app/python/bindings/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/train/optimizer/optimizer.h"

namespace nwide {
namespace {

constexpr int64_t kBlock = 1 << 14;  // numbers of a model in one block
constexpr int64_t kAlone = 1 << 15;  // below this many numbers, one thread does all

/// A block of one model's numbers.
struct Block {
  size_t parameter = 0;
  int64_t model = 0, begin = 0, count = 0;
};

/// One parameter with its states; those that the optimiser does not keep are undefined.
struct Parameter {
  wide::Tensor value, gradient;
  wide::Tensors state;
  int64_t step = 1;
  bool shared = false;
};

/// One model after the other, as passes run them: a thread steps the models whose gradients it has
/// just computed, which are still in its cache.
std::vector<Block> blocks_of(const std::vector<Parameter>& parameters, int64_t n) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < n; ++i)
    for (size_t k = 0; k < parameters.size(); ++k) {
      if (parameters[k].shared && i > 0) continue;
      const int64_t each = parameters[k].value.numel() / (parameters[k].shared ? 1 : n);
      for (int64_t begin = 0; begin < each; begin += kBlock)
        blocks.push_back({k, i, i * each + begin, std::min(kBlock, each - begin)});
    }
  return blocks;
}

template <class T>
void step_block(const wide::Optimizer& optimizer, const Parameter& s, const Block& block,
                const double* hyper) {
  wide::ParameterStep<T> step;
  T* state[4] = {};
  for (size_t k = 0; k < s.state.size(); ++k)
    if (s.state[k].defined()) state[k] = s.state[k].mutable_data_ptr<T>() + block.begin;
  step.count = block.count;
  step.parameter = s.value.mutable_data_ptr<T>() + block.begin;
  step.gradient = s.gradient.const_data_ptr<T>() + block.begin;
  step.hyper = hyper;
  step.step = s.step;
  step.state = state;
  optimizer.step(step);
}

void check(const Parameter& s) {
  const at::ScalarType type = s.value.scalar_type();
  if (type != at::kFloat && type != at::kDouble)
    wide::fail("[nw.optim] parameter: got {}, expected float32 or float64; try torch.optim",
               c10::toString(type));
  bool alike = s.gradient.scalar_type() == type && s.gradient.sizes() == s.value.sizes();
  for (const wide::Tensor& t : s.state)
    alike = alike && (!t.defined() || (t.scalar_type() == type && t.is_contiguous() &&
                                       t.numel() == s.value.numel()));
  if (!s.value.is_contiguous())
    wide::fail(
        "[nw.optim] parameter: got one that is not contiguous, of shape [{}], expected contiguous "
        "ones; try p.data = p.data.contiguous(), or one of torch.optim",
        fmt::join(s.value.sizes(), ", "));
  if (!alike || !s.value.is_cpu())
    wide::fail(
        "[nw.optim] parameter: got one whose gradient or state lies otherwise, expected both as "
        "the parameter on the CPU; try a new optimiser");
}

}  // namespace

void optimizer_step(const std::string& name, const wide::Tensors& parameters,
                    const wide::Tensors& gradients, const std::vector<wide::Tensors>& states,
                    const std::vector<int64_t>& steps, const std::vector<bool>& shared,
                    const std::vector<bool>& kept, const wide::Tensor& hyper) {
  const py::gil_scoped_release released;
  const at::NoGradGuard no_grad;
  const wide::Optimizer& optimizer = wide::optimizer(name);
  const int64_t n = hyper.size(0), count = hyper.size(1);
  int64_t models = n;
  bool counted = n > 1;  // else the first parameter says how many models there are
  const auto* values = hyper.const_data_ptr<double>();
  for (int64_t i = 0; i < n && optimizer.conflict; ++i)
    if (const std::string why = optimizer.conflict(values + i * count); !why.empty())
      wide::fail("[nw.optim] {}: got {}; try other values", name, why);
  std::vector<Parameter> all;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Parameter& s =
        all.emplace_back(Parameter{parameters[i], gradients[i], {}, steps[i], shared[i]});
    size_t next = 0;
    for (const bool is_kept : kept)
      s.state.push_back(is_kept ? states[i].at(next++) : wide::Tensor());
    check(s);
    s.gradient = s.gradient.contiguous();
    if (s.shared) continue;
    const int64_t own = s.value.dim() > 0 ? s.value.size(0) : 0;
    if (own != models && (own == 0 || counted))
      wide::fail(
          "[nw.optim] parameter: got one of shape [{}], expected [models, ...] as the others have; "
          "try torch.optim for parameters that are not the models'",
          fmt::join(s.value.sizes(), ", "));
    models = own;
    counted = true;
  }
  for (const Parameter& s : all)
    if (s.shared && n > 1)
      wide::fail(
          "[nw.optim] parameter: got one for all models and values for each, expected one number "
          "for it; try a group of its own");
  const std::vector<Block> blocks = blocks_of(all, models);
  int64_t numbers = 0;
  for (const Block& block : blocks) numbers += block.count;
  const auto size = static_cast<int64_t>(blocks.size());
  at::parallel_for(0, size, numbers < kAlone ? size : 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Block& block = blocks[static_cast<size_t>(i)];
      const Parameter& s = all[block.parameter];
      const double* own = values + (n > 1 ? block.model * count : 0);
      if (s.value.scalar_type() == at::kDouble)
        step_block<double>(optimizer, s, block, own);
      else
        step_block<float>(optimizer, s, block, own);
    }
  });
  for (const Parameter& s : all) s.value.unsafeGetTensorImpl()->bump_version();
}

py::dict optimizer_table() {
  py::dict table;
  for (const wide::Optimizer& optimizer : wide::optimizers()) {
    py::list hyperparameters, states;
    for (const wide::Hyperparameter& h : optimizer.hyperparameters)
      hyperparameters.append(py::make_tuple(h.name, h.value, h.low, h.high));
    for (const wide::OptimizerState& s : optimizer.state)
      states.append(py::make_tuple(s.name, s.only_with));
    table[py::str(optimizer.name)] = py::make_tuple(hyperparameters, states);
  }
  return table;
}

}  // namespace nwide
