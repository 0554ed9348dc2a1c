// `wide::optimizer_step`: an optimiser's step as an operator that returns new tensors, for
// recordings (the phase `step` of sweeps). Training itself writes in place and calls no operator.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/train/optimizer/optimizer_operator.h"
#include "engine/train/optimizer/tensor_step.h"
#include "engine/widen/capabilities.h"

namespace wide::optimizer_operator {
namespace {

constexpr int64_t kBlock = 1 << 15;  // numbers copied and stepped at a time, which stay in cache

/// `from` and `made`: the parameter, then its state; if they are the same tensors, steps in place.
template <class T>
void step_blocks(const Optimizer& optimizer, const Tensors& from, const Tensor& gradient,
                 const Tensor& hyper, int64_t steps, const Tensors& made) {
  const int64_t n = hyper.dim() == 2 ? hyper.size(0) : 1, count = gradient.numel() / n;
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  const auto* values = hyper.const_data_ptr<double>();
  at::parallel_for(0, n * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t job = first; job < last; ++job) {
      const int64_t model = job / blocks, begin = job % blocks * kBlock, at = model * count + begin;
      ParameterStep<T> step;
      step.count = std::min(kBlock, count - begin);
      T* block[3] = {};
      for (size_t k = 0; k < made.size(); ++k) {
        block[k] = made[k].mutable_data_ptr<T>() + at;
        const T* before = from[k].const_data_ptr<T>() + at;
        if (before != block[k]) std::copy_n(before, step.count, block[k]);
      }
      step.parameter = block[0];
      step.gradient = gradient.const_data_ptr<T>() + at;
      step.hyper = values + model * static_cast<int64_t>(optimizer.hyperparameters.size());
      step.step = steps;
      step.state = block + 1;
      optimizer.step(step);
    }
  });
}

/// Other dtypes than float32 and float64 are computed in float32.
void step_into(const std::string& name, const Tensors& from, const Tensor& gradient,
               const Tensor& hyper, int64_t step, const Tensors& into) {
  const at::ScalarType type = from[0].scalar_type();
  const bool own = type == at::kFloat || type == at::kDouble;
  Tensors before, made;
  for (size_t k = 0; k < from.size(); ++k) {
    before.push_back(from[k].contiguous());
    if (!own) before[k] = before[k].to(at::kFloat, false, /*copy=*/true);  // stepped in place
    made.push_back(!own                      ? before[k]
                   : into[k].is_contiguous() ? into[k]
                                             : at::empty(into[k].sizes(), into[k].options()));
  }
  const Tensor g = gradient.to(made[0].scalar_type()).contiguous();
  const Tensor h = hyper.to(at::kDouble).contiguous();
  if (made[0].scalar_type() == at::kDouble)
    step_blocks<double>(optimizer(name), before, g, h, step, made);
  else
    step_blocks<float>(optimizer(name), before, g, h, step, made);
  for (size_t k = 0; k < into.size(); ++k)
    if (!made[k].is_same(into[k])) into[k].copy_(made[k]);
}

