#include "engine/train/step_check.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "engine/error.h"

namespace wide {

StepChecker::StepChecker(const Program& single, std::vector<size_t> trained,
                         std::vector<std::string> names, double tolerance)
    : exact_(raise_to_double(single)), trained_(std::move(trained)), names_(std::move(names)) {
  result_.tolerance = tolerance;
  result_.pass = true;
}

void StepChecker::add(int64_t model, Tensors bound, const Tensors& got) {
  ++result_.models;
  Tensors of;
  for (Tensor& t : bound) t = t.to(raised(t.scalar_type()));
  for (const size_t k : trained_) of.push_back(bound[k] = bound[k].detach().requires_grad_());
  Tensor loss;
  Tensors expected;
  {
    const at::AutoGradMode grad(true);
    loss = interpret(exact_, bound)[0];
    expected = torch::autograd::grad({loss}, of, {}, std::nullopt, false, true);
  }
  const at::NoGradGuard no_grad;
  const double reference = loss.item<double>();
  if (!std::isfinite(reference)) return;  // a model that has diverged is not wrong
  const double loss_error =
      std::abs(got[0].item<double>() - reference) / std::max(std::abs(reference), 1e-300);
  double largest = 0, worst = 0;
  std::string where;
  for (size_t k = 0; k < of.size(); ++k) {
    if (!expected[k].defined()) expected[k] = at::zeros_like(of[k]);
    if (expected[k].numel() == 0) continue;
    largest = std::max(largest, expected[k].abs().max().item<double>());
    const double off = (got[k + 1].to(at::kDouble) - expected[k]).abs().max().item<double>();
    if (!(off <= worst) || where.empty()) {
      worst = off;
      where = names_[k];
    }
  }
  const double error = largest > 0 ? worst / largest : worst;
  const auto worse = [](double a, double b) { return std::isnan(b) || b > a ? b : a; };
  result_.loss_error = worse(result_.loss_error, loss_error);
  result_.gradient_error = worse(result_.gradient_error, error);
  if (loss_error <= result_.tolerance && error <= result_.tolerance) return;
  result_.pass = false;
  if (result_.failure.empty())
    result_.failure = fmt::format("model {}: loss off by {:.2g}, gradient of {} by {:.2g}", model,
                                  loss_error, where, error);
}

}  // namespace wide
