#include "app/train/run/observer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/results/keeper.h"
#include "app/sandbox/sandbox.h"
#include "app/train/run/merge.h"
#include "app/train/run/slices.h"
#include "data/bytes/new_file.h"
#include "data/escape.h"
#include "data/store/store.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// The largest share of a run's time that saving may take.
constexpr double kSavingShare = 0.02;

/// Pause between two reads of the store while the run waits for a request.
constexpr std::chrono::milliseconds kLookAgain{2};

}  // namespace

void print_progress(const TrainOptions& options, const std::string& text) {
  if (options.log == "-")
    write_stderr(clean_text(text, true));
  else
    print_plain(text);
  std::fflush(stdout);  // a reader may follow it during training
}

Recorder::Recorder(const Prepared& run, Trainer& trainer, TrainState& state,
                   const RunFolder& folder, RowLog& log, const TrainSinks& sinks,
                   const Together* together)
    : run_(run),
      trainer_(trainer),
      state_(state),
      folder_(folder),
      log_(log),
      together_(together),
      quiet_(sinks.quiet),
      store_(sinks.store),
      waits_(sinks.wait),
      first_step_(state.step) {
  // A resumed run's store gets all rows of its file, which the store may lack.
  if (!together_) store_rows(state_);
  if (waits_ && !quiet_)
    print_progress(run.options, fmt::format("run {} of {} waits for requests at each evaluation\n",
                                            state.run, printable(Store::path(sinks.db))));
}

/// An evaluation and the models' bests; over ranks those of all models, which all ranks send.
TrainState Recorder::of_all_models(const Evaluated& row) const {
  TrainState own;
  own.history = {row};
  own.models = state_.models;
  if (!together_) return own;
  std::vector<TrainState> of_ranks;
  for (const Json& word : together_->group.all_gather(to_json(own)))
    of_ranks.push_back(state_of(word));
  return merge_states(of_ranks);
}

void Recorder::evaluated(const Evaluated& own) {
  const TrainState all = of_all_models(own);
  const Evaluated& row = all.history.front();
  log_.add(row);
  if (waits_) {  // the other process decides by these rows
    store_rows(state_);
    std::string idle;
    for (size_t m = 0; m < row.train_loss.size(); ++m)
      if (row.ran(m) && std::isnan(row.train_loss[m])) idle += fmt::format(" {}", m);
    if (!idle.empty())
      print_progress(run_.options,
                     fmt::format("step {}: skipped by running models{}\n", row.step, idle));
  }
  if (quiet_) return;
  std::vector<double> losses;
  for (const double loss : row.train_loss)
    if (!std::isnan(loss)) losses.push_back(loss);
  std::ranges::sort(losses);
  const double rate = double(state_.step - first_step_) / std::max(1e-9, now_s() - begun_s_);
  const std::string epoch =
      row.epoch < 1000 ? fmt::format("{:.4g}", row.epoch) : fmt::format("{:.0f}", row.epoch);
  std::string text =
      fmt::format("epoch {} · step {}/{} · {:.4g} steps/s", epoch, row.step, run_.steps, rate);
  if (row.step < run_.steps)
    text += " · ETA " + time_text(double(run_.steps - row.step) / rate * 1e9);
  if (!losses.empty()) text += fmt::format(" · loss {:.4g}", losses[losses.size() / 2]);
  const ModelState* best = nullptr;
  for (const ModelState& m : all.models)
    if (m.best &&
        (!best || (run_.monitor().more_is_better ? *m.best > *best->best : *m.best < *best->best)))
      best = &m;
  if (best)
    text += fmt::format(" · best {} {:.4g} (model {})", run_.monitor().name, *best->best,
                        best - all.models.data());
  const auto running = std::ranges::count_if(all.models, &ModelState::running);
  if (running < std::ssize(all.models))
    text += fmt::format(" · {} of {} run", running, all.models.size());
  print_progress(run_.options, text + "\n");
}

void Recorder::happened(const Event& event) {
  if (!quiet_) print_progress(run_.options, fmt::format("  {}\n", event.what));
}

