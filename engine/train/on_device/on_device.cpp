#include "engine/train/on_device/on_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "engine/error.h"

namespace wide {
namespace {

c10::Device usable(c10::Device device) {
  if (const auto why = unavailable(device)) throw Error(*why, 6);
  return device.has_index() ? device : c10::Device(device.type(), 0);
}

void refuse(const std::string& what, c10::Device device) {
  fail("[train] {}: got it with {}, expected a training on the CPU; try without, or device cpu",
       what, device.str());
}

}  // namespace

OnDevice::OnDevice(Trainer::Impl& impl)
    : impl_(impl),
      device_(usable(impl.options.device)),
      models_(impl.models, device_),
      columns_(device_) {
  const TrainerOptions& o = impl.options;
  if (o.exact) refuse("exact", device_);
  if (o.models_at_a_time > 0) refuse("models_at_a_time", device_);
  if (o.memory_limit > 0) refuse("memory_limit", device_);
  if (!impl.models.formula().step_tensors)
    refuse(fmt::format("optimizer {}", impl.models.formula().name), device_);
}

void OnDevice::bring_back() {
  if (device_is_newer_) models_.download();
  device_is_newer_ = false;
}

void OnDevice::change(const std::function<void()>& change) {
  bring_back();
  host_is_newer_ = true;
  ++numbers_;
  change();
}

void OnDevice::set_hyperparameter(const std::string& name, int64_t model, double value) {
  ++numbers_;
  // The first model with an average or a momentum allocates those of all.
  const auto& state = impl_.models.formula().state;
  const bool more = name == "ema" ||
                    std::ranges::any_of(state, [&](const auto& s) { return s.only_with == name; });
  const auto set = [&] { impl_.models.set_hyper(name, model, value); };
  if (more && value != 0 && !impl_.models.any(name))
    change(set);
  else
    set();
}

/// Makes tensors with fixed addresses and an executor; the next call captures a new graph.
void OnDevice::build(Planned& p, const Call& call) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(impl_.models.running().size());
  p.graph.reset();
  p.executor.reset();
  p.size.widening = impl_.widening(p.size);
  p.size.widening->take({});  // the first that applies to each call
  const auto program =
      impl_.planned_range(p.size, count, impl_.ensemble(p.size, call, 0, count, true)).program;
  const auto options = at::TensorOptions().device(device_);
  Ensemble all = impl_.ensemble(p.size, call, 0, count, false);
  for (Tensor& t : all.tensors)
    if (t.defined()) t = t.to(device_);
  for (size_t k = 0; k < p.size.form.weights.size(); ++k)
    all.tensors[p.size.form.weights[k]] = models_.tensor(k, !p.size.step);
  for (size_t k = 0; k < p.size.columns.size(); ++k) {
    const BatchColumn& c = call.columns[k];
    all.tensors[p.size.columns[k]] =
        at::zeros(c.shared() ? c.sizes() : wide_sizes(count, c.sizes()), options.dtype(c.dtype()));
  }
  ExecutorOptions executor;
  p.executor = std::make_unique<Executor>(
      p.size.single, all, [&](int64_t, int64_t) { return program; }, executor);
  p.bound = all.tensors;
  p.results.clear();
  for (const Value& v : p.executor->results())
    p.results.push_back(at::empty(v.sizes, options.dtype(v.dtype)));
  if (p.size.step) {
    p.active = at::ones({count}, options.dtype(at::kBool));
    p.outcome = at::zeros({2, count}, options.dtype(at::kDouble));
  }
  p.numbers = numbers_;
  p.version = models_.version();
}

OnDevice::Planned& OnDevice::plan(const Call& call, bool step) {
  impl_.need_models();
  if (host_is_newer_) models_.upload();
  host_is_newer_ = false;
  models_.set_numbers(impl_.options.schedule.factor(impl_.steps));
  auto found = planned_.find(call.key);
  if (found == planned_.end()) {
    auto made = std::make_unique<Planned>(impl_.record_size(call, step, device_));
    found = planned_.emplace(call.key, std::move(made)).first;
  }
  Planned& p = *found->second;
  if (p.version != models_.version()) build(p, call);
  fill(p, call);
  return p;
}

void OnDevice::fill_numbers(Planned& p, const Call& call) {
  const LossNetwork& form = p.size.form;
  if (form.step >= 0) p.bound[static_cast<size_t>(form.step)].fill_(impl_.steps);
  if (p.numbers == numbers_) return;
  const auto count = static_cast<int64_t>(impl_.models.running().size());
  const Ensemble now = impl_.ensemble(p.size, call, 0, count, false);
  for (const int64_t at : {form.seed, form.dropout, form.label_smoothing})
    if (at >= 0) p.bound[static_cast<size_t>(at)].copy_(now.tensors[static_cast<size_t>(at)]);
  p.numbers = numbers_;
}

