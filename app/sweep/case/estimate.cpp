#include "app/sweep/case/estimate.h"

#include <ATen/ATen.h>

#include "engine/check/check_detail.h"
#include "engine/record/dry/dry.h"
#include "engine/widen/aten_only.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

/// Memory that kernels need beside their results and that allocators keep, as a factor.
constexpr double kMargin = 1.15;

int64_t with_margin(int64_t bytes) {
  return static_cast<int64_t>(kMargin * static_cast<double>(bytes));
}

Ensemble without_memory(const Network& network, int64_t n, at::ScalarType dtype,
                        c10::Device device) {
  Ensemble ensemble;
  ensemble.n = n;
  for (const TensorSpec& spec : network.tensors) {
    ensemble.tensors.push_back(
        without_elements(wide_sizes(n, spec.sizes), spec.dtype_in(dtype), device));
    ensemble.shared.push_back(false);
  }
  return ensemble;
}

int64_t bound_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const ValueId id : program.bound) bytes += program.value(id).bytes();
  return bytes;
}

int64_t result_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const ValueId id : program.results()) bytes += program.value(id).bytes();
  return bytes;
}

/// The wide program by ATen operators, whose shapes are known without running them. The engine's
/// own kernels take less memory, so this is an upper estimate.
Program wide_dry(const Network& network, const Program& single, int64_t n, at::ScalarType dtype,
                 c10::Device device) {
  WidenOptions options;
  options.only = aten_alone(/*optimizer_steps=*/true);
  options.fold = false;
  const Ensemble models = without_memory(network, n, dtype, device);
  std::vector<WideValue> values;
  for (const Tensor& t : models.tensors) values.push_back({t, true});
  EvaluateWide evaluate = evaluate_wide;
  if (network.derivative)
    evaluate = [&](const Program&, int64_t count, const std::vector<WideValue>& bound,
                   const WidenOptions& chosen, Coverage* coverage) {
      return network.derivative->evaluate(count, bound, chosen, coverage);
    };
  return widen(single, n, values, options, evaluate).program;
}

}  // namespace

Program record_dry(const Network& network, at::ScalarType dtype, bool grad, c10::Device device) {
  const DryRecording dry;
  return record_single(network, without_memory(network, 1, dtype, device), grad);
}

CaseBytes estimate_case(const Network& network, const Program& single, const Program& reference,
                        const SweepCase& planned) {
  const at::NoGradGuard no_grad;
  CaseBytes bytes;
  const int64_t bound = bound_bytes(single), results = result_bytes(single), n = planned.n;
  bytes.loop = with_margin(n * (bound + results) + single.peak_bytes() - bound);
  bytes.exact = 2 * with_margin(reference.peak_bytes());
  // Data, twice (as given and permuted); expected results, in float64 and in the dtype itself.
  bytes.check = n * (2 * bound + 3 * results);
  int64_t parameters = 0;
  for (const ValueId id : single.bound)
    if (single.value(id).role == Role::parameter) parameters += single.value(id).bytes();
  const DryRecording dry;
  bytes.compiled =
      n * parameters +
      with_margin(wide_dry(network, single, n, planned.dtype, planned.device).peak_bytes());
  return bytes;
}

Tensors pick_samples(const Tensors& results, const std::vector<int64_t>& samples) {
  Tensors picked;
  const Tensor at = at::tensor(samples, at::kLong);
  for (const Tensor& t : results) picked.push_back(t.index_select(1, at.to(t.device())));
  return picked;
}

Expected expect_of_samples(const Network& network, const Program& one, const Ensemble& ensemble,
                           const std::vector<int64_t>& samples) {
  const auto count = static_cast<int64_t>(samples.size());
  Ensemble each{ensemble.n * count, {}, std::vector<bool>(network.tensors.size(), false)};
  for (const Tensor& t : pick_samples(ensemble.tensors, samples))
    each.tensors.push_back(t.flatten(0, 1).unsqueeze(1));
  const auto joined = [&](const Tensors& results) {
    Tensors all;
    for (const Tensor& t : results) all.push_back(t.squeeze(1).unflatten(0, {ensemble.n, count}));
    return all;
  };
  Expected expected;
  expected.permuted = detail::permute(ensemble, detail::rotation(ensemble.n));
  expected.exact = joined(in_double(one, each));
  expected.separate = joined(separate(one, each));
  expected.eager_max_rel = max_relative_error(expected.separate, expected.exact);
  return expected;
}

}  // namespace wide
