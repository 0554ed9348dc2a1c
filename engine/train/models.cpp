#include "engine/train/models.h"

#include <ATen/ATen.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/error.h"
#include "engine/machine/large_pages.h"
#include "engine/train/optimizer/gradient_norm.h"

namespace wide {
namespace {

constexpr int64_t kAlign = 64;
constexpr double kFar = 1e6;  // larger steps and norms are checked for overflow

std::string shape_text(const Tensor& t) { return describe(t).shape_text(); }

char* row(const Tensor& rows, int64_t slot) {
  return static_cast<char*>(rows.data_ptr()) +
         slot * rows.stride(0) * static_cast<int64_t>(rows.element_size());
}

size_t row_bytes(const Tensor& rows) {
  return static_cast<size_t>(rows.numel() / std::max<int64_t>(rows.size(0), 1)) *
         rows.element_size();
}

/// Whether all numbers of `made`, a step's new values for one model's row of `rows`, are finite.
bool all_finite(const Tensor& rows, const void* made) {
  const int64_t count = rows.numel() / std::max<int64_t>(rows.size(0), 1);
  if (rows.scalar_type() == at::kFloat)
    return std::isfinite(sum_of_squares(static_cast<const float*>(made), count));
  if (rows.scalar_type() == at::kDouble)
    return std::isfinite(sum_of_squares(static_cast<const double*>(made), count));
  return true;
}

/// The names of all hyperparameters, for messages.
std::vector<std::string> names_of(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const Hyperparameter& h : optimizer.hyperparameters) names.push_back(h.name);
  for (const Hyperparameter& h : trainer_hyperparameters()) names.push_back(h.name);
  return names;
}

/// Names of a parameter's tensors in a state.
std::string moment_name(const Optimizer& optimizer, const std::string& parameter, size_t moment) {
  return fmt::format("state.{}.{}", parameter, optimizer.state[moment].name);
}
std::string average_name(const std::string& parameter) { return "ema." + parameter; }

const Hyperparameter* find(const Optimizer& optimizer, const std::string& name) {
  for (const auto* all : {&optimizer.hyperparameters, &trainer_hyperparameters()})
    for (const Hyperparameter& h : *all)
      if (h.name == name) return &h;
  return nullptr;
}

}  // namespace

