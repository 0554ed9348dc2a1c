#include "app/train/run/loop.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/cancel.h"
#include "app/sandbox/sandbox.h"
#include "app/train/inputs/empty_batch.h"
#include "app/train/run/evaluate.h"
#include "app/train/run/observer.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {
using Json = nlohmann::ordered_json;
constexpr size_t kMostCheckNotes = 10;
}  // namespace

Loop::Loop(const Prepared& run, Trainer& trainer, TrainState& state, Recorder& recorder,
           RankGroup* others)
    : run_(run), trainer_(trainer), state_(state), recorder_(recorder), others_(others) {
  if (run.halving.factor > 0) {
    prune_factor_ = run.halving.factor;
    next_rung_ = run.halving.grace;
    while (next_rung_ <= static_cast<int64_t>(state.history.size())) next_rung_ *= prune_factor_;
  }
}

bool Loop::run() {
  const double begun_s = now_s() - state_.seconds;
  if (others_) gather_standings();
  while (state_.step < run_.steps && goes_on()) {
    if (cancelled()) return false;
    if (trainer_.running().empty()) {  // other ranks go on, and meet this one at evaluations
      ++state_.step;
      ++state_.loss_steps;
    } else {
      make_step();
    }
    state_.seconds = now_s() - begun_s;
    const bool due = state_.step % run_.eval_every == 0 || state_.step == run_.steps ||
                     (!others_ && trainer_.running().empty()) || some_end();
    if (due) look();
    finish();
    state_.seconds = now_s() - begun_s;
    // Before saving, so that the file holds what the requests changed.
    if (due && do_what_is_asked()) return false;
    recorder_.stepped(due);
  }
  for (ModelState& m : state_.models)
    if (m.running()) {
      m.status = "trained";
      m.at_step = state_.step;
    }
  return true;
}

void Loop::make_step() {
  const Batch batch = run_.feed->training(state_.step);
  const bool checked = state_.step < run_.options.check;
  const double asked = now_ns();
  const StepCheck check = checked ? trainer_.check(batch) : StepCheck();
  const StepResult result = trainer_.step(batch);
  if (first_call_ns_ == 0) first_call_ns_ = now_ns() - asked;
  // Models that are not finite cannot be compared.
  if (checked && !check.pass && !result.suppressed.any().item<bool>()) refuse(check);
  ++state_.step;
  note_differences(check);
  heartbeat();
  note(batch, result);
}

bool Loop::rung_is_next() const {
  return prune_factor_ > 0 && static_cast<int64_t>(state_.history.size()) + 1 == next_rung_;
}

std::vector<Loop::Standing> Loop::standings() const {
  std::vector<int64_t> running = trainer_.running();
  std::ranges::sort(running);
  std::vector<Standing> all;
  for (const int64_t m : running)
    all.push_back({run_.first_model + m, state_.models[static_cast<size_t>(m)].best});
  return all;
}

void Loop::gather_standings() {
  int64_t last = 0;  // last step at which one of these models ran
  for (const ModelState& m : state_.models)
    last = std::max(last, m.running() ? state_.step : m.at_step);
  Json word = {{"running", trainer_.running().size()}, {"last", last}, {"best", Json::array()}};
  if (rung_is_next())
    for (const Standing& s : standings())
      word["best"].push_back({s.model, s.best ? Json(*s.best) : Json(nullptr)});
  over_ = true;
  standings_.clear();
  for (const Json& said : others_->all_gather(word)) {
    over_ = over_ && said.at("running") == 0;
    over_since_ = std::max(over_since_, said.at("last").get<int64_t>());
    for (const Json& s : said.at("best")) {
      Standing& standing = standings_.emplace_back();
      s.at(0).get_to(standing.model);
      if (!s.at(1).is_null()) standing.best = s.at(1).get<double>();
    }
  }
}

void Loop::refuse(const StepCheck& check) const {
  throw Error(fmt::format("[train] check of step {}: got {}, expected the gradients of separate "
                          "models in float64 within {:.1e}; try --check 0 and report it",
                          state_.step + 1, printable(check.failure, 300), check.tolerance),
              4);
}

void Loop::note_differences(const StepCheck& check) {
  for (const StepCheck::Vanished& v : check.vanished) {
    if (state_.check_notes.size() == kMostCheckNotes) {
      ++state_.check_notes_left_out;
      continue;
    }
    state_.check_notes.push_back(fmt::format(
        "check of step {}, model {}: gradient of {} off float64 by {:.2g} of the largest, loss by "
        "{:.2g}; no error: {}",
        state_.step, v.model, printable(v.tensor), v.gradient_error, v.loss_error, v.why));
  }
}

