#include "app/train/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <thread>

#include "app/cell/cell.h"
#include "app/train/empty_batch.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/measure/vmapped.h"

namespace wide {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// torch.optim's steps on whole lists of parameters, fused where ATen has a kernel.
class ListOptimizer {
 public:
  ListOptimizer(std::string name, std::map<std::string, double> hyper)
      : name_(std::move(name)), hyper_(std::move(hyper)) {}

  void add(const Tensor& parameter) {
    parameters_.push_back(parameter);
    first_.push_back(at::zeros_like(parameter));
    second_.push_back(at::zeros_like(parameter));
    steps_.push_back(at::zeros({}, at::kFloat));
  }

  /// Down the gradients of `loss`.
  void step(const Tensor& loss) {
    Tensors gradients = torch::autograd::grad({loss}, parameters_, {}, std::nullopt, false,
                                              /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = at::zeros_like(parameters_[i]);
    update(gradients);
  }

 private:
  double hyper(const char* name) const { return hyper_.at(name); }

  void update(const Tensors& gradients) {
    if (name_ == "sgd") {
      at::_fused_sgd_(parameters_, gradients,
                      hyper("momentum") != 0 ? at::TensorList(first_) : at::TensorList(),
                      hyper("weight_decay"), hyper("momentum"), hyper("lr"), hyper("dampening"),
                      hyper("nesterov") != 0, false, done_++ == 0);
      return;
    }
    if (name_ == "adam" || name_ == "adamw") {
      for (const Tensor& step : steps_) step.add_(1);
      const auto call = [&](auto fused) {
        fused(parameters_, gradients, first_, second_, at::TensorList(), steps_, hyper("lr"),
              hyper("beta1"), hyper("beta2"), hyper("weight_decay"), hyper("eps"), false, false);
      };
      if (name_ == "adam")
        call([](auto&&... all) { at::_fused_adam_(all...); });
      else
        call([](auto&&... all) { at::_fused_adamw_(all...); });
      return;
    }
    foreach_update(gradients);
  }

  /// For the optimisers without a fused kernel in ATen: the formula by whole lists, as torch.optim
  /// does with foreach=True.
  void foreach_update(const Tensors& gradients) {
    if (name_ == "rmsprop") {
      at::_foreach_mul_(first_, hyper("alpha"));
      at::_foreach_addcmul_(first_, gradients, gradients, 1 - hyper("alpha"));
      std::vector<Tensor> scale = at::_foreach_sqrt(first_);
      at::_foreach_add_(scale, hyper("eps"));
      at::_foreach_addcdiv_(parameters_, gradients, scale, -hyper("lr"));
      return;
    }
    std::vector<Tensor> direction = at::_foreach_mul(first_, hyper("beta1"));
    at::_foreach_add_(direction, gradients, 1 - hyper("beta1"));
    at::_foreach_sign_(direction);
    at::_foreach_mul_(parameters_, 1 - hyper("lr") * hyper("weight_decay"));
    at::_foreach_add_(parameters_, direction, -hyper("lr"));
    at::_foreach_mul_(first_, hyper("beta2"));
    at::_foreach_add_(first_, gradients, 1 - hyper("beta2"));
  }

  std::string name_;
  std::map<std::string, double> hyper_;
  Tensors parameters_, first_, second_, steps_;
  int64_t done_ = 0;
};

/// One model's batch as its network takes it.
struct OwnBatch {
  Tensors inputs;
  Tensor target, weight;  // undefined: none

  OwnBatch(const Prepared& run, const Batch& batch, int64_t model) {
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      const at::ScalarType dtype = run.network.asked()[i].dtype;
      inputs.push_back(
          batch_rows(batch.inputs[i], model).to(dtype == at::kFloat ? run.network.dtype() : dtype));
      if (batch.inputs[i].prepare) batch.inputs[i].prepare(model, inputs[i]);
    }
    if (batch.target.values.defined()) target = batch_rows(batch.target, model);
    if (batch.weight.values.defined())
      weight = batch_rows(batch.weight, model).to(run.network.dtype());
  }
};

bool is_trained(const Prepared& run, const TensorSpec& spec) {
  return spec.role == Role::parameter && !run.frozen.count(spec.name);
}

/// Of one model: `bound` as its network takes it.
Tensor loss_of(const Prepared& run, const Tensors& bound, const Tensor& target,
               const Tensor& weight) {
  const Loss& loss = run.loss.loss;
  LossInputs in;
  in.output = run.network.train_form().forward(bound).at(loss.output);
  in.target = target;
  in.row_weight = weight;
  if (loss.weight.defined() && loss.weight.dim() == 1) in.weight = loss.weight;
  in.pos_weight = loss.pos_weight;
  const LossSums sums = loss_sums(loss, in);
  return sums.weighted / sums.weights;
}

/// One model as its users train it: autograd, and ATen's fused optimiser where there is one.
class SeparateModel {
 public:
  SeparateModel(const Prepared& run, const Start& start, const Batch& batch, int64_t model)
      : run_(run),
        batch_(run, batch, model),
        optimizer_(run.options.optimizer, run.plan.models[size_t(model)].hyper),
        bound_(batch_.inputs) {
    for (const TensorSpec& spec : run.network.tensors()) {
      const StartTensor& from = start.tensors.at(spec.name);
      bound_.push_back((from.shared ? from.tensor : from.tensor[model]).clone());
      if (is_trained(run, spec)) optimizer_.add(bound_.back().requires_grad_(true));
    }
  }

