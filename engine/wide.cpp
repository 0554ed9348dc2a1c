#include "engine/wide.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "engine/error.h"
#include "engine/model/module_source.h"
#include "engine/model/portable.h"
#include "engine/wide/wide_impl.h"
#include "engine/widen/strategy_names.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

constexpr double kNoise = 0.1;  // noise on sample-like inputs, relative to their spread

/// Distinct inputs for N models from one model's; integers stay, as their valid range is unknown.
Tensor like_sample(const Tensor& sample, int64_t n) {
  const Tensor wide = expanded(n, sample.detach());
  if (!at::isFloatingType(sample.scalar_type()) || sample.numel() == 0) return wide.contiguous();
  const Tensor noise = at::randn(wide.sizes(), at::detail::createCPUGenerator(7),
                                 at::TensorOptions().dtype(at::kFloat));
  const double spread = sample.numel() > 1 ? sample.to(at::kDouble).std().item<double>() : 1.0;
  return (wide + noise.to(wide.options()) * (kNoise * (spread > 0 ? spread : 1.0))).contiguous();
}

/// Whether both tensors have the same elements in the same memory.
bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.is_same(b) || (a.has_storage() && b.has_storage() && a.is_alias_of(b) &&
                          a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
                          a.strides() == b.strides() && a.scalar_type() == b.scalar_type() &&
                          a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg());
}

/// Throws Error unless `t` can replace `now`.
void check_weight(const std::string& name, const Tensor& t, const Tensor& now) {
  if (!t.defined())
    fail("[set_weights] {}: got nothing, expected {}; try a tensor of state()", name,
         describe(now).shape_text());
  if (t.sizes() != now.sizes() || t.scalar_type() != now.scalar_type())
    fail("[set_weights] {}: got {}, expected {}; try weights of this architecture", name,
         describe(t).shape_text(), describe(now).shape_text());
}

}  // namespace

// ---------------------------------------------------------------------------------- options

Options Options::default_() { return {}; }

Options Options::fast() {
  Options o;
  o.mode = std::nullopt;
  return o;
}

Options Options::debug() {
  Options o;
  o.verify = o.verbose = true;
  return o;
}

Options Options::safe() {
  Options o;
  o.validate = true;
  return o;
}

Builder& Builder::strategy(const std::string& primitive, const std::string& strategy) {
  check_strategy_names({{primitive, strategy}});
  return options_.strategies[primitive] = strategy, *this;
}

Builder& Builder::without(const std::string& pass) {
  check_pass_names({pass});
  return options_.passes_off.insert(pass), *this;
}

// ------------------------------------------------------------------------------------ model

WideModel::WideModel(WideModel&&) noexcept = default;
WideModel& WideModel::operator=(WideModel&&) noexcept = default;
WideModel::~WideModel() = default;

WideModel::WideModel(Source source, std::vector<TensorSpec> specs, Tensors weights,
                     std::vector<bool> shared, int64_t n, const Tensors& sample, Options options)
    : impl_(std::make_unique<Impl>()) {
  const at::NoGradGuard no_grad;
  check_pass_names(options.passes_off);
  check_strategy_names(options.strategies);
  impl_->source = std::move(source);
  impl_->specs = std::move(specs);
  impl_->shared = std::move(shared);
  impl_->n = n;
  impl_->options = std::move(options);
  for (const Tensor& t : weights) impl_->weights.push_back(t.detach());
  if (sample.empty()) return;
  Tensors inputs;
  for (size_t k = 0; k < sample.size(); ++k)
    inputs.push_back(impl_->shares_input(k, impl_->input_name(k)) ? sample[k]
                                                                  : like_sample(sample[k], n));
  impl_->at(inputs);
}

int64_t WideModel::n() const { return impl_->n; }

const std::vector<std::string>& WideModel::input_names() const {
  return impl_->options.input_names;
}

