#include "tests/properties/harness.h"

#include <limits>

namespace wide::testing {

std::vector<Subject> subjects(const std::string& name) {
  const Target& target = find_target(name);
  std::vector<Subject> out;
  for (const Shape& shape : target.sweeps.at("ci").shapes) out.push_back({&target, shape});
  for (const Shape& shape : target.odd_shapes) out.push_back({&target, shape});
  return out;
}

Program record_one(const Network& network, const Tensors& model) {
  std::vector<Binding> bindings;
  for (size_t k = 0; k < model.size(); ++k)
    bindings.push_back({network.tensors[k].name, network.tensors[k].role, model[k], false});
  return record(bindings, network.forward);
}

Tensors separate_models(const Network& network, const Program& single, const Ensemble& ensemble) {
  std::vector<Tensors> columns;
  for (int64_t i = 0; i < ensemble.n; ++i) {
    Tensors bound;
    for (size_t k = 0; k < ensemble.tensors.size(); ++k) {
      const Tensor own = ensemble.model(i)[k];
      // Buffers change in place: those of the ensemble must not.
      bound.push_back(network.tensors[k].role == Role::buffer ? own.clone() : own);
    }
    Tensors results = network.forward(bound);
    for (const Update& update : single.updates) {
      const auto at = std::find(single.bound.begin(), single.bound.end(), update.target);
      results.push_back(bound[static_cast<size_t>(at - single.bound.begin())]);
    }
    columns.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) columns[k].push_back(results[k]);
  }
  Tensors stacked;
  for (const Tensors& column : columns) stacked.push_back(at::stack(column));
  return stacked;
}

Tensors wide_models(const Program& single, const Ensemble& ensemble,
                    const std::map<std::string, std::string>& force, Coverage* coverage) {
  std::vector<WideValue> bound;
  for (size_t k = 0; k < ensemble.tensors.size(); ++k)
    bound.push_back({ensemble.tensors[k], !ensemble.shared[k]});
  WidenOptions options;
  options.force = force;
  Tensors out;
  for (const WideValue& v : evaluate_wide(single, ensemble.n, bound, options, coverage)) {
    out.push_back(v.wide ? v.tensor : expanded(ensemble.n, v.tensor));
  }
  return out;
}

std::vector<std::string> strategy_names(const Target& target) {
  std::vector<std::string> names;
  for (const Strategy& s : target.strategies) names.push_back(s.name);
  if (names.empty()) names.push_back("");
  for (const auto& [name, unused] : target.parts) names.push_back(name);
  names.insert(names.end(), {"vmap", "per_model"});
  return names;
}

double relative_error(const Tensors& a, const Tensors& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinite;
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].sizes() != b[k].sizes()) return kInfinite;
    for (int64_t i = 0; i < a[k].size(0); ++i) {
      const auto exact = a[k].is_complex() || b[k].is_complex() ? at::kComplexDouble : at::kDouble;
      const Tensor x = a[k].select(0, i).to(exact), y = b[k].select(0, i).to(exact);
      if (x.numel() == 0) continue;
      const double error = (x - y).abs().max().item<double>();
      const double size = std::max(y.abs().max().item<double>(), 1e-12);
      if (!(error / size <= worst)) worst = std::isnan(error) ? kInfinite : error / size;
    }
  }
  return worst;
}

}  // namespace wide::testing