TrainedModels::TrainedModels(const std::vector<TensorSpec>& specs,
                             std::map<std::string, StartTensor> start,
                             const TrainerOptions& options)
    : n_(options.n),
      aligned_(options.exact),
      specs_(specs),
      optimizer_(&optimizer(options.optimizer)),
      seeds_(options.seeds) {
  if (n_ < 1) fail("[train] models: got {}, expected at least one; try n = 1", n_);
  if (seeds_.empty()) {
    seeds_.resize(static_cast<size_t>(n_));
    std::iota(seeds_.begin(), seeds_.end(), 0);
  }
  if (static_cast<int64_t>(seeds_.size()) != n_)
    fail("[train] seeds: got {}, expected {}; try one for each model", seeds_.size(), n_);
  std::set<std::string> frozen = options.frozen, no_decay = options.no_decay;
  bool typed = false;
  for (const TensorSpec& spec : specs_) {
    const auto at = start.find(spec.name);
    if (at == start.end())
      fail("[train] weights: got none for {}, expected all of the network's; try its checkpoint",
           spec.name);
    const auto& [given, shared] = at->second;
    const Sizes expected = shared ? spec.sizes : wide_sizes(n_, spec.sizes);
    if (given.sizes() != c10::IntArrayRef(expected))
      fail("[train] weights {}: got {}, expected [{}]; try one for each model", spec.name,
           shape_text(given), fmt::join(expected, ", "));
    const bool is_frozen = frozen.erase(spec.name) > 0;
    const bool real = at::isFloatingType(given.scalar_type());
    const bool trains = spec.role == Role::parameter && real && !is_frozen;
    if (trains && shared)
      fail("[train] weights {}: got one for all models, expected one for each; try to freeze it",
           spec.name);
    if (trains && given.scalar_type() != at::kFloat && given.scalar_type() != at::kDouble)
      fail("[train] weights {}: got {}, expected float32 or float64; try to convert them",
           spec.name, shape_text(given));
    if (real && (trains || !typed)) {
      if (typed && trains && !trained_.empty() && given.scalar_type() != dtype_)
        fail("[train] weights {}: got {}, expected the type of the others; try to convert them",
             spec.name, shape_text(given));
      dtype_ = given.scalar_type();
      typed = true;
    }
    Kept kept;
    kept.shared = shared;
    if (shared) {
      kept.tensor = given.clone(at::MemoryFormat::Contiguous);
    } else {
      kept.tensor = rows_like(given);
      kept.tensor.copy_(given);
    }
    kept.decays = no_decay.erase(spec.name) == 0;
    if (trains) trained_.push_back(kept_.size());
    kept_.push_back(std::move(kept));
    start.erase(at);
  }
  const auto refuse = [](const char* what, const std::string& name) {
    fail("[train] {}: got {}, expected a tensor of the network; try its state_dict's names", what,
         name);
  };
  if (!start.empty()) refuse("weights", start.begin()->first);
  if (!frozen.empty()) refuse("frozen", *frozen.begin());
  if (!no_decay.empty()) refuse("no_decay", *no_decay.begin());
  if (trained_.empty())
    fail("[train] parameters: got none to train, expected one at least; try to freeze less");
  for (const auto* all : {&optimizer_->hyperparameters, &trainer_hyperparameters()})
    for (const Hyperparameter& h : *all) hyper_[h.name].assign(static_cast<size_t>(n_), h.value);
  for (const Hyperparameter& h : optimizer_->hyperparameters) in_order_.push_back(&hyper_[h.name]);
  clip_ = &hyper_["clip"];
  ema_ = &hyper_["ema"];
  for (const auto& [name, values] : options.hyperparameters) {
    checked(name);
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != n_)
      fail("[train] {}: got {} values, expected {} or one for all; try one for each model", name,
           values.size(), n_);
    for (const double value : values) check_value(name, value);
    auto& all = hyper_[name];
    for (size_t i = 0; i < all.size(); ++i) all[i] = values[values.size() == 1 ? 0 : i];
  }
  for (int64_t i = 0; i < n_; ++i) check_conflicts(i);
  steps_.assign(static_cast<size_t>(n_), 0);
  std::vector<int64_t> everyone(static_cast<size_t>(n_));
  std::iota(everyone.begin(), everyone.end(), 0);
  model_at_ = everyone;
  set_running(everyone);
  keep_moments();
}

/// Zeros for every slot; in `exact` mode each row begins at a multiple of 64 bytes.
Tensor TrainedModels::rows_like(const Tensor& rows) const {
  const auto options = rows.options().requires_grad(false);
  if (!aligned_) return empty_to_keep(rows.sizes(), options).zero_();
  const int64_t count = rows.numel() / n_;
  const int64_t each = kAlign / static_cast<int64_t>(rows.element_size());
  const int64_t padded = std::max<int64_t>((count + each - 1) / each * each, each);
  c10::DimVector strides = c10::contiguous_strides(rows.sizes());
  strides[0] = padded;
  return empty_to_keep({n_ * padded}, options).zero_().as_strided(rows.sizes(), strides);
}

/// Adds missing moments and averages that some model's hyperparameters need, or that the state
/// `held` has: they stay after their hyperparameter is set back to 0.
void TrainedModels::keep_moments(const std::map<std::string, Tensor>& held) {
  for (const size_t k : trained_) {
    Kept& kept = kept_[k];
    const std::string& name = specs_[k].name;
    kept.moments.resize(optimizer_->state.size());
    for (size_t m = 0; m < kept.moments.size(); ++m) {
      const std::string& with = optimizer_->state[m].only_with;
      if (!kept.moments[m].defined() &&
          (with.empty() || any(with) || held.contains(moment_name(*optimizer_, name, m))))
        kept.moments[m] = rows_like(kept.tensor);
    }
    if (!kept.average.defined() && (any("ema") || held.contains(average_name(name)))) {
      kept.average = rows_like(kept.tensor);
      kept.average.copy_(kept.tensor);
    }
  }
}