void OnDevice::fill(Planned& p, const Call& call) {
  const at::NoGradGuard no_grad;
  fill_numbers(p, call);
  for (size_t k = 0; k < p.size.columns.size(); ++k)
    columns_.fill(call.columns[k], impl_.models.running(), p.bound[p.size.columns[k]]);
}

void OnDevice::compute(Planned& p) {
  const at::NoGradGuard no_grad;
  p.executor->run(p.bound, p.results);
  if (!p.size.step) return;
  const size_t trained = p.size.trained.size();
  DeviceStep made{.loss = p.results[0]};
  for (size_t k = 0; k < trained; ++k)
    made.gradients.push_back(p.size.gradients->reached()[k] ? p.results[1 + k] : Tensor());
  for (size_t k = 0; k < p.size.updated.size(); ++k)
    made.buffers.emplace_back(p.size.updated[k], p.results[1 + trained + k]);
  models_.step(made, p.active, p.outcome);
}

void OnDevice::launch(Planned& p) {
  const at::NoGradGuard no_grad;
  if (!p.graph && !p.by_call) {
    // Capturing also runs the work, so no model is active.
    if (p.size.step) p.active.fill_(false);
    try {
      p.graph = capture(device_, [&] { compute(p); });
    } catch (const NotCaptured& refusal) {
      p.by_call = true;
      const std::string note =
          fmt::format("{} run call by call instead of as a graph: {}",
                      p.size.step ? "steps" : "evaluations", first_line(refusal));
      if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
    }
    if (p.size.step) p.active.fill_(true);
  }
  if (p.graph)
    p.graph->replay();
  else
    compute(p);
}

void OnDevice::prepare(const Batch& batch) { plan(impl_.read(batch, true), true); }

StepResult OnDevice::step(const Batch& batch) {
  Planned& p = plan(impl_.read(batch, true), true);
  launch(p);
  device_is_newer_ = true;
  ++impl_.steps;
  const int64_t n = impl_.models.n();
  StepResult result{at::full({n}, std::numeric_limits<double>::quiet_NaN(), at::kDouble),
                    at::zeros({n}, at::kBool)};
  const Tensor outcome = p.outcome.cpu();
  const auto* said = outcome.const_data_ptr<double>();
  const int64_t count = outcome.size(1);
  for (int64_t slot = 0; slot < count; ++slot) {
    const int64_t model = impl_.models.model_at(slot);
    result.losses.mutable_data_ptr<double>()[model] = said[slot];
    result.suppressed.mutable_data_ptr<bool>()[model] = said[count + slot] == 0;
  }
  return result;
}

std::map<std::string, Tensor> OnDevice::gradients(const Batch& batch, Tensor* losses) {
  const at::NoGradGuard no_grad;
  Planned& p = plan(impl_.read(batch, true), true);
  p.executor->run(p.bound, p.results);
  std::map<std::string, Tensor> all;
  for (size_t k = 0; k < p.size.trained.size(); ++k) {
    const Tensor made = p.results[1 + k].cpu();
    all[impl_.models.specs()[impl_.models.trained()[k]].name] =
        p.size.gradients->reached()[k] ? made : at::zeros_like(made);
  }
  if (losses) *losses = p.results[0].cpu().to(at::kDouble);
  return all;
}

Tensors OnDevice::evaluate(const Batch& batch) {
  Planned& p = plan(impl_.read(batch, false), false);
  models_.spread_averages();
  launch(p);
  Tensors outputs;
  for (size_t k = 0; k < p.size.single.outputs.size(); ++k) outputs.push_back(p.results[k].cpu());
  return outputs;
}

/// Loss and gradients of one model, on the CPU.
Tensors OnDevice::step_of(const Planned& p, int64_t slot) const {
  Tensors made{p.results[0][slot].cpu().to(at::kDouble)};
  for (size_t k = 0; k < p.size.trained.size(); ++k) {
    const Tensor own = p.results[1 + k][slot].cpu();
    made.push_back(p.size.gradients->reached()[k] ? own : at::zeros_like(own));
  }
  return made;
}

/// The separate models are recorded and computed on the CPU.
StepCheck OnDevice::check(const Batch& batch, int64_t count) {
  const Call call = impl_.read(batch, true);
  Planned& p = plan(call, true);
  bring_back();
  auto& found = on_cpu_[call.key];
  if (!found) found = std::make_unique<PlannedSize>(impl_.record_size(call, true));
  Tensors trained;
  for (const size_t k : p.size.trained) trained.push_back(p.bound[k]);
  return impl_.check_steps(*found, call, count, trained, [&](const std::vector<int64_t>& slots) {
    const at::NoGradGuard no_grad;
    p.executor->run(p.bound, p.results);
    std::vector<Tensors> made(impl_.models.running().size());
    for (const int64_t slot : slots) made[static_cast<size_t>(slot)] = step_of(p, slot);
    return made;
  });
}

int64_t OnDevice::program_bytes() const {
  int64_t most = 0;
  for (const auto& [key, p] : planned_)
    if (p->executor) most = std::max(most, p->executor->bytes());
  return most;
}

}  // namespace wide
