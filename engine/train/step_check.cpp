#include "engine/train/step_check.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/error.h"

namespace wide {
namespace {

/// What was recorded without gradients is an operator that has none, where there are two of one
/// meaning.
Program with_gradients(Program program) {
  for (Node& node : program.nodes)
    if (node.name() == "aten::_embedding_bag_forward_only")
      node.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_embedding_bag", "");
  return program;
}

}  // namespace

StepChecker::StepChecker(const Program& single, std::vector<size_t> trained,
                         std::vector<std::string> names, at::ScalarType dtype)
    : exact_(with_gradients(raise_to_double(single))),
      trained_(std::move(trained)),
      names_(std::move(names)),
      rounds_(dtype != at::kDouble) {
  result_.tolerance = rounds_ ? 1e-4 : 1e-9;
  result_.pass = true;
}

Tensors StepChecker::exactly(Tensors bound) const {
  Tensors of;
  for (const size_t k : trained_) of.push_back(bound[k] = bound[k].detach().requires_grad_());
  const at::AutoGradMode grad(true);
  const Tensor loss = interpret(exact_, bound)[0];
  Tensors result{loss.detach()};
  Tensors gradients;
  try {
    gradients = torch::autograd::grad({loss}, of, {}, std::nullopt, false, true);
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    std::set<std::string> operators;
    for (const Node& node : exact_.nodes) operators.insert(node.name());
    fail(
        "[train] check: got {} of PyTorch for one of {}, expected gradients of separate models in "
        "float64; try --check 0",
        text.substr(0, text.find('\n')), fmt::join(operators, ", "));
  }
  for (size_t k = 0; k < of.size(); ++k)
    result.push_back(gradients[k].defined() ? gradients[k].detach() : at::zeros_like(of[k]));
  return result;
}

double StepChecker::moved_by_rounding(const Tensors& bound, const Tensors& expected) const {
  constexpr int kTimes = 8;
  constexpr double kRounding = 5e-7;  // of a few operations one after the other
  auto generator = at::detail::createCPUGenerator(1);
  double most = 0;
  for (int i = 0; i < kTimes; ++i) {
    Tensors moved = bound;
    for (Tensor& t : moved)
      if (t.is_floating_point())
        t = t * (1 + kRounding * (2 * at::rand(t.sizes(), generator, t.options()) - 1));
    const Tensors other = exactly(std::move(moved));
    for (size_t k = 1; k < expected.size(); ++k)
      if (expected[k].numel() > 0)
        most = std::max(most, (other[k] - expected[k]).abs().max().item<double>());
  }
  return most;
}

void StepChecker::add(int64_t model, Tensors bound, const Tensors& got) {
  constexpr double kRoom = 2;  // the rounding of the step itself is another one
  ++result_.models;
  const at::NoGradGuard no_grad;
  for (Tensor& t : bound) t = t.to(raised(t.scalar_type()));
  const Tensors expected = exactly(bound);
  const double reference = expected[0].item<double>();
  if (!std::isfinite(reference)) return;  // a model that has diverged is not wrong
  const double loss_error =
      std::abs(got[0].item<double>() - reference) / std::max(std::abs(reference), 1e-300);
  double largest = 0, worst = 0;
  std::string where;
  for (size_t k = 1; k < expected.size(); ++k) {
    if (expected[k].numel() == 0) continue;
    largest = std::max(largest, expected[k].abs().max().item<double>());
    const double off = (got[k].to(at::kDouble) - expected[k]).abs().max().item<double>();
    if (where.empty() || (!std::isnan(worst) && !(off <= worst))) {
      worst = off;
      where = names_[k - 1];
    }
  }
  const double error = largest > 0 ? worst / largest : worst;
  const auto worse = [](double a, double b) { return std::isnan(b) || b > a ? b : a; };
  result_.loss_error = worse(result_.loss_error, loss_error);
  if (loss_error <= result_.tolerance && error <= result_.tolerance) {
    result_.gradient_error = worse(result_.gradient_error, error);
    return;
  }
  if (rounds_ && loss_error <= result_.tolerance &&
      worst <= kRoom * moved_by_rounding(bound, expected)) {
    ++result_.at_kinks;
    return;
  }
  result_.gradient_error = worse(result_.gradient_error, error);
  result_.pass = false;
  if (result_.failure.empty())
    result_.failure = fmt::format("model {}: loss off by {:.2g}, gradient of {} by {:.2g}", model,
                                  loss_error, where, error);
}

}  // namespace wide