const std::string& TrainedModels::checked(const std::string& name) const {
  if (find(*optimizer_, name)) return name;
  const std::vector<std::string> names = names_of(*optimizer_);
  fail("[train] hyperparameter: got {}, expected one of {}; try {}", name, fmt::join(names, ", "),
       nearest(name, names, "lr"));
}

void TrainedModels::check_value(const std::string& name, double value) const {
  const Hyperparameter& h = *find(*optimizer_, name);
  if (value >= h.low && value <= h.high) return;
  fail("[train] {}: got {}, expected {} to {}; try {}", name, value, h.low, h.high, h.value);
}

void TrainedModels::check_conflicts(int64_t model) const {
  if (!optimizer_->conflict) return;
  std::vector<double> values;
  for (const Hyperparameter& h : optimizer_->hyperparameters)
    values.push_back(hyper(h.name, model));
  if (const std::string why = optimizer_->conflict(values.data()); !why.empty())
    fail("[train] {} of model {}: got {}, expected compatible values; try nesterov 0",
         optimizer_->name, model, why);
}

void TrainedModels::check_model(int64_t model) const {
  if (model < 0 || model >= n_)
    fail("[train] model: got {}, expected 0 to {}; try one of running()", model, n_ - 1);
}

double TrainedModels::hyper(const std::string& name, int64_t model) const {
  check_model(model);
  return hyper_.at(checked(name))[static_cast<size_t>(model)];
}

void TrainedModels::set_hyper(const std::string& name, int64_t model, double value) {
  checked(name);
  check_model(model);
  check_value(name, value);
  double& now = hyper_[name][static_cast<size_t>(model)];
  const double before = now;
  now = value;
  try {
    check_conflicts(model);
  } catch (const Error&) {
    now = before;
    throw;
  }
  keep_moments();
}

bool TrainedModels::any(const std::string& name) const {
  const auto& values = hyper_.at(name);
  return std::ranges::any_of(values, [](double v) { return v != 0; });
}

Tensor TrainedModels::tensor(size_t k, bool averaged) const {
  return averaged && kept_[k].average.defined() ? kept_[k].average : kept_[k].tensor;
}

bool TrainedModels::write(int64_t slot, const Made& made, double factor) {
  return dtype_ == at::kDouble ? write_as<double>(slot, made, factor)
                               : write_as<float>(slot, made, factor);
}