/// The kernel of all overloads: `parameter`, `gradient`, the state, `hyper`, `step`, `optimizer`,
/// and in out-forms the results, which are the new parameter and its state. Without `computes` it
/// only makes results, for dry recordings.
template <bool computes>
void step_boxed(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size(), results = op.schema().returns().size();
  const std::vector<IValue> in(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const size_t hyper = results + 1, outs = results + 4;
  Tensors from, into;
  for (size_t k = 0; k < results; ++k) {
    from.push_back(in[k == 0 ? 0 : k + 1].toTensor());
    into.push_back(count > outs ? in[outs + k].toTensor()
                                : at::empty(from[k].sizes(), from[k].options()));
  }
  if constexpr (computes)
    step_into(in[hyper + 2].toStringRef(), from, in[1].toTensor(), in[hyper].toTensor(),
              in[hyper + 1].toInt(), into);
  stack->resize(stack->size() - count);
  stack->insert(stack->end(), into.begin(), into.end());
}

// Overloads by the number of state tensors.
constexpr const char* kOverloads[] = {"none", "one", "two"};

TORCH_LIBRARY_FRAGMENT(wide, m) {
  m.def(
      "optimizer_step.none(Tensor parameter, Tensor gradient, Tensor hyper, int step, str "
      "optimizer) -> Tensor");
  m.def(
      "optimizer_step.none_out(Tensor parameter, Tensor gradient, Tensor hyper, int step, str "
      "optimizer, *, Tensor(a!) out) -> Tensor(a!)");
  m.def(
      "optimizer_step.one(Tensor parameter, Tensor gradient, Tensor first, Tensor hyper, int step, "
      "str optimizer) -> (Tensor, Tensor)");
  m.def(
      "optimizer_step.one_out(Tensor parameter, Tensor gradient, Tensor first, Tensor hyper, int "
      "step, str optimizer, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))");
  m.def(
      "optimizer_step.two(Tensor parameter, Tensor gradient, Tensor first, Tensor second, Tensor "
      "hyper, int step, str optimizer) -> (Tensor, Tensor, Tensor)");
  m.def(
      "optimizer_step.two_out(Tensor parameter, Tensor gradient, Tensor first, Tensor second, "
      "Tensor hyper, int step, str optimizer, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) "
      "out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))");
}

TORCH_LIBRARY_IMPL(wide, CPU, m) {
  for (const char* overload : {"none", "none_out", "one", "one_out", "two", "two_out"})
    m.impl(fmt::format("optimizer_step.{}", overload).c_str(),
           torch::CppFunction::makeFromBoxedFunction<&step_boxed<true>>());
}

TORCH_LIBRARY_IMPL(wide, Meta, m) {
  for (const char* overload : kOverloads)
    m.impl(fmt::format("optimizer_step.{}", overload).c_str(),
           torch::CppFunction::makeFromBoxedFunction<&step_boxed<false>>());
}

/// The step on a device; other dtypes than float32 and float64 are computed in float32 here too.
Tensors by_tensors(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
                   const Tensors& state, const Tensor& hyper, int64_t step) {
  WIDE_ASSERT(optimizer.step_tensors != nullptr, "{} has no step of tensors", optimizer.name);
  const at::ScalarType computed = parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  TensorStep s{.parameter = parameter.to(computed),
               .gradient = gradient.to(computed),
               .hyper = hyper.to(at::kDouble),
               .step = step};
  for (const Tensor& t : state) s.state.push_back(t.to(computed));
  Tensors made = optimizer.step_tensors(s);
  for (size_t k = 0; k < made.size(); ++k)
    made[k] = made[k].to((k == 0 ? parameter : state[k - 1]).scalar_type());
  return made;
}

Tensors call(const Optimizer& optimizer, const Tensor& parameter, const Tensor& gradient,
             const Tensors& state, const Tensor& hyper, int64_t step) {
  WIDE_ASSERT(state.size() <= 2, "{} keeps {} tensors", optimizer.name, state.size());
  if (!parameter.is_cpu()) return by_tensors(optimizer, parameter, gradient, state, hyper, step);
  Stack stack{parameter, gradient};
  for (const Tensor& t : state) stack.emplace_back(t);
  stack.emplace_back(hyper);
  stack.emplace_back(step);
  stack.emplace_back(optimizer.name);
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("wide::optimizer_step", kOverloads[state.size()])
      .callBoxed(&stack);
  Tensors made;
  for (const IValue& v : stack) made.push_back(v.toTensor());
  return made;
}

[[maybe_unused]] const bool registered =
    set_optimizer_operator("wide::optimizer_step", call) &&
    add_capabilities("wide::optimizer_step",
                     {{{c10::kCPU, {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}}}});

}  // namespace
}  // namespace wide::optimizer_operator