/// Adds up losses. A model whose loss or gradient is not finite was not changed by the step: it is
/// stopped as diverged, or skips the step if no row of its batch counts.
void Loop::note(const Batch& batch, const StepResult& result) {
  Tensor losses = result.losses.to(at::kDouble, false, /*copy=*/true);
  ++state_.loss_steps;
  const Tensor suppressed = result.suppressed.to(at::kBool).contiguous();
  for (const int64_t m : std::vector<int64_t>(trainer_.running()))
    if (suppressed.const_data_ptr<bool>()[m]) {
      if (counts_for_nothing(run_.loss.loss, batch, m)) {
        skip(m);
        losses[m] = 0;
      } else {
        stop(m, "diverged", fmt::format("model {} diverged at step {}", m, state_.step));
      }
    }
  state_.loss_sum.add_(losses);
}

void Loop::skip(int64_t model) {
  ModelState& m = state_.models[static_cast<size_t>(model)];
  ++m.skipped_since;
  if (m.skipped++ > 0) return;  // only the first one is an event
  say(model,
      fmt::format("model {} skips step {}: nothing in its batch counts (ignored, or of weight 0)",
                  model, state_.step));
}

void Loop::stop(int64_t model, const std::string& status, const std::string& what) {
  trainer_.stop(model);
  ModelState& m = state_.models[static_cast<size_t>(model)];
  m.status = status;
  m.at_step = state_.step;
  say(model, what);
}

bool Loop::better(double value, double best) const {
  const double gain = run_.monitor().more_is_better ? value - best : best - value;
  return gain > run_.options.min_delta;
}

void Loop::look() {
  Evaluated row;
  row.step = state_.step;
  row.epoch = double(state_.step) / double(run_.feed->steps_per_epoch());
  row.seconds = state_.seconds;
  row.wall_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double* sums = state_.loss_sum.const_data_ptr<double>();
  for (int64_t m = 0; m < run_.n(); ++m) {
    ModelState& model = state_.models[static_cast<size_t>(m)];
    const int64_t made = state_.loss_steps - std::exchange(model.skipped_since, 0);
    row.made.push_back(model.running() ? double(made) : std::nan(""));
    row.train_loss.push_back(model.running() && made > 0 ? sums[m] / double(made) : std::nan(""));
  }
  state_.loss_sum.zero_();
  state_.loss_steps = 0;
  if (run_.data.has_validation() && !trainer_.running().empty())
    row.values = evaluate(run_, trainer_, run_.validation());
  std::vector<int64_t> improved;
  for (const int64_t m : std::vector<int64_t>(trainer_.running())) {
    ModelState& model = state_.models[static_cast<size_t>(m)];
    model.last["train_loss"] = row.train_loss[static_cast<size_t>(m)];
    if (row.values.empty()) continue;
    for (const auto& [metric, values] : row.values)
      model.last[metric] = values[static_cast<size_t>(m)];
    const double value = row.values.at(run_.monitor().name)[static_cast<size_t>(m)];
    if (std::isfinite(value) && (!model.best || better(value, *model.best))) {
      model.best = value;
      model.best_step = state_.step;
      model.without_better = 0;
      model.at_best = model.last;
      improved.push_back(m);
    } else if (run_.options.patience > 0 && ++model.without_better >= run_.options.patience) {
      stop(m, "stopped",
           fmt::format("model {} stopped at step {}: no better {} since step {}", m, state_.step,
                       run_.monitor().name, model.best_step));
    }
  }
  if (!improved.empty()) keep_best(improved);
  if (others_)
    gather_standings();
  else if (rung_is_next())
    standings_ = standings();
  const bool rung = rung_is_next();
  if (over_ && over_since_ < state_.step) {  // one process would have ended at that step
    state_.step = row.step = over_since_;
    row.epoch = double(row.step) / double(run_.feed->steps_per_epoch());
    if (!state_.history.empty() && state_.history.back().step == row.step) return;
  }
  state_.history.push_back(row);
  if (rung) prune();
  recorder_.evaluated(row);
}

void Loop::say(int64_t model, const std::string& what) {
  state_.events.push_back({state_.step, model, what});
  recorder_.happened(state_.events.back());
}

bool Loop::some_end() const {
  const auto& running = trainer_.running();
  const auto& all = run_.ends_of_all;
  const bool own = std::ranges::any_of(
      running, [&](int64_t m) { return run_.ends[static_cast<size_t>(m)] == state_.step; });
  if (!others_ || std::ranges::find(all, state_.step) == all.end()) return own;
  const std::vector<Json> said = others_->all_gather({{"end", own}});
  return std::ranges::any_of(said, [](const Json& j) { return j.at("end") == true; });
}