template <class T>
bool TrainedModels::write_as(int64_t slot, const Made& made, double factor) {
  const int64_t model = model_at(slot);
  std::vector<int64_t> counts;
  double square = 0;
  for (size_t j = 0; j < trained_.size(); ++j) {
    counts.push_back(kept_[trained_[j]].tensor.numel() / n_);
    if (!made.gradients[j]) continue;
    square += sum_of_squares(static_cast<const T*>(made.gradients[j]), counts[j]);
  }
  if (!std::isfinite(square)) return false;
  for (const auto& [k, from] : made.buffers)
    if (!all_finite(kept_[k].tensor, from)) return false;
  const auto own = [&](const std::vector<double>* values) {
    return (*values)[static_cast<size_t>(model)];
  };
  const double clip = own(clip_), norm = std::sqrt(square), ema = own(ema_);
  std::vector<double> hyper;
  for (const auto* values : in_order_) hyper.push_back(own(values));
  hyper[0] *= factor;
  const auto decay_at = static_cast<size_t>(optimizer_->index("weight_decay"));
  const double decay = hyper[decay_at];
  ParameterStep<T> step;
  step.gradient_scale = clip > 0 ? T(std::min(1.0, clip / (norm + 1e-6))) : T(1);
  step.step = steps_[static_cast<size_t>(model)] + 1;
  step.hyper = hyper.data();
  // A step this long may overflow: the old values are kept, so that it can be undone.
  const bool far = hyper[0] * std::max(1.0, norm) * (1 + decay) > kFar || norm > kFar;
  std::vector<std::pair<char*, std::vector<char>>> before;
  const auto remember = [&](const Tensor& rows) {
    if (!far || !rows.defined()) return;
    char* at = row(rows, slot);
    before.emplace_back(at, std::vector<char>(at, at + row_bytes(rows)));
  };
  for (size_t j = 0; j < trained_.size(); ++j) {
    if (!made.gradients[j]) continue;
    const Kept& kept = kept_[trained_[j]];
    remember(kept.tensor);
    remember(kept.average);
    for (const Tensor& m : kept.moments) remember(m);
    hyper[decay_at] = kept.decays ? decay : 0;
    std::vector<T*> state;
    for (const Tensor& m : kept.moments)
      state.push_back(m.defined() ? reinterpret_cast<T*>(row(m, slot)) : nullptr);
    step.count = counts[j];
    step.parameter = reinterpret_cast<T*>(row(kept.tensor, slot));
    step.gradient = static_cast<const T*>(made.gradients[j]);
    step.state = state.data();
    optimizer_->step(step);
    if (!kept.average.defined()) continue;
    T* average = reinterpret_cast<T*>(row(kept.average, slot));
    const T old = T(ema), added = T(1 - ema);
    for (int64_t i = 0; i < step.count; ++i)
      average[i] = ema == 0 ? step.parameter[i] : old * average[i] + added * step.parameter[i];
  }
  const bool lost = std::ranges::any_of(before, [](const auto& one) {
    return !std::isfinite(sum_of_squares(reinterpret_cast<const T*>(one.first),
                                         static_cast<int64_t>(one.second.size() / sizeof(T))));
  });
  if (lost) {
    for (const auto& [at, bytes] : before) std::memcpy(at, bytes.data(), bytes.size());
    return false;
  }
  const int64_t with = optimizer_->counted_with();
  if (with < 0 || hyper[static_cast<size_t>(with)] != 0) ++steps_[static_cast<size_t>(model)];
  for (const auto& [k, from] : made.buffers)
    std::memcpy(row(kept_[k].tensor, slot), from, row_bytes(kept_[k].tensor));
  return true;
}

void TrainedModels::rehearse(int64_t slot, const Made& made) const {
  if (dtype_ == at::kDouble)
    rehearse_as<double>(slot, made);
  else
    rehearse_as<float>(slot, made);
}

template <class T>
void TrainedModels::rehearse_as(int64_t slot, const Made& made) const {
  std::vector<double> hyper;
  for (const auto* values : in_order_)
    hyper.push_back((*values)[static_cast<size_t>(model_at(slot))]);
  double square = 0;
  for (size_t j = 0; j < trained_.size(); ++j)
    if (made.gradients[j])
      square += sum_of_squares(static_cast<const T*>(made.gradients[j]),
                               kept_[trained_[j]].tensor.numel() / n_);
  ParameterStep<T> step;
  step.gradient_scale = T(std::isfinite(square));
  step.hyper = hyper.data();
  for (size_t j = 0; j < trained_.size(); ++j) {
    if (!made.gradients[j]) continue;
    const Kept& kept = kept_[trained_[j]];
    step.count = kept.tensor.numel() / n_;
    const auto copied = [&](const Tensor& rows) {
      const T* at = reinterpret_cast<const T*>(row(rows, slot));
      return std::vector<T>(at, at + step.count);
    };
    std::vector<T> parameter = copied(kept.tensor);
    std::vector<std::vector<T>> copies;
    std::vector<T*> state;
    for (const Tensor& m : kept.moments)
      copies.push_back(m.defined() ? copied(m) : std::vector<T>());
    for (size_t m = 0; m < copies.size(); ++m)
      state.push_back(kept.moments[m].defined() ? copies[m].data() : nullptr);
    step.parameter = parameter.data();
    step.gradient = static_cast<const T*>(made.gradients[j]);
    step.state = state.data();
    optimizer_->step(step);
  }
}

