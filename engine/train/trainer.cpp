#include "engine/train/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/error.h"
#include "engine/train/on_device/on_device.h"
#include "engine/train/trainer_impl.h"

namespace wide {

Trainer::Trainer(Forms forms, std::vector<InputForm> inputs,
                 std::map<std::string, StartTensor> start, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(forms), std::move(inputs), std::move(start),
                                   std::move(options))) {
  if (!impl_->options.device.is_cpu()) on_device_ = std::make_unique<OnDevice>(*impl_);
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

void Trainer::prepare(const Batch& batch) {
  if (on_device_) return on_device_->prepare(batch);
  impl_->prepare(batch);
}

StepResult Trainer::step(const Batch& batch) {
  if (on_device_) return on_device_->step(batch);
  const int64_t n = impl_->models.n();
  StepResult result{at::full({n}, std::numeric_limits<double>::quiet_NaN(), at::kDouble),
                    at::zeros({n}, at::kBool)};
  auto* losses = result.losses.mutable_data_ptr<double>();
  auto* suppressed = result.suppressed.mutable_data_ptr<bool>();
  const double factor = impl_->options.schedule.factor(impl_->steps);
  TrainedModels& models = impl_->models;
  impl_->run_step(batch, [&](int64_t slot, double loss, const TrainedModels::Made& made) {
    const int64_t model = models.model_at(slot);
    losses[model] = loss;
    suppressed[model] = !std::isfinite(loss) || !models.write(slot, made, factor);
  });
  ++impl_->steps;
  return result;
}

std::map<std::string, Tensor> Trainer::gradients(const Batch& batch, Tensor* losses) {
  if (on_device_) return on_device_->gradients(batch, losses);
  const TrainedModels& models = impl_->models;
  const auto running = static_cast<int64_t>(models.running().size());
  std::map<std::string, Tensor> all;
  Tensors made_into;
  for (const size_t k : models.trained()) {
    const TensorSpec& spec = models.specs()[k];
    made_into.push_back(at::zeros(wide_sizes(running, spec.sizes), models.dtype()));
    all[spec.name] = made_into.back();
  }
  const Tensor own = at::empty({running}, at::kDouble);
  impl_->run_step(batch, [&](int64_t slot, double loss, const TrainedModels::Made& made) {
    own.mutable_data_ptr<double>()[slot] = loss;
    for (size_t k = 0; k < made_into.size(); ++k) {
      if (!made.gradients[k]) continue;
      const auto bytes =
          static_cast<size_t>(made_into[k].numel() / running) * made_into[k].element_size();
      std::memcpy(
          static_cast<char*>(made_into[k].mutable_data_ptr()) + static_cast<size_t>(slot) * bytes,
          made.gradients[k], bytes);
    }
  });
  if (losses) *losses = own;
  return all;
}

Tensors Trainer::evaluate(const Batch& batch) {
  return on_device_ ? on_device_->evaluate(batch) : impl_->run_evaluation(batch);
}

StepCheck Trainer::check(const Batch& batch, int64_t models) {
  return on_device_ ? on_device_->check(batch, models) : impl_->check(batch, models);
}

int64_t Trainer::n() const { return impl_->models.n(); }
int64_t Trainer::steps() const { return impl_->steps; }
const std::vector<int64_t>& Trainer::running() const { return impl_->models.running(); }

double Trainer::hyperparameter(const std::string& name, int64_t model) const {
  return impl_->models.hyper(name, model);
}

void Trainer::set_hyperparameter(const std::string& name, int64_t model, double value) {
  if (on_device_) return on_device_->set_hyperparameter(name, model, value);
  impl_->models.set_hyper(name, model, value);
}

void Trainer::change(const std::function<void()>& change) {
  if (on_device_) return on_device_->change(change);
  change();
}

void Trainer::stop(int64_t model) {
  change([&] { impl_->models.stop(model); });
}

void Trainer::copy(int64_t from, int64_t to) {
  change([&] { impl_->models.copy(from, to); });
}

std::map<std::string, Tensor> Trainer::weights() const {
  if (on_device_) on_device_->bring_back();
  return impl_->models.weights(true);
}

std::map<std::string, Tensor> Trainer::weights(int64_t model) const {
  if (on_device_) on_device_->bring_back();
  std::map<std::string, Tensor> own;
  const TrainedModels& models = impl_->models;
  const auto all = models.weights(true);
  for (size_t k = 0; k < models.specs().size(); ++k) {
    const std::string& name = models.specs()[k].name;
    own[name] = models.shared(k) ? all.at(name) : all.at(name).select(0, model).clone();
  }
  return own;
}

bool Trainer::shared(const std::string& name) const { return impl_->models.is_shared(name); }

void Trainer::set_weights(const std::map<std::string, Tensor>& weights) {
  change([&] { impl_->models.set_weights(weights); });
}

TrainerState Trainer::state() const {
  if (on_device_) on_device_->bring_back();
  TrainerState state;
  impl_->models.save(state.tensors);
  state.step = impl_->steps;
  state.plan = plan();
  return state;
}

void Trainer::load_state(const TrainerState& state) {
  change([&] { impl_->models.load(state.tensors); });
  impl_->steps = state.step;
  if (state.plan.empty()) return;
  Choices choices = Choices::parse(state.plan);
  choices.exact = impl_->options.exact;
  impl_->choices = std::move(choices);
  impl_->planned.clear();
}

std::string Trainer::plan() const { return impl_->choices.text(); }

TrainerMemory Trainer::memory() const {
  TrainerMemory memory;
  memory.state_bytes = impl_->models.bytes();
  memory.threads = impl_->threads;
  if (on_device_) {
    memory.threads = 1;
    memory.range_bytes = on_device_->program_bytes();
    memory.models_at_a_time = static_cast<int64_t>(running().size());
  }
  for (const auto& [key, p] : impl_->planned) {
    if (!p->executor) continue;
    const int64_t bytes = Impl::bytes_of_range(*p, *p->executor);
    if (bytes < memory.range_bytes) continue;
    memory.range_bytes = bytes;
    memory.models_at_a_time = p->executor->models_at_a_time();
    const Recomputed recomputed = Impl::recomputed(*p, *p->executor);
    memory.recomputed = recomputed.calls;
    memory.saved_bytes = recomputed.saved_bytes;
  }
  return memory;
}

int64_t Trainer::recordings() const { return impl_->recordings; }

std::vector<std::string> Trainer::notes() const {
  return on_device_ ? on_device_->notes() : std::vector<std::string>();
}

std::vector<std::string> Trainer::trained() const {
  std::vector<std::string> names;
  for (const size_t k : impl_->models.trained()) names.push_back(impl_->models.specs()[k].name);
  return names;
}

ModelsToTrain models_to_train(const Module& train, const Module& evaluate,
                              const std::vector<Module>& models) {
  PackedModules packed = pack_modules(models, /*share=*/false);
  ModelsToTrain made{
      {network_source(train, packed.specs), network_source(evaluate, packed.specs), packed.specs},
      {}};
  for (size_t k = 0; k < packed.specs.size(); ++k)
    made.start[packed.specs[k].name] = {packed.weights[k], packed.shared[k]};
  return made;
}

const std::vector<Hyperparameter>& trainer_hyperparameters() {
  static const std::vector<Hyperparameter> all{
      {"clip", 0, 0, 1e300, "largest norm of a model's gradient; 0: none"},
      {"label_smoothing", 0, 0, 1, "of cross_entropy: share spread over all classes"},
      {"dropout", -1, -1, 1, "every p that the network has; -1: as the network has it"},
      {"ema", 0, 0, 1, "decay of averaged weights; 0: none"}};
  return all;
}

}  // namespace wide
