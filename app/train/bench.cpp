#include "app/train/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <thread>

#include "app/cell/cell.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// One model as its users train it: autograd, and ATen's fused optimiser where there is one.
class SeparateModel {
 public:
  SeparateModel(const Prepared& run, const Start& start, const Batch& batch, int64_t model)
      : run_(run), net_(run.network.train_form()), hyper_(run.plan.models[size_t(model)].hyper) {
    for (const Column& column : batch.inputs) inputs_.push_back(rows_of(column, model));
    if (batch.target.values.defined()) target_ = rows_of(batch.target, model);
    if (batch.weight.values.defined()) weight_ = rows_of(batch.weight, model);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const at::ScalarType dtype = run.network.asked()[i].dtype;
      inputs_[i] = inputs_[i].to(dtype == at::kFloat ? run.network.dtype() : dtype);
      if (batch.inputs[i].prepare) batch.inputs[i].prepare(model, inputs_[i]);
    }
    if (weight_.defined()) weight_ = weight_.to(run.network.dtype());
    for (const TensorSpec& spec : run.network.tensors()) {
      const StartTensor& from = start.tensors.at(spec.name);
      Tensor own = (from.shared ? from.tensor : from.tensor[model]).clone();
      if (spec.role == Role::parameter && !run.frozen.count(spec.name)) {
        own.requires_grad_(true);
        parameters_.push_back(own);
        first_.push_back(at::zeros_like(own));
        second_.push_back(at::zeros_like(own));
        steps_.push_back(at::zeros({}, at::kFloat));
      }
      weights_.push_back(own);
    }
  }

  void step() {
    Tensors gradients;
    {
      const at::AutoGradMode grad(true);
      Tensors bound = inputs_;
      bound.insert(bound.end(), weights_.begin(), weights_.end());
      const Tensors outputs = net_.forward(bound);
      LossInputs in;
      in.output = outputs.at(run_.loss.loss.output);
      in.target = target_;
      in.row_weight = weight_;
      if (run_.loss.loss.weight.defined() && run_.loss.loss.weight.dim() == 1)
        in.weight = run_.loss.loss.weight;
      in.pos_weight = run_.loss.loss.pos_weight;
      const LossSums sums = loss_sums(run_.loss.loss, in);
      gradients = torch::autograd::grad({sums.weighted / sums.weights}, parameters_, {},
                                        std::nullopt, false, /*allow_unused=*/true);
    }
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = at::zeros_like(parameters_[i]);
    update(gradients);
  }

 private:
  static Tensor rows_of(const Column& column, int64_t model) {
    const Tensor values = column.shared ? column.values : column.values[model];
    if (!column.rows.defined()) return values.clone();
    return values.index_select(0, column.rows.dim() == 2 ? column.rows[model] : column.rows);
  }
  double hyper(const char* name) const { return hyper_.at(name); }

  void update(const Tensors& gradients) {
    const std::string& optimizer = run_.options.optimizer;
    if (optimizer == "sgd") {
      at::_fused_sgd_(parameters_, gradients,
                      hyper("momentum") != 0 ? at::TensorList(first_) : at::TensorList(),
                      hyper("weight_decay"), hyper("momentum"), hyper("lr"), hyper("dampening"),
                      hyper("nesterov") != 0, false, done_++ == 0);
      return;
    }
    if (optimizer == "adam" || optimizer == "adamw") {
      for (const Tensor& step : steps_) step.add_(1);
      const auto call = [&](auto fused) {
        fused(parameters_, gradients, first_, second_, at::TensorList(), steps_, hyper("lr"),
              hyper("beta1"), hyper("beta2"), hyper("weight_decay"), hyper("eps"), false, false);
      };
      if (optimizer == "adam")
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
    if (run_.options.optimizer == "rmsprop") {
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

  const Prepared& run_;
  const Network& net_;
  std::map<std::string, double> hyper_;
  Tensors inputs_, weights_, parameters_, first_, second_, steps_;
  Tensor target_, weight_;
  int64_t done_ = 0;
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
  result.notes.emplace_back("no vmap baseline of a whole step in this version");
  contenders.push_back({"wide", "candidate", [&] { trainer.step(batch); }});
  MeasureOptions options;
  options.budget_s = budget_s;
  result.timings = measure(contenders, options);
  for (Timing& t : result.timings)
    if (t.kind == "candidate") t.first_call_ns = result.first_call_ns;
  return result;
}

}  // namespace wide
