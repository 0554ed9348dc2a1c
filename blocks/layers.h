#pragma once
#include <ATen/ATen.h>

#include "engine/record/training_form.h"
#include "engine/widen/describe.h"

namespace wide {

/// Declares a network's tensors layer by layer, with the names that PyTorch's modules give them.
struct Layers {
  std::vector<TensorSpec> tensors;

  void input(const std::string& name, Sizes sizes) {
    tensors.push_back(wide::input(name, std::move(sizes)));
  }
  void linear(const std::string& name, int64_t in, int64_t out) {
    weight(name, {out, in}, double(in));
    tensors.push_back(parameter(name + ".bias", {out}));
  }
  void convolution(const std::string& name, int64_t in, int64_t out, int64_t k, int64_t dims,
                   bool bias) {
    Sizes sizes{out, in};
    sizes.insert(sizes.end(), static_cast<size_t>(dims), k);
    weight(name, sizes, double(in) * std::pow(double(k), double(dims)));
    if (bias) tensors.push_back(parameter(name + ".bias", {out}));
  }
  void norm(const std::string& name, int64_t features, bool running = false) {
    tensors.push_back(parameter(name + ".weight", {features}, 1.0, Fill::near_one));
    tensors.push_back(parameter(name + ".bias", {features}));
    if (!running) return;
    tensors.push_back(buffer(name + ".running_mean", {features}, Fill::normal));
    tensors.push_back(buffer(name + ".running_var", {features}, Fill::positive));
  }
  void weight(const std::string& name, Sizes sizes, double fan_in) {
    tensors.push_back(parameter(name + ".weight", std::move(sizes), std::sqrt(2.0 / fan_in)));
  }
  Network network(std::string name, std::function<Tensors(const Tensors&)> forward) const {
    return {.name = std::move(name), .tensors = tensors, .forward = std::move(forward)};
  }
};

/// Applies layers in the order of declaration: each call uses the next tensors.
class Cursor {
 public:
  explicit Cursor(const Tensors& tensors) : tensors_(tensors) {}

  const Tensor& next() { return tensors_.at(at_++); }
  Tensor linear(const Tensor& x) {
    const Tensor &w = next(), &b = next();
    return at::linear(x, w, b);
  }
  Tensor conv2d(const Tensor& x, int64_t stride, int64_t padding, bool bias) {
    const Tensor& w = next();
    return at::conv2d(x, w, bias ? next() : Tensor(), {stride, stride}, {padding, padding});
  }
  Tensor conv1d(const Tensor& x, int64_t padding) {
    const Tensor &w = next(), &b = next();
    return at::conv1d(x, w, b, {1}, {padding});
  }
  Tensor layer_norm(const Tensor& x) {
    const Tensor &w = next(), &b = next();
    return at::layer_norm(x, {x.size(-1)}, w, b, 1e-5);
  }
  Tensor group_norm(const Tensor& x, int64_t groups) {
    const Tensor &w = next(), &b = next();
    return at::group_norm(x, groups, w, b, 1e-5);
  }
  Tensor batch_norm(const Tensor& x) {
    const Tensor &w = next(), &b = next(), &mean = next(), &var = next();
    return at::batch_norm(x, w, b, mean, var, in_training_form(), 0.1, 1e-5, true);
  }

 private:
  const Tensors& tensors_;
  size_t at_ = 0;
};

/// A target with the settings of all end-to-end networks: float32, at most a few dozen layers.
inline Target model_target(std::string name, std::string summary, std::string formula,
                           std::function<Network(const Shape&)> network, Sweep sweep) {
  Target t;
  t.name = std::move(name);
  t.kind = Kind::model;
  t.family = "model";
  t.summary = std::move(summary);
  t.formula = std::move(formula);
  t.source = "end-to-end row";
  t.network = std::move(network);
  t.sweeps["quick"] = sweep;
  t.sweeps["full"] = {full_n(), sweep.shapes};
  t.sweeps["full"].n.push_back(100);
  t.tolerance = {{at::kFloat, 2e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "every layer adds the rounding of its own sums";
  return t;
}

/// Strategies that can be forced for the parts of an attention block.
inline std::map<std::string, std::map<std::string, std::string>> attention_parts() {
  return {{"packed", {{"attention", "packed"}}},
          {"fused", {{"attention", "fused"}}},
          {"math", {{"attention", "math"}}}};
}

/// FLOPs of linear layers with `squares` D² weights around one self attention; x [B,T,D].
inline double transformer_flops(const Shape& s, double squares) {
  const double tokens = product(s, {"B", "T"}), d = double(s["D"]);
  return 2.0 * squares * tokens * d * d + 4.0 * tokens * double(s["T"]) * d;
}

}  // namespace wide
