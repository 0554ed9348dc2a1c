#include "tests/properties/harness.h"

#include <limits>

namespace wide::testing {

std::vector<Subject> subjects(const std::string& name) {
  static const std::map<std::string, std::vector<Shape>> odd{
      {"linear",
       {{{"B", 1}, {"D", 1}}, {{"B", 3}, {"D", 7}, {"O", 5}}, {{"B", 2}, {"T", 3}, {"D", 5}}}},
      {"conv1d",
       {{{"B", 1}, {"C", 1}, {"k", 1}, {"L", 1}},
        {{"B", 3}, {"C", 4}, {"k", 3}, {"L", 11}, {"O", 6}, {"groups", 2}, {"stride", 2}},
        {{"B", 2}, {"C", 3}, {"k", 3}, {"L", 13}, {"dilation", 2}, {"padding", 0}},
        {{"B", 2}, {"C", 3}, {"k", 4}, {"L", 9}, {"groups", 3}},
        {{"B", 2}, {"C", 2}, {"k", 4}, {"L", 7}, {"O", 3}, {"same", 1}, {"biases", 0}},
        {{"B", 1}, {"C", 3}, {"k", 5}, {"L", 19}, {"stride", 3}, {"padding_mode", 1}},
        {{"B", 2}, {"C", 2}, {"k", 3}, {"L", 5}, {"padding_mode", 2}, {"dilation", 3}},
        {{"B", 2}, {"C", 2}, {"k", 3}, {"L", 5}, {"padding_mode", 3}, {"groups", 2}}}},
      {"conv2d",
       {{{"B", 1}, {"C", 1}, {"k", 1}, {"H", 1}, {"W", 1}},
        {{"B", 2}, {"C", 4}, {"k", 3}, {"H", 7}, {"W", 9}, {"O", 6}, {"groups", 2}, {"stride", 2}},
        {{"B", 2}, {"C", 3}, {"k", 3}, {"H", 8}, {"W", 5}, {"dilation", 2}, {"padding", 1}},
        {{"B", 2}, {"C", 5}, {"k", 3}, {"H", 6}, {"W", 5}, {"groups", 5}},
        {{"B", 1}, {"C", 2}, {"k", 2}, {"H", 5}, {"W", 3}, {"same", 1}, {"biases", 0}},
        {{"B", 1}, {"C", 2}, {"k", 5}, {"H", 7}, {"W", 3}, {"padding_mode", 1}},
        {{"B", 1}, {"C", 3}, {"k", 3}, {"H", 2}, {"W", 17}, {"padding_mode", 2}, {"biases", 0}},
        {{"B", 2}, {"C", 2}, {"k", 3}, {"H", 5}, {"W", 4}, {"padding_mode", 3}, {"stride", 2}}}},
      {"conv3d",
       {{{"B", 1}, {"C", 1}, {"k", 1}, {"D", 1}, {"H", 1}, {"W", 1}},
        {{"B", 2},
         {"C", 4},
         {"k", 3},
         {"D", 3},
         {"H", 5},
         {"W", 4},
         {"O", 6},
         {"groups", 2},
         {"stride", 2}},
        {{"B", 1},
         {"C", 2},
         {"k", 2},
         {"D", 3},
         {"H", 4},
         {"W", 5},
         {"dilation", 2},
         {"biases", 0}},
        {{"B", 1}, {"C", 2}, {"k", 2}, {"D", 2}, {"H", 3}, {"W", 2}, {"same", 1}},
        {{"B", 1}, {"C", 2}, {"k", 3}, {"D", 2}, {"H", 3}, {"W", 4}, {"padding_mode", 1}},
        {{"B", 1}, {"C", 2}, {"k", 3}, {"D", 1}, {"H", 3}, {"W", 2}, {"padding_mode", 2}},
        {{"B", 1}, {"C", 2}, {"k", 3}, {"D", 1}, {"H", 3}, {"W", 2}, {"padding_mode", 3}}}},
      {"convtranspose1d",
       {{{"B", 1}, {"C", 1}, {"k", 1}, {"L", 1}},
        {{"B", 2},
         {"C", 4},
         {"k", 3},
         {"L", 7},
         {"O", 6},
         {"groups", 2},
         {"stride", 3},
         {"output_padding", 2}},
        {{"B", 3}, {"C", 3}, {"k", 4}, {"L", 5}, {"dilation", 2}, {"padding", 0}, {"biases", 0}},
        {{"B", 1},
         {"C", 2},
         {"k", 2},
         {"L", 3},
         {"stride", 5},
         {"padding", 0},
         {"output_padding", 3}}}},
      {"convtranspose2d",
       {{{"B", 1}, {"C", 1}, {"k", 1}, {"H", 1}, {"W", 1}},
        {{"B", 2},
         {"C", 4},
         {"k", 3},
         {"H", 3},
         {"W", 5},
         {"O", 6},
         {"groups", 2},
         {"stride", 2},
         {"output_padding", 1}},
        {{"B", 1},
         {"C", 2},
         {"k", 3},
         {"H", 4},
         {"W", 3},
         {"O", 5},
         {"dilation", 2},
         {"biases", 0}},
        {{"B", 1}, {"C", 3}, {"k", 2}, {"H", 2}, {"W", 9}, {"stride", 3}, {"padding", 0}}}},
      {"batchnorm2d",
       {{{"B", 1}, {"C", 3}, {"H", 1}, {"W", 1}},
        {{"B", 3}, {"C", 5}, {"H", 3}, {"W", 2}, {"train", 1}}}},
      {"batchnorm1d",
       {{{"B", 3}, {"C", 5}},
        {{"B", 3}, {"C", 17}, {"train", 1}},
        {{"B", 2}, {"C", 3}, {"L", 7}, {"train", 1}, {"affine", 0}},
        {{"B", 2}, {"C", 3}, {"L", 5}, {"track", 0}},
        {{"B", 5}, {"C", 3}, {"L", 2}, {"train", 1}, {"batches", 3}}}},
      {"batchnorm3d",
       {{{"B", 1}, {"C", 3}, {"D", 1}, {"H", 1}, {"W", 1}},
        {{"B", 2}, {"C", 5}, {"D", 2}, {"H", 3}, {"W", 1}, {"train", 1}}}},
      {"instancenorm2d",
       {{{"B", 3}, {"C", 5}, {"H", 3}, {"W", 2}, {"affine", 0}},
        {{"B", 2}, {"C", 3}, {"H", 5}, {"W", 7}, {"track", 1}},
        {{"B", 1}, {"C", 2}, {"H", 2}, {"W", 1}, {"affine", 0}, {"track", 1}}}},
      {"rmsnorm",
       {{{"B", 3}, {"T", 1}, {"D", 7}},
        {{"B", 1}, {"T", 5}, {"D", 37}, {"byhand", 1}},
        {{"B", 2}, {"T", 3}, {"D", 5}, {"affine", 0}},
        {{"B", 2}, {"T", 3}, {"D", 5}, {"affine", 0}, {"byhand", 1}}}},
      {"ada_layer_norm_zero_single",
       {{{"B", 3}, {"D", 7}, {"E", 5}},
        {{"B", 1}, {"T", 1}, {"D", 3}, {"E", 2}},
        {{"B", 2}, {"T", 5}, {"D", 37}, {"E", 3}}}},
      {"layernorm", {{{"B", 3}, {"T", 1}, {"D", 7}}, {{"B", 1}, {"T", 5}, {"D", 67}}}},
      {"groupnorm", {{{"B", 3}, {"C", 6}, {"H", 5}, {"W", 1}, {"groups", 3}}}},
      {"prelu",
       {{{"B", 1}, {"C", 1}, {"H", 1}, {"W", 1}},
        {{"B", 3}, {"C", 5}, {"H", 3}, {"W", 7}},
        {{"B", 2}, {"C", 3}, {"H", 5}, {"W", 2}, {"slopes", 1}},
        {{"B", 2}, {"C", 21}, {"H", 1}, {"W", 1}}}},
      {"adaptiveavgpool2d",
       {{{"B", 1}, {"C", 1}, {"H", 1}, {"W", 1}},
        {{"B", 2}, {"C", 3}, {"H", 7}, {"W", 5}, {"oh", 3}, {"ow", 2}},
        {{"B", 2}, {"C", 1}, {"H", 3}, {"W", 4}, {"oh", 5}, {"ow", 4}},
        {{"B", 1}, {"C", 2}, {"H", 6}, {"W", 11}, {"oh", 6}, {"ow", 1}}}},
      {"mlp_embedder", {{{"B", 1}, {"D", 1}}, {{"B", 3}, {"D", 5}, {"H", 7}, {"O", 2}}}},
      {"multiheadcrossattention",
       {{{"B", 3}, {"Tq", 1}, {"Tkv", 5}, {"D", 6}, {"h", 3}},
        {{"B", 1}, {"Tq", 7}, {"Tkv", 2}, {"D", 3}, {"h", 1}}}},
      {"attention_block",
       {{{"B", 3}, {"T", 5}, {"D", 6}, {"h", 3}},
        {{"B", 1}, {"T", 1}, {"D", 5}, {"h", 5}, {"rope", 0}}}},
      {"joint_attention",
       {{{"B", 2}, {"Tt", 1}, {"Ti", 5}, {"D", 12}, {"h", 3}},
        {{"B", 1}, {"Tt", 3}, {"Ti", 2}, {"D", 3}, {"h", 3}, {"rope", 0}}}},
      {"double_stream_block",
       {{{"B", 1}, {"Tt", 2}, {"Ti", 3}, {"D", 6}, {"h", 1}, {"E", 5}, {"rope", 0}}}},
      {"single_stream_block", {{{"B", 3}, {"T", 5}, {"D", 4}, {"h", 1}, {"E", 1}, {"rope", 0}}}},
      {"embedding", {{{"B", 3}, {"T", 1}, {"V", 5}, {"D", 3}, {"padding_idx", 2}}}},
      {"attention",
       {{{"B", 3}, {"T", 5}, {"D", 6}, {"h", 3}},
        {{"B", 1}, {"T", 7}, {"D", 4}, {"h", 1}, {"causal", 1}}}},
  };
  static const std::vector<Shape> recurrent{
      {{"B", 1}, {"T", 1}, {"I", 1}, {"H", 1}},
      {{"B", 3}, {"T", 5}, {"I", 2}, {"H", 3}, {"layers", 2}, {"bidirectional", 1}},
      {{"B", 2}, {"T", 3}, {"I", 4}, {"H", 3}, {"layers", 3}, {"batch_first", 0}, {"biases", 0}}};
  const Target& target = find_target(name);
  std::vector<Subject> out;
  for (const Shape& shape : target.sweeps.at("ci").shapes) out.push_back({&target, shape});
  if (const auto it = odd.find(name); it != odd.end())
    for (const Shape& shape : it->second) out.push_back({&target, shape});
  if (target.family == "recurrent")
    for (const Shape& shape : recurrent) out.push_back({&target, shape});
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