void Loop::finish() {
  for (const int64_t m : std::vector<int64_t>(trainer_.running())) {
    if (run_.ends[static_cast<size_t>(m)] > state_.step || state_.step == run_.steps) continue;
    trainer_.stop(m);
    state_.models[static_cast<size_t>(m)].status = "trained";
    state_.models[static_cast<size_t>(m)].at_step = state_.step;
  }
}

void Loop::set_hyperparameter(const RunRequest& request) {
  const bool nothing = (request.key == "dropout" && !run_.network.has_dropout()) ||
                       (request.key == "label_smoothing" && run_.loss.loss.name != "cross_entropy");
  if (nothing)
    fail("[train] {}: got it, expected one that this run has a use for; try lr", request.key);
  for (int64_t m = 0; m < run_.n(); ++m) {
    if (request.model >= 0 && m != request.model) continue;
    const double before = trainer_.hyperparameter(request.key, m);
    trainer_.set_hyperparameter(request.key, m, request.value);
    if (request.model >= 0)
      say(m, fmt::format("model {} at step {}: {} from {} to {}, asked to", m, state_.step,
                         request.key, before, request.value));
  }
  if (request.model < 0 && leads())
    say(-1, fmt::format("all models at step {}: {} to {}, asked to", state_.step, request.key,
                        request.value));
}

void Loop::copy_model(const RunRequest& request) {
  if (others_ && (request.source < 0 || request.source >= run_.n()))
    fail("[train] source: got a model of another rank, expected {} to {}; try one process",
         run_.first_model, run_.first_model + run_.n() - 1);
  trainer_.copy(request.source, request.model);
  say(request.model, fmt::format("model {} at step {}: takes the weights of model {}, asked to",
                                 request.model, state_.step, request.source));
}

void Loop::do_one(const RunRequest& request) {
  const int64_t m = request.model;
  if (request.what == "set") {
    set_hyperparameter(request);
  } else if (request.what == "copy") {
    copy_model(request);
  } else if (request.what == "stop" && m >= 0 && state_.models[static_cast<size_t>(m)].running()) {
    stop(m, "stopped", fmt::format("model {} stopped at step {}: asked to", m, state_.step));
  }
}

bool Loop::do_what_is_asked() {
  bool all = false;
  const int64_t first = others_ ? run_.first_model : 0;
  const int64_t count = others_ ? static_cast<int64_t>(run_.everyone.size()) : run_.n();
  for (RunRequest request : recorder_.asked()) {
    const int64_t m = request.model;
    const bool of_one = 0 <= m && m < count, own = first <= m && m < first + run_.n();
    if (of_one && !own) continue;  // concerns a model of another rank
    try {
      if (m >= count)
        fail("[train] model: got {}, expected 0 to {}; try one of these", m, count - 1);
      if (of_one) request.model -= first;
      request.source -= first;
      do_one(request);
      all |= request.what == "stop" && m < 0;
    } catch (const Error& e) {
      recorder_.refused(request, e.what());
      if (own || leads())
        say(request.model, fmt::format("refused at step {}: {}", state_.step, e.what()));
    }
  }
  if (all && leads()) say(-1, fmt::format("the run stopped at step {}: asked to", state_.step));
  return all;
}

void Loop::keep_best(const std::vector<int64_t>& improved) {
  const Tensor models = at::tensor(improved, at::kLong);
  for (const auto& [name, tensor] : trainer_.weights()) {
    Tensor& best = state_.best[name];
    if (!best.defined())
      best = tensor.clone();
    else if (!trainer_.shared(name))
      best.index_copy_(0, models, tensor.index_select(0, models));
  }
}

/// The best 1/factor of all models, including other ranks', go on; the others are pruned.
void Loop::prune() {
  next_rung_ *= prune_factor_;
  const auto value = [&](const Standing& s) {
    const double worst = std::numeric_limits<double>::infinity();
    if (!s.best) return worst;
    return run_.monitor().more_is_better ? -*s.best : *s.best;
  };
  std::ranges::stable_sort(
      standings_, [&](const Standing& a, const Standing& b) { return value(a) < value(b); });
  const auto factor = static_cast<size_t>(prune_factor_);
  const size_t kept = std::max<size_t>(1, (standings_.size() + factor - 1) / factor);
  std::vector<int64_t> pruned;  // models of this rank
  for (size_t i = kept; i < standings_.size(); ++i)
    if (const int64_t m = standings_[i].model - run_.first_model; 0 <= m && m < run_.n())
      pruned.push_back(m);
  std::ranges::sort(pruned);
  for (const int64_t m : pruned)
    stop(m, "pruned",
         fmt::format("model {} pruned at step {}: not among the best {}", m, state_.step, kept));
}

}  // namespace wide
