#include "app/train/baselines/separate_models.h"

#include <ATen/ATen.h>

#include "app/train/inputs/empty_batch.h"
#include "engine/measure/spread.h"
#include "engine/measure/vmapped.h"
#include "engine/widen/gradients.h"

namespace wide {
namespace {

bool is_trained(const Prepared& run, const TensorSpec& spec) {
  return spec.role == Role::parameter && !run.frozen.count(spec.name);
}

/// The forward pass for this batch's size: the last batch of an epoch may be smaller.
Forward forward_of(const Prepared& run, const Batch& batch) {
  const int64_t rows = batch.inputs.at(0).rows.size(-1);
  if (rows == run.network.batch()) return run.network.train_form().forward;
  return run.network.forms().train(run.network.inputs(rows)).forward;
}

/// The label smoothing of a model; undefined if it has none.
Tensor smoothing_of(const Prepared& run, int64_t model) {
  const std::map<std::string, double>& hyper = run.configurations.models[size_t(model)].hyper;
  const auto found = hyper.find("label_smoothing");
  if (run.loss.loss.name != "cross_entropy" || found == hyper.end() || found->second == 0)
    return {};
  return at::scalar_tensor(found->second, run.network.dtype());
}

/// One model's loss; `bound`: the tensors that its network takes.
Tensor loss_of(const Loss& loss, const Forward& forward, const Tensors& bound, const Tensor& target,
               const Tensor& weight, const Tensor& smoothing) {
  LossInputs in;
  in.label_smoothing = smoothing;
  in.output = forward(bound).at(loss.output);
  in.target = target;
  in.row_weight = weight;
  if (loss.weight.defined() && loss.weight.dim() == 1) in.weight = loss.weight;
  in.pos_weight = loss.pos_weight;
  const LossSums sums = loss_sums(loss, in);
  return sums.weighted / sums.weights;
}

}  // namespace

ListOptimizer::ListOptimizer(const std::string& name, const std::map<std::string, double>& hyper)
    : optimizer_(optimizer(name)) {
  for (const Hyperparameter& h : optimizer_.hyperparameters) hyper_.push_back(hyper.at(h.name));
  step_.state.resize(optimizer_.state.size());
  step_.step = 0;
}

void ListOptimizer::add(const Tensor& parameter) {
  step_.parameters.push_back(parameter);
  for (size_t k = 0; k < optimizer_.state.size(); ++k) {
    const int64_t with = optimizer_.index(optimizer_.state[k].only_with);
    if (with < 0 || hyper_[static_cast<size_t>(with)] != 0)
      step_.state[k].push_back(at::zeros_like(parameter));
  }
}

void ListOptimizer::step(const Tensor& loss) {
  step_.gradients = gradients_of({loss}, step_.parameters);
  const at::NoGradGuard no_grad;
  // Parameters without a gradient are removed, as torch.optim skips them at every step.
  for (auto i = std::ssize(step_.gradients); i-- > 0;) {
    if (step_.gradients[size_t(i)].defined()) continue;
    for (Tensors* list : {&step_.gradients, &step_.parameters}) list->erase(list->begin() + i);
    for (Tensors& list : step_.state)
      if (!list.empty()) list.erase(list.begin() + i);
  }
  step_.hyper = hyper_.data();
  ++step_.step;
  list_step(optimizer_, step_);
}

OwnBatch::OwnBatch(const Prepared& run, const Batch& batch, int64_t model) {
  inputs = run.network.own_inputs(batch, model);
  if (batch.target.values.defined())
    target = batch_rows(batch.target, model).to(run.loss.loss.target_dtype(run.network.dtype()));
  if (batch.weight.values.defined())
    weight = batch_rows(batch.weight, model).to(run.network.dtype());
}

SeparateModel::SeparateModel(const Prepared& run, const Start& start, const Batch& batch,
                             int64_t model)
    : loss_(run.loss.loss),
      forward_(forward_of(run, batch)),
      batch_(run, batch, model),
      smoothing_(smoothing_of(run, model)),
      optimizer_(run.options.optimizer, run.configurations.models[size_t(model)].hyper),
      bound_(batch_.inputs) {
  for (const TensorSpec& spec : run.network.tensors()) {
    const StartTensor& from = start.tensors.at(spec.name);
    bound_.push_back((from.shared ? from.tensor : from.tensor[model]).clone());
    if (is_trained(run, spec)) optimizer_.add(bound_.back().requires_grad_(true));
  }
}

Tensor SeparateModel::step() {
  const at::AutoGradMode grad(true);
  const Tensor loss = loss_of(loss_, forward_, bound_, batch_.target, batch_.weight, smoothing_);
  optimizer_.step(loss);
  return loss.detach();
}

VmappedModels::VmappedModels(const Prepared& run, const Start& start, const Batch& batch)
    : loss_(run.loss.loss),
      forward_(forward_of(run, batch)),
      smoothing_(smoothing_of(run, 0)),
      optimizer_(run.options.optimizer, run.configurations.models[0].hyper),
      n_(run.n()) {
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

Tensor VmappedModels::step() {
  const at::AutoGradMode grad(true);
  const auto one = [this](const Tensors& all) {
    Tensors bound(all.begin(), all.begin() + static_cast<ptrdiff_t>(inputs_));
    const size_t weights = inputs_ + size_t(has_target_) + size_t(has_weight_);
    bound.insert(bound.end(), all.begin() + static_cast<ptrdiff_t>(weights), all.end());
    return Tensors{loss_of(loss_, forward_, bound, has_target_ ? all[inputs_] : Tensor(),
                           has_weight_ ? all[weights - 1] : Tensor(), smoothing_)};
  };
  const Tensor losses = vmapped(one, bound_, shared_, n_)[0];
  optimizer_.step(losses.sum());
  return losses.detach();
}

SeparateModels::SeparateModels(const Prepared& run, const Start& start, const Batch& batch,
                               int64_t count) {
  for (int64_t m = 0; m < count; ++m)
    models_.push_back(std::make_unique<SeparateModel>(run, start, batch, m));
}

Tensor SeparateModels::step_in_loop() {
  Tensors losses;
  for (const auto& model : models_) losses.push_back(model->step());
  return at::stack(losses);
}

Tensor SeparateModels::step_spread(int threads) {
  Tensors losses(models_.size());
  call_spread(static_cast<int64_t>(models_.size()), threads, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      losses[static_cast<size_t>(m)] = models_[static_cast<size_t>(m)]->step();
  });
  return at::stack(losses);
}

}  // namespace wide