std::vector<std::string> WideModel::weight_names() const {
  std::vector<std::string> names;
  for (const TensorSpec& spec : impl_->specs) names.push_back(spec.name);
  return names;
}

Tensors WideModel::run(const Tensors& inputs) { return impl_->run(inputs, nullptr); }

void WideModel::Impl::take_weights(const Tensors& given) {
  if (!given.empty() && given.size() != weights.size())
    fail("[run] weights: got {}, expected {}; try one for each of weight_names()", given.size(),
         weights.size());
  for (size_t k = 0; k < given.size(); ++k) {
    check_values(given[k], [&] { return specs[k].name; });
    if (is_same_memory(given[k], weights[k])) continue;
    check_weight(specs[k].name, given[k], weights[k]);
    weights[k] = given[k].requires_grad() ? given[k].detach() : given[k];
  }
}

Tensors WideModel::run(const Tensors& inputs, const Tensors& weights,
                       std::vector<std::pair<size_t, Tensor>>* changed) {
  impl_->take_weights(weights);
  return impl_->run(inputs, changed);
}

Differentiable WideModel::run_for_gradients(const Tensors& inputs, const Tensors& weights,
                                            const std::vector<bool>& of,
                                            const std::vector<bool>& outputs, bool at_once) {
  impl_->take_weights(weights);
  return impl_->run_for_gradients(inputs, of, outputs, at_once);
}

std::shared_ptr<GradientModel> WideModel::gradients(const Tensors& inputs,
                                                    const std::vector<bool>& of,
                                                    const std::vector<bool>& outputs) {
  return impl_->gradients(inputs, of, outputs);
}

bool WideModel::reads(size_t weight) const { return impl_->reads(impl_->compiled.front(), weight); }

void WideModel::prepare(const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  impl_->at(inputs);
}

std::map<std::string, Tensor> WideModel::state() const {
  std::map<std::string, Tensor> all;
  for (size_t k = 0; k < impl_->specs.size(); ++k)
    all[impl_->specs[k].name] = impl_->weights[k].clone();
  return all;
}

std::map<std::string, Tensor> WideModel::state(int64_t i) const {
  if (i < 0 || i >= impl_->n)
    fail("[state] model: got {}, expected 0 to {}; try 0", i, impl_->n - 1);
  std::map<std::string, Tensor> own;
  for (size_t k = 0; k < impl_->specs.size(); ++k) {
    const Tensor& t = impl_->weights[k];
    own[impl_->specs[k].name] = (impl_->shared[k] ? t : t.select(0, i)).clone();
  }
  return own;
}

void WideModel::set_weights(const std::map<std::string, Tensor>& weights) {
  std::map<size_t, Tensor> checked;
  for (const auto& [name, t] : weights) {
    const size_t k = impl_->weight_at(name);
    check_weight(name, t, impl_->weights[k]);
    checked[k] = t.detach().to(impl_->weights[k].device(), t.scalar_type()).clone();
  }
  for (auto& [k, t] : checked) impl_->weights[k] = std::move(t);
  ++impl_->version;
}

void WideModel::set_weights(int64_t i, const std::map<std::string, Tensor>& weights) {
  if (i < 0 || i >= impl_->n)
    fail("[set_weights] model: got {}, expected 0 to {}; try 0", i, impl_->n - 1);
  std::map<size_t, Tensor> checked;
  for (const auto& [name, t] : weights) {
    const size_t k = impl_->weight_at(name);
    if (impl_->shared[k])
      fail(
          "[set_weights] {}: got one model's, expected one for all as models share it; try "
          "set_weights with all models' weights",
          name);
    check_weight(name, t, impl_->weights[k].select(0, i));
    checked[k] = t.detach();
  }
  for (const auto& [k, t] : checked) {
    Tensor all = impl_->weights[k].clone();
    all.select(0, i).copy_(t);
    impl_->weights[k] = all;
  }
  ++impl_->version;
}