void Recorder::stepped(bool evaluated) {
  const int64_t every = run_.options.save_every;
  const bool due =
      every > 0 ? state_.step % every == 0 : evaluated && (together_ ? due_ : is_due());
  if (due && state_.step < run_.steps) save();
}

bool Recorder::is_due() const { return (now_s() - saved_s_) * kSavingShare >= save_s_; }

std::vector<RunRequest> Recorder::asked() {
  const std::vector<RunRequest> own = asked_in_store();
  if (!together_) return own;
  // Rank 0 decides, so that all ranks save and obey requests after the same step.
  const Json word =
      together_->group.all_gather({{"save", is_due()}, {"requests", to_json(own)}}).front();
  due_ = word.at("save");
  return run_requests_of(word.at("requests"));
}

std::vector<RunRequest> Recorder::asked_in_store() {
  std::vector<RunRequest> all;
  if (!store_) return all;
  while (true) {
    for (RunRequest& request : keeper().take_requests(state_.run, state_.step, waits_))
      all.push_back(std::move(request));
    const auto ends = [](const RunRequest& r) {
      return r.what == "go" || (r.what == "stop" && r.model < 0);
    };
    if (!waits_ || cancelled() || std::ranges::any_of(all, ends)) break;
    heartbeat();
    std::this_thread::sleep_for(kLookAgain);
  }
  return all;
}

void Recorder::refused(const RunRequest& request, const std::string& why) {
  refused_.emplace_back(request.id, why);
}

void Recorder::save() {
  const double begun_s = now_s();
  if (together_) {
    save_together();
  } else {
    folder_.save_state(run_, trainer_, state_);
    store_rows(state_);
  }
  saved_s_ = now_s();
  save_s_ = saved_s_ - begun_s;
}

/// Each rank saves its slice. When all have, rank 0 joins them into the run's file while the others
/// wait.
void Recorder::save_together() {
  together_->group.all_gather({{"saves", state_.step}});
  for (const std::string& folder : {ranks_folder(together_->options.save), folder_.path()})
    places().folder(folder);
  folder_.save_state(run_, trainer_, state_);
  Json refused = Json::array();
  if (!together_->leads())
    for (const auto& [id, why] : std::exchange(refused_, {}))
      refused.push_back({id, renumbered(why, run_.first_model)});
  const std::vector<Json> said =
      together_->group.all_gather({{"saved", state_.step}, {"refused", refused}});
  if (!together_->leads()) return;
  for (const Json& word : said)
    for (const Json& one : word.at("refused")) refused_.emplace_back(one.at(0), one.at(1));
  store_rows(save_slices(together_->slices(), run_, together_->options));
}

/// Adds to the store what it has not seen, up to the last save: never more than a resume finds in
/// the run's file.
void Recorder::store_rows(const TrainState& of_all) {
  if (!store_ || (stored_rows_ == of_all.history.size() && stored_events_ == of_all.events.size() &&
                  refused_.empty()))
    return;
  Json rows = Json::array(), events = Json::array(), times = Json::array();
  for (; stored_rows_ < of_all.history.size(); ++stored_rows_) {
    const Evaluated& row = of_all.history[stored_rows_];
    const auto put = [&](const std::string& metric, const std::vector<double>& values) {
      for (size_t m = 0; m < values.size(); ++m)
        if (!std::isnan(values[m])) rows.push_back({m, metric, row.step, values[m]});
    };
    times.push_back({row.step, row.seconds});
    put("train_loss", row.train_loss);
    for (const auto& [metric, values] : row.values) put(metric, values);
  }
  for (; stored_events_ < of_all.events.size(); ++stored_events_) {
    const Event& e = of_all.events[stored_events_];
    events.push_back({e.step, e.model < 0 ? Json(nullptr) : Json(e.model), e.what});
  }
  Json refused = Json::array();
  for (const auto& [id, why] : std::exchange(refused_, {})) refused.push_back({id, why});
  keeper().tell_run({{"run", state_.run},
                     {"rows", rows},
                     {"events", events},
                     {"times", times},
                     {"refused", refused}});
}

}  // namespace wide
