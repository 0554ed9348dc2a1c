#include "engine/train/step_check.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/error.h"
#include "engine/widen/gradients.h"

namespace wide {
namespace {

/// Replaces operators that are recorded without gradients by their form with a gradient.
Program with_gradients(Program program) {
  for (Node& node : program.nodes)
    if (node.name() == "aten::_embedding_bag_forward_only")
      node.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_embedding_bag", "");
  return program;
}

/// By how much numbers of a dtype are rounded, relative to their size.
double epsilon_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::epsilon();
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

/// Random numbers between -1 and 1.
Tensor uniform(const Tensor& like, const at::Generator& generator) {
  return 2 * at::rand(like.sizes(), generator, like.options()) - 1;
}

}  // namespace

StepChecker::StepChecker(const Program& single, std::vector<size_t> trained,
                         std::vector<std::string> names, at::ScalarType dtype)
    : own_(with_gradients(single)),
      exact_(raise_to_double(own_)),
      trained_(std::move(trained)),
      names_(std::move(names)),
      dtype_(dtype) {
  result_.tolerance = dtype == at::kDouble ? 1e-9 : 1e-4;
  result_.pass = true;
}

Tensors StepChecker::exact(const Tensors& bound) const {
  Tensors raised_bound;
  for (const Tensor& t : bound) raised_bound.push_back(t.to(raised(t.scalar_type())));
  return computed(exact_, std::move(raised_bound));
}

Tensors StepChecker::computed(const Program& program, Tensors bound) const {
  Tensors of;
  for (const size_t k : trained_) of.push_back(bound[k] = bound[k].detach().requires_grad_());
  const at::AutoGradMode grad(true);
  const Tensor loss = interpret(program, bound)[0];
  Tensors result{loss.detach()};
  Tensors gradients;
  try {
    gradients = gradients_of({loss}, of);
  } catch (const c10::Error& e) {
    std::set<std::string> operators;
    for (const Node& node : program.nodes) operators.insert(node.name());
    fail(
        "[train] check: got {} of PyTorch for one of {}, expected gradients of separate models in "
        "float64; try --check 0",
        first_line(e), fmt::join(operators, ", "));
  }
  for (size_t k = 0; k < of.size(); ++k)
    result.push_back(gradients[k].defined() ? gradients[k].detach() : at::zeros_like(of[k]));
  return result;
}

StepChecker::Difference StepChecker::difference(const Tensors& a, const Tensors& b) {
  Difference most{std::abs(a[0].item<double>() - b[0].item<double>())};
  for (size_t k = 1; k < a.size(); ++k) {
    if (a[k].numel() == 0) continue;
    const double off = (a[k].to(at::kDouble) - b[k].to(at::kDouble)).abs().max().item<double>();
    if (std::isnan(most.gradient) || off <= most.gradient) continue;
    most.gradient = off;
    most.worst = k - 1;
  }
  return most;
}

StepChecker::Difference StepChecker::tolerated(const Tensors& expected) const {
  Difference size{std::abs(expected[0].item<double>())};
  for (size_t k = 1; k < expected.size(); ++k)
    if (expected[k].numel() > 0)
      size.gradient = std::max(size.gradient, expected[k].abs().max().item<double>());
  return {size.loss * result_.tolerance, size.gradient * result_.tolerance};
}

StepChecker::Difference StepChecker::by_rounding(const Tensors& bound,
                                                 const Tensors& expected) const {
  constexpr int kTimes = 8;
  constexpr double kOperations = 4;  // operations in a row
  auto generator = at::detail::createCPUGenerator(1);
  Difference most = difference(computed(own_, bound), expected);
  for (int i = 0; i < kTimes; ++i) {
    Tensors other;
    for (const Tensor& t : bound) {
      other.push_back(t.to(raised(t.scalar_type())));
      if (!t.is_floating_point()) continue;
      // Parts of the network may be narrower than what is trained, as a frozen float16 backbone.
      const double rounding =
          kOperations * std::max(epsilon_of(dtype_), epsilon_of(t.scalar_type()));
      other.back() = other.back() * (1 + rounding * uniform(other.back(), generator));
    }
    const Difference by = difference(exact(other), expected);
    most = {std::max(most.loss, by.loss), std::max(most.gradient, by.gradient)};
  }
  return most;
}

Tensors StepChecker::moved(const Tensors& bound, uint64_t seed) const {
  constexpr double kShare = 0.01;
  auto generator = at::detail::createCPUGenerator(seed);
  Tensors values;
  for (const size_t k : trained_) {
    const Tensor& t = bound[k];
    const double largest = t.numel() > 0 ? t.abs().max().item<double>() : 0;
    values.push_back(t + kShare * (largest > 0 ? largest : 1) * uniform(t, generator));
  }
  return values;
}

std::string StepChecker::vanishes(const Tensors& bound, const Step& again) const {
  constexpr uint64_t kRetries = 3;
  constexpr double kRoom = 2;  // the wide step rounds differently
  for (uint64_t retry = 0; retry < kRetries; ++retry) {
    const Tensors values = moved(bound, retry + 1);
    Tensors other = bound;
    for (size_t k = 0; k < trained_.size(); ++k) other[trained_[k]] = values[k];
    const Tensors expected = exact(other);
    if (!std::isfinite(expected[0].item<double>())) continue;
    const Difference off = difference(again(values), expected), allowed = tolerated(expected);
    const auto within = [&](double loss, double gradient) {
      return off.loss <= std::max(loss, allowed.loss) &&
             off.gradient <= std::max(gradient, allowed.gradient);
    };
    if (within(0, 0))
      return "a tie, as of a relu's argument at zero or of two maxima: not there with weights "
             "moved by 1 %";
    const Difference by = by_rounding(other, expected);
    if (within(kRoom * by.loss, kRoom * by.gradient))
      return "no more than rounding does to separate models";
  }
  return "";
}

void StepChecker::add(int64_t model, const Tensors& bound, const Tensors& got, const Step& again) {
  ++result_.models;
  const at::NoGradGuard no_grad;
  const Tensors expected = exact(bound);
  if (!std::isfinite(expected[0].item<double>())) return;  // a diverged model is no error
  const Difference off = difference(got, expected), allowed = tolerated(expected);
  const auto share = [&](double of, double limit) {
    return limit > 0 ? of / limit * result_.tolerance : of;
  };
  const double loss = share(off.loss, allowed.loss),
               gradient = share(off.gradient, allowed.gradient);
  const std::string& tensor = names_[off.worst];
  if (!(off.loss <= allowed.loss && off.gradient <= allowed.gradient)) {
    if (const std::string how = vanishes(bound, again); !how.empty()) {
      result_.vanished.push_back({model, tensor, loss, gradient, how});
      return;
    }
    result_.pass = false;
    if (result_.failure.empty())
      result_.failure = fmt::format(
          "model {}: loss off by {:.2g}, gradient of {} by {:.2g}, likewise in 3 tries with "
          "weights moved by 1 %",
          model, loss, tensor, gradient);
  }
  const auto worse = [](double a, double b) { return std::isnan(b) || b > a ? b : a; };
  result_.loss_error = worse(result_.loss_error, loss);
  result_.gradient_error = worse(result_.gradient_error, gradient);
}

}  // namespace wide
