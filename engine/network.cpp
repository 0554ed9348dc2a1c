#include "engine/network.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "engine/error.h"

namespace wide {

namespace {

/// splitmix64: neighbouring (seed, model, tensor) give unrelated streams.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Fills `row`, a contiguous tensor of the case's dtype; in float32 first if that is another dtype.
void fill(const Tensor& row, const TensorSpec& spec, at::Generator generator) {
  if (row.scalar_type() != at::kFloat && spec.fill != Fill::integers) {
    const Tensor real = at::empty(spec.sizes, at::kFloat);
    fill(real, spec, std::move(generator));
    row.copy_(real);
    return;
  }
  const auto scale = [&](double by) {
    if (by != 1) row.mul_(by);
  };
  switch (spec.fill) {
    case Fill::normal:
      row.normal_(0, 1, std::move(generator));
      return scale(spec.scale);
    case Fill::uniform:
      row.uniform_(0, 1, std::move(generator));
      return scale(spec.scale);
    case Fill::positive:
      row.uniform_(0, 1, std::move(generator));
      scale(spec.scale);
      row.add_(0.5);
      return;
    case Fill::near_one:
      row.normal_(0, 1, std::move(generator));
      scale(0.1 * spec.scale);
      row.add_(1.0);
      return;
    case Fill::zeros:
      row.zero_();
      return;
    case Fill::integers:
      row.random_(0, static_cast<int64_t>(spec.scale), std::move(generator));
      return;
  }
  WIDE_ASSERT(false, "unknown filling");
}

}  // namespace

std::vector<size_t> Network::indices(bool inputs) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < tensors.size(); ++i)
    if ((tensors[i].role == Role::input) == inputs) out.push_back(i);
  return out;
}

Model bind(const Network& network, const Tensors& weights) {
  const auto weight_at = network.indices(false), input_at = network.indices(true);
  Tensors bound(network.tensors.size());
  for (size_t k = 0; k < weight_at.size(); ++k) bound[weight_at[k]] = weights[k];
  return [bound, input_at, forward = network.forward](const Tensors& inputs) mutable {
    for (size_t k = 0; k < input_at.size(); ++k) bound[input_at[k]] = inputs[k];
    return forward(bound);
  };
}

Tensors Ensemble::model(int64_t i) const {
  Tensors own;
  for (size_t k = 0; k < tensors.size(); ++k)
    own.push_back(shared[k] ? tensors[k] : tensors[k].select(0, i));
  return own;
}

c10::Device Ensemble::device() const {
  return tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device();
}

Ensemble Ensemble::models(int64_t begin, int64_t count) const {
  Ensemble some = *this;
  some.n = count;
  for (size_t k = 0; k < tensors.size(); ++k)
    if (!shared[k]) some.tensors[k] = tensors[k].narrow(0, begin, count);
  return some;
}

Ensemble generate(const Network& network, int64_t n, at::ScalarType dtype, c10::Device device,
                  uint64_t seed) {
  Ensemble ensemble;
  ensemble.n = n;
  for (size_t k = 0; k < network.tensors.size(); ++k) {
    const TensorSpec& spec = network.tensors[k];
    const Tensor wide = at::empty(wide_sizes(n, spec.sizes), spec.dtype_in(dtype));
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t s = mix(mix(seed + static_cast<uint64_t>(i)) ^ mix(k + 1));
        fill(wide.select(0, i), spec, at::detail::createCPUGenerator(s));
      }
    });
    ensemble.tensors.push_back(wide.to(device));
    ensemble.shared.push_back(false);
  }
  return ensemble;
}

}  // namespace wide