const Coverage& WideModel::coverage() const { return impl_->last().model->coverage(); }
const Program& WideModel::program() const { return impl_->last().model->program(); }
const std::vector<PassRecord>& WideModel::passes() const { return impl_->last().model->passes(); }
std::string WideModel::plan() const {
  const Signature& s = impl_->last();
  std::string text = s.model->plan_text();
  for (const auto& [of, gradients] : s.gradients) text += gradients->plan_text();
  return text;
}
int64_t WideModel::bytes() const { return impl_->last().model->bytes(); }
size_t WideModel::signatures() const { return impl_->compiled.size(); }

WideModel::Kept WideModel::kept() const {
  Kept kept;
  kept.compiled = impl_->programs_compiled;
  for (const Signature& s : impl_->compiled) {
    kept.programs += (s.model ? 1 : 0) + static_cast<int64_t>(s.gradients.size());
    if (s.model) kept.bytes += s.model->bytes();
    for (const auto& [of, gradients] : s.gradients) kept.bytes += gradients->bytes();
  }
  return kept;
}

std::vector<StepCost> WideModel::explain() const {
  const at::NoGradGuard no_grad;
  const Signature& s = impl_->last();
  return s.model->explain(impl_->arguments(s, s.inputs));
}

Correctness WideModel::validate(double rtol) {
  const at::NoGradGuard no_grad;
  impl_->last();
  return impl_->check_against_double(impl_->bring_up_to_date(impl_->compiled.front()), rtol);
}

WideModel::Parts WideModel::parts() const {
  const Signature& s = impl_->last();
  const Ensemble ensemble = impl_->ensemble(s.network, s.inputs);
  return {s.network, s.single, ensemble, impl_->compile_options(ensemble.device())};
}

void WideModel::export_to(const std::string& path) const {
  const at::NoGradGuard no_grad;
  const ExportFormat& format = export_format(path);
  const Signature& s = impl_->last();
  WidenOptions options;
  options.force = impl_->options.strategies;
  const Ensemble models = impl_->ensemble(s.network, s.inputs);
  format.write(make_portable(s.network, s.single, models, options), path);
}

WideModel::Source source_of(const Module& module, std::vector<TensorSpec>* specs) {
  *specs = specs_of(module);
  return network_source(module, *specs);
}

namespace {

WideModel made_of(const std::vector<Module>& models, const PackedModules& packed,
                  const Tensors& sample, const Options& options) {
  return WideModel(network_source(models.front(), packed.specs), packed.specs, packed.weights,
                   packed.shared, static_cast<int64_t>(models.size()), sample, options);
}

}  // namespace

WideModel compile(const std::vector<Module>& models, const Tensors& sample,
                  const Options& options) {
  const PackedModules packed = pack_modules(models, options.share_weights);
  WideModel wide = made_of(models, packed, sample, options);
  if (models.size() > 1 && !sample.empty()) {
    const at::NoGradGuard no_grad;
    wide.impl_->expect_alike(network_source(models.back(), packed.specs));
  }
  return wide;
}

WideModel compile(const Module& model, int64_t n, const Tensors& sample, const Options& options) {
  if (n < 1) fail("[compile] models: got {}, expected at least 1; try n = 1", n);
  const std::vector<Module> models(static_cast<size_t>(n), model);
  return made_of(models, pack_modules(models, options.share_weights), sample, options);
}

WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                       const PrimitiveOptions& options) {
  const Target& target = find_target(primitive);
  if (target.kind != Kind::primitive)
    fail("[{}] primitive: got a {}, expected a primitive; try wide::compile", primitive,
         to_string(target.kind));
  Options own = options.options;
  if (!options.strategy.empty()) own.strategies[primitive] = options.strategy;
  own.strict = own.strict || !options.strategy.empty();
  WideModel model = compile(modules, {}, own);
  model.impl_->primitive = primitive;
  return model;
}

}  // namespace wide