template <class Self, class Visit>
void TrainedModels::for_each_tensor(Self& self, Visit visit) {
  for (size_t k = 0; k < self.kept_.size(); ++k) {
    const std::string& name = self.specs_[k].name;
    auto& kept = self.kept_[k];
    visit("weight." + name, kept.tensor, kept.shared);
    for (size_t m = 0; m < kept.moments.size(); ++m)
      if (kept.moments[m].defined())
        visit(moment_name(*self.optimizer_, name, m), kept.moments[m], false);
    if (kept.average.defined()) visit(average_name(name), kept.average, false);
  }
}

void TrainedModels::set_running(std::vector<int64_t> running) {
  running_ = std::move(running);
  ++version_;
}

void TrainedModels::stop(int64_t model) {
  check_model(model);
  const auto at = std::ranges::find(running_, model);
  if (at == running_.end()) return;
  const auto from = static_cast<int64_t>(at - running_.begin());
  const auto last = static_cast<int64_t>(running_.size()) - 1;
  for_each_tensor(*this, [&](const std::string&, const Tensor& rows, bool shared) {
    if (shared) return;
    const size_t bytes = row_bytes(rows);
    std::vector<char> held(row(rows, from), row(rows, from) + bytes);
    for (int64_t s = from; s < last; ++s) std::memcpy(row(rows, s), row(rows, s + 1), bytes);
    std::memcpy(row(rows, last), held.data(), bytes);
  });
  std::rotate(model_at_.begin() + from, model_at_.begin() + from + 1, model_at_.begin() + last + 1);
  std::vector<int64_t> left = running_;
  left.erase(left.begin() + from);
  set_running(std::move(left));
}

void TrainedModels::copy(int64_t from, int64_t to) {
  for (const int64_t model : {from, to}) check_model(model);
  if (from == to) return;
  const std::vector<int64_t> slots = slots_by_model();
  for_each_tensor(*this, [&](const std::string&, const Tensor& rows, bool shared) {
    if (shared) return;
    std::memcpy(row(rows, slots[static_cast<size_t>(to)]),
                row(rows, slots[static_cast<size_t>(from)]), row_bytes(rows));
  });
  steps_[static_cast<size_t>(to)] = steps_[static_cast<size_t>(from)];
  ++version_;
}

std::vector<int64_t> TrainedModels::slots_by_model() const {
  std::vector<int64_t> slots(model_at_.size());
  for (size_t s = 0; s < model_at_.size(); ++s)
    slots[static_cast<size_t>(model_at_[s])] = static_cast<int64_t>(s);
  return slots;
}

Tensor TrainedModels::by_model(const Tensor& rows) const {
  const Tensor made = at::empty(rows.sizes(), rows.options());
  for (int64_t s = 0; s < n_; ++s)
    std::memcpy(row(made, model_at(s)), row(rows, s), row_bytes(rows));
  return made;
}

std::map<std::string, Tensor> TrainedModels::weights(bool averaged) const {
  std::map<std::string, Tensor> all;
  for (size_t k = 0; k < kept_.size(); ++k)
    all[specs_[k].name] = kept_[k].shared ? kept_[k].tensor.clone() : by_model(tensor(k, averaged));
  return all;
}

bool TrainedModels::is_shared(const std::string& name) const {
  for (size_t k = 0; k < specs_.size(); ++k)
    if (specs_[k].name == name) return kept_[k].shared;
  fail("[train] tensor: got {}, expected a parameter or buffer of the network; try weights()",
       name);
}

Tensor TrainedModels::weight_from(const std::map<std::string, Tensor>& weights, size_t k) const {
  const std::string& name = specs_[k].name;
  const auto at = weights.find(name);
  if (at == weights.end())
    fail("[train] weights: got no {}, expected all parameters and buffers; try those of weights()",
         name);
  const Tensor& own = kept_[k].tensor;
  if (at->second.sizes() != own.sizes() || at->second.scalar_type() != own.scalar_type())
    fail("[train] weights of {}: got {}, expected {}; try those of weights()", name,
         shape_text(at->second), shape_text(own));
  return at->second.contiguous();
}

