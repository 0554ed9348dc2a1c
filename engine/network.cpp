#include "engine/network.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

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

Tensor filled(const TensorSpec& spec, at::Generator generator) {
  const auto real = at::TensorOptions().dtype(at::kFloat);
  switch (spec.fill) {
    case Fill::normal:
      return at::randn(spec.sizes, generator, real) * spec.scale;
    case Fill::uniform:
      return at::rand(spec.sizes, generator, real) * spec.scale;
    case Fill::positive:
      return at::rand(spec.sizes, generator, real) * spec.scale + 0.5;
    case Fill::near_one:
      return at::randn(spec.sizes, generator, real) * (0.1 * spec.scale) + 1.0;
    case Fill::zeros:
      return at::zeros(spec.sizes, real);
    case Fill::integers:
      return at::randint(static_cast<int64_t>(spec.scale), spec.sizes, generator,
                         at::TensorOptions().dtype(at::kLong));
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

Ensemble generate(const Network& network, int64_t n, at::ScalarType dtype, c10::Device device,
                  uint64_t seed) {
  Ensemble ensemble;
  ensemble.n = n;
  for (size_t k = 0; k < network.tensors.size(); ++k) {
    const TensorSpec& spec = network.tensors[k];
    const at::ScalarType type = spec.dtype == at::kFloat ? dtype : spec.dtype;
    Tensors each;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t s = mix(mix(seed + static_cast<uint64_t>(i)) ^ mix(k + 1));
      each.push_back(filled(spec, at::detail::createCPUGenerator(s)).to(type));
    }
    ensemble.tensors.push_back(at::stack(each).to(device));
    ensemble.shared.push_back(false);
  }
  return ensemble;
}

}  // namespace wide