  void step() {
    const at::AutoGradMode grad(true);
    optimizer_.step(loss_of(run_, bound_, batch_.target, batch_.weight));
  }

 private:
  const Prepared& run_;
  OwnBatch batch_;
  ListOptimizer optimizer_;
  Tensors bound_;
};

/// All models as torch.func users train them: vmap of the loss, autograd and one optimiser on wide
/// tensors. It has the first model's hyperparameters for all: ATen's kernels take no others.
class VmappedModels {
 public:
  VmappedModels(const Prepared& run, const Start& start, const Batch& batch)
      : run_(run), optimizer_(run.options.optimizer, run.plan.models[0].hyper) {
    std::vector<Tensors> own;  // by model
    for (int64_t m = 0; m < run.n(); ++m) {
      const OwnBatch one(run, batch, m);
      own.push_back(one.inputs);
      inputs_ = one.inputs.size();
      for (const Tensor& t : {one.target, one.weight})
        if (t.defined()) own.back().push_back(t);
      has_target_ = one.target.defined();
      has_weight_ = one.weight.defined();
    }
    for (size_t k = 0; k < own[0].size(); ++k) {
      Tensors rows;
      for (const Tensors& one : own) rows.push_back(one[k]);
      bound_.push_back(at::stack(rows));
      shared_.push_back(false);
    }
    for (const TensorSpec& spec : run.network.tensors()) {
      const StartTensor& from = start.tensors.at(spec.name);
      bound_.push_back(from.tensor.clone());
      shared_.push_back(from.shared);
      if (is_trained(run, spec)) optimizer_.add(bound_.back().requires_grad_(true));
    }
  }

  void step() {
    const at::AutoGradMode grad(true);
    const auto one = [this](const Tensors& all) {
      Tensors bound(all.begin(), all.begin() + static_cast<ptrdiff_t>(inputs_));
      const size_t weights = inputs_ + size_t(has_target_) + size_t(has_weight_);
      bound.insert(bound.end(), all.begin() + static_cast<ptrdiff_t>(weights), all.end());
      return Tensors{loss_of(run_, bound, has_target_ ? all[inputs_] : Tensor(),
                             has_weight_ ? all[weights - 1] : Tensor())};
    };
    optimizer_.step(vmapped(one, bound_, shared_, run_.n())[0].sum());
  }

 private:
  const Prepared& run_;
  ListOptimizer optimizer_;
  Tensors bound_;
  std::vector<bool> shared_;
  size_t inputs_ = 0;
  bool has_target_ = false, has_weight_ = false;
};

using Models = std::vector<std::unique_ptr<SeparateModel>>;

Models separate_models(const Prepared& run, const Start& start) {
  const Batch batch = run.feed->training(0);
  Models models;
  for (int64_t m = 0; m < run.n(); ++m)
    models.push_back(std::make_unique<SeparateModel>(run, start, batch, m));
  return models;
}

void step_all(Models& models) {
  for (const auto& model : models) model->step();
}

/// Each thread a share of the models, single-threaded within.
void step_spread(Models& models, int threads) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&models, t, threads] {
      at::set_num_threads(1);
      for (size_t m = static_cast<size_t>(t); m < models.size(); m += static_cast<size_t>(threads))
        models[m]->step();
    });
  for (std::thread& thread : all) thread.join();
}

}  // namespace

double loop_step_seconds(const Prepared& run, const Start& start, int64_t steps) {
  try {
    Models models = separate_models(run, start);
    step_all(models);
    const auto begun = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step_all(models);
    return seconds_since(begun) / double(steps);
  } catch (const std::exception&) {
    return 0;  // not needed for the training itself
  }
}

BenchResult bench(const Prepared& run, const Start& start, Trainer& trainer, double budget_s) {
  BenchResult result;
  const Batch batch = run.feed->training(0);
  const auto begun = Clock::now();
  trainer.step(batch);
  result.first_call_ns = seconds_since(begun) * 1e9;
  std::vector<Contender> contenders;
  Models loop, spread;
  const int threads = at::get_num_threads();
  try {
    loop = separate_models(run, start);
    step_all(loop);
    contenders.push_back({"loop", "baseline", [&loop] {
                            show_life();
                            step_all(loop);
                          }});
    if (threads > 1) {
      spread = separate_models(run, start);
      contenders.push_back(
          {"threads", "baseline", [&spread, threads] { step_spread(spread, threads); }});
    }
  } catch (const std::exception& e) {
    contenders.clear();
    result.notes.push_back("no baselines: " + one_line(e));
  }
  std::unique_ptr<VmappedModels> vmap;
  try {
    vmap = std::make_unique<VmappedModels>(run, start, batch);
    vmap->step();
    contenders.push_back({"vmap", "baseline", [&vmap] { vmap->step(); }});
    if (!run.plan.varied.empty())
      result.notes.emplace_back(
          "vmap steps with the first model's hyperparameters: ATen's optimisers take one for all");
  } catch (const std::exception& e) {
    result.notes.push_back("no vmap: " + one_line(e));
  }
  contenders.push_back({"wide", "candidate", [&] { trainer.step(batch); }});
  MeasureOptions options;
  options.budget_s = budget_s;
  result.timings = measure(contenders, options);
  for (Timing& t : result.timings)
    if (t.kind == "candidate") t.first_call_ns = result.first_call_ns;
  return result;
}

}  // namespace wide