void TrainedModels::set_weights(const std::map<std::string, Tensor>& weights) {
  Tensors all;
  for (size_t k = 0; k < specs_.size(); ++k) all.push_back(weight_from(weights, k));
  for (const auto& [name, tensor] : weights) is_shared(name);  // refuses unknown names
  run_all_in_order();
  for (size_t k = 0; k < specs_.size(); ++k) {
    kept_[k].tensor.copy_(all[k]);
    if (kept_[k].average.defined()) kept_[k].average.copy_(all[k]);
  }
}

/// Moves every model into the slot of its number, so that all run.
void TrainedModels::run_all_in_order() {
  for_each_tensor(*this, [&](const std::string&, const Tensor& rows, bool shared) {
    if (!shared) rows.copy_(by_model(rows));
  });
  std::iota(model_at_.begin(), model_at_.end(), 0);
  set_running(model_at_);
}

void TrainedModels::save(std::map<std::string, Tensor>& into) const {
  for_each_tensor(*this, [&](const std::string& name, const Tensor& tensor, bool shared) {
    into[name] = shared ? tensor.clone() : by_model(tensor);
  });
  for (const auto& [name, values] : hyper_)
    into["hyper." + name] = at::tensor(values, at::TensorOptions().dtype(at::kDouble));
  into["steps"] = at::tensor(steps_, at::TensorOptions().dtype(at::kLong));
  const std::vector<int64_t> seeds(seeds_.begin(), seeds_.end());
  into["seeds"] = at::tensor(seeds, at::TensorOptions().dtype(at::kLong));
  const Tensor running = at::zeros({n_}, at::kBool);
  for (const int64_t model : running_) running[model].fill_(true);
  into["running"] = running;
}

void TrainedModels::load(const std::map<std::string, Tensor>& from) {
  std::map<std::string, Tensor> left = from;
  const auto take = [&](const std::string& name, c10::IntArrayRef sizes, at::ScalarType dtype) {
    const auto at = left.find(name);
    if (at == left.end())
      fail("[train] state: got no {}, expected all that this trainer has; try that of the same run",
           name);
    if (at->second.sizes() != sizes || at->second.scalar_type() != dtype)
      fail("[train] state {}: got {}, expected {}; try that of the same run", name,
           shape_text(at->second), shape_text(at::empty(sizes, dtype)));
    const Tensor found = at->second.contiguous();
    left.erase(at);
    return found;
  };
  const auto numbers = [&](const std::string& name, auto& into, at::ScalarType dtype, auto zero) {
    const Tensor t = take(name, {n_}, dtype);
    const auto* data = t.const_data_ptr<decltype(zero)>();
    into.assign(data, data + n_);
  };
  for (auto& [name, values] : hyper_) numbers("hyper." + name, values, at::kDouble, double{});
  keep_moments(from);
  // The loaded rows are in the order of models, whatever the slots were.
  std::iota(model_at_.begin(), model_at_.end(), 0);
  for_each_tensor(*this, [&](const std::string& name, const Tensor& tensor, bool /*shared*/) {
    tensor.copy_(take(name, tensor.sizes(), tensor.scalar_type()));
  });
  numbers("steps", steps_, at::kLong, int64_t{});
  numbers("seeds", seeds_, at::kLong, int64_t{});
  const Tensor runs = take("running", {n_}, at::kBool);
  if (!left.empty())
    fail(
        "[train] state: got {}, expected only tensors of this trainer; try the state of the same "
        "run",
        left.begin()->first);
  std::vector<int64_t> everyone = model_at_;
  set_running(everyone);
  for (const int64_t model : everyone)
    if (!runs.const_data_ptr<bool>()[model]) stop(model);
  ++version_;
}

int64_t TrainedModels::bytes() const {
  int64_t bytes = 0;
  for_each_tensor(*this, [&](const std::string&, const Tensor& tensor, bool) {
    bytes += static_cast<int64_t>(tensor.storage().nbytes());
  });
  return bytes;
}

}  // namespace wide
