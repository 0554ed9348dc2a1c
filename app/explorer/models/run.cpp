#include "app/explorer/models/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/options.h"
#include "app/sweep/record.h"
#include "app/version.h"
#include "data/machine/peaks.h"
#include "data/one_line.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/measure/clock.h"

namespace wide {
namespace {

std::vector<std::string> list_of(const std::set<std::string>& names) {
  return {names.begin(), names.end()};
}

SweepSettings settings_of(const RunChoices& choices) {
  SweepSettings settings;
  settings.budget_s = choices.budget_s;
  settings.threads = set_threads(0);
  settings.baselines = list_of(choices.baselines);
  settings.timeout_s = choices.timeout_s;
  return settings;
}

Preset preset_of(const RunChoices& choices) {
  Preset preset = find_preset(choices.preset);
  preset.targets = list_of(choices.targets);
  return preset;
}

}  // namespace

std::string command_of(const RunChoices& c) {
  std::string line = "workbench sweep " + c.preset;
  const auto add = [&](const char* option, const std::set<std::string>& values) {
    if (!values.empty()) line += fmt::format(" {} {}", option, fmt::join(values, ","));
  };
  add("--targets", c.targets);
  if (!c.n.empty()) line += " -n " + c.n;
  for (const std::string& axis : c.axes) line += " --axis " + axis;
  add("--mode", c.modes);
  add("--dtype", c.dtypes);
  add("--device", c.devices);
  add("--phase", c.phases);
  line += fmt::format(" --budget {}", c.budget_s);
  if (c.timeout_s > 0) line += fmt::format(" --timeout {}", c.timeout_s);
  if (!c.name.empty()) line += " --name " + c.name;
  return line;
}

RunPlan plan_of(const RunChoices& c) {
  RunPlan plan;
  try {
    if (c.targets.empty())
      fail("[run] targets: got none, expected at least one; try a preset, or tick one in the list");
    if (!(c.budget_s > 0))
      fail("[run] seconds a trial: got {}, expected a positive number; try 1.5", c.budget_s);
    const SweepChoices choices{
        {}, c.axes, {}, list_of(c.devices), list_of(c.dtypes), list_of(c.modes), list_of(c.phases),
        c.n};
    plan.cases = plan_sweep(preset_of(c), choices);
    plan.trials = count_trials(plan.cases);
    plan.seconds = estimate_seconds(plan.cases, c.budget_s);
  } catch (const std::exception& e) {
    plan.error = one_line(e);
  }
  return plan;
}

std::vector<PlannedCase> planned_again(const SweepPlan& plan, SweepSettings* settings) {
  const auto setting = [&](const char* name) {
    const auto it = plan.settings.find(name);
    return it == plan.settings.end() ? std::string() : it->second;
  };
  settings->budget_s = std::stod(setting("--budget"));
  settings->seed = std::stoull(setting("--seed"));
  settings->threads = std::stoi(setting("--threads"));
  if (!setting("--strategy").empty()) settings->forced = parse_strategies({setting("--strategy")});
  settings->baselines = split(setting("baselines"));
  std::vector<PlannedCase> cases;
  for (const CasePlan& c : plan.cases) {
    PlannedCase planned;
    planned.target = &find_target(c.target);
    for (const std::string& axis : split(c.shape, ' ')) {
      const size_t digits = axis.find_first_of("0123456789");
      if (digits != std::string::npos)
        planned.shape.set(axis.substr(0, digits), std::stoll(axis.substr(digits)));
    }
    planned.n = c.n;
    planned.dtype = parse_float_dtype(c.dtype);
    planned.device = parse_device(c.device);
    planned.mode = parse_mode(c.mode);
    planned.phase = c.phase;
    planned.strategies = c.strategies;
    cases.push_back(std::move(planned));
  }
  return cases;
}

const char* to_string(RunState state) {
  static const char* const names[] = {"idle",   "preparing",  "running",
                                      "paused", "cancelling", "ended"};
  return names[static_cast<size_t>(state)];
}

/// Tells the model of the sweep, on the thread that runs it.
class RunModel::Watcher : public SweepObserver {
 public:
  Watcher(RunModel& model, const SweepRunner& runner, double budget_s) : model_(model) {
    for (const PlannedCase& c : runner.cases()) {
      estimates_s_.push_back(estimate_seconds({c}, budget_s));
      model_.left_estimate_s_ += estimates_s_.back();
    }
  }

  /// How often the window drew while the case that has just ended was timed.
  int64_t frames() const { return timed_frames_; }

  void on_begin(const PlannedCase& planned) override {
    std::unique_lock lock(model_.mutex_);
    if (model_.pause_) {
      model_.progress_.state = RunState::paused;
      model_.wake();
      model_.unpaused_.wait(lock, [this] { return !model_.pause_ || model_.cancel_; });
    }
    model_.progress_.state = model_.cancel_ ? RunState::cancelling : RunState::running;
    where_ = fmt::format("{} {} N={}", planned.target->name, planned.shape.text(), planned.n);
    model_.progress_.doing = where_;
    model_.case_begun_s_ = now_s();
    timed_frames_ = 0;
    lock.unlock();
    model_.wake();
  }

  void on_stage(const std::string& what, const std::string& trial) override {
    end_timing();
    {
      const std::lock_guard lock(model_.mutex_);
      model_.progress_.timing = what == "time";
      static const std::map<std::string, std::string> words = {
          {"case", "recording"},
          {"prepare", "compiling and checking"},
          {"baseline", "preparing"},
          {"time", "timing all of them"},
          {"check", "checking again"}};
      const auto word = words.find(what);
      model_.progress_.doing = where_ + ": " + (word == words.end() ? what : word->second) +
                               (trial.empty() ? "" : " " + trial);
    }
    if (what == "time") frames_at_ = model_.frames;
    model_.wake();
  }

  void end_timing() {
    if (frames_at_ >= 0) timed_frames_ += model_.frames - frames_at_;
    frames_at_ = -1;
  }

  void on_case(const Case& result) override { note(result, true); }
  void on_known(const Case& result) override { note(result, false); }

 private:
  void note(const Case& result, bool ran) {
    {
      const std::lock_guard lock(model_.mutex_);
      RunProgress& p = model_.progress_;
      const double estimate_s = estimates_s_.at(p.done++);
      model_.left_estimate_s_ -= estimate_s;
      if (ran) {
        model_.done_estimate_s_ += estimate_s;
        model_.done_s_ += now_s() - model_.case_begun_s_;
      }
      model_.case_begun_s_ = 0;
      p.timing = false;
      for (auto& [name, share] : p.targets) {
        if (name != result.target) continue;
        ++share.done;
        for (const Trial& t : result.trials) {
          share.incorrect += t.status == Status::incorrect;
          share.failed +=
              t.status == Status::crashed || t.status == Status::timeout || t.status == Status::oom;
        }
      }
    }
    ++model_.stored_;
    model_.wake();
  }

  RunModel& model_;
  std::vector<double> estimates_s_;
  std::string where_;
  int64_t frames_at_ = -1, timed_frames_ = 0;
};

RunModel::RunModel(Jobs& jobs, std::string db)
    : jobs_(jobs), db_(std::move(db)), presets_(wide::presets()) {}

RunModel::~RunModel() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

void RunModel::set_choices(RunChoices choices) {
  choices_ = std::move(choices);
  jobs_.start("plan", [this, c = choices_]() -> Jobs::Result {
    return [this, plan = plan_of(c)]() mutable { plan_ = std::move(plan); };
  });
}

void RunModel::take_preset(const std::string& name) {
  const Preset p = find_preset(name);
  RunChoices c;
  c.preset = p.name;
  const std::map<std::string, Kind> groups = {
      {"primitives", Kind::primitive}, {"blocks", Kind::block}, {"models", Kind::model}};
  for (const std::string& target : p.targets) {
    const auto group = groups.find(target);
    if (group == groups.end()) c.targets.insert(target);
    for (const Target* t : targets())
      if (group != groups.end() && t->kind == group->second) c.targets.insert(t->name);
  }
  if (!p.n.empty()) c.n = fmt::format("{}", fmt::join(p.n, ","));
  c.modes = {p.modes.begin(), p.modes.end()};
  c.phases = {p.phases.begin(), p.phases.end()};
  c.dtypes = {p.dtypes.begin(), p.dtypes.end()};
  c.devices = {p.devices.begin(), p.devices.end()};
  c.baselines = {p.baselines.begin(), p.baselines.end()};
  c.budget_s = p.budget_s;
  set_choices(std::move(c));
}

bool RunModel::active() const {
  const std::lock_guard lock(mutex_);
  return progress_.state != RunState::idle && progress_.state != RunState::ended;
}

void RunModel::start() {
  if (active()) return;
  RunPlan plan = plan_of(choices_);  // what is asked for now, also where its job still runs
  if (!plan.error.empty()) {
    plan_ = std::move(plan);
    return;
  }
  launch(std::move(plan.cases), settings_of(choices_),
         choices_.name.empty() ? choices_.preset : choices_.name, command_of(choices_), false);
}

void RunModel::resume(int64_t sweep) {
  if (active()) return;
  try {
    const SweepPlan plan = Store::read(db_).plan(sweep);
    SweepSettings settings;
    std::vector<PlannedCase> cases = planned_again(plan, &settings);
    launch(std::move(cases), std::move(settings), plan.name, plan.command, true);
  } catch (const std::exception& e) {
    const std::lock_guard lock(mutex_);
    progress_.error = one_line(e);
  }
}

void RunModel::launch(std::vector<PlannedCase> cases, SweepSettings settings,
                      const std::string& name, const std::string& command, bool resume) {
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(mutex_);
    progress_ = {};
    progress_.state = RunState::preparing;
    progress_.name = name;
    progress_.doing = "measuring what the machine reaches at most";
    progress_.total = cases.size();
    for (const PlannedCase& c : cases) {
      if (progress_.targets.empty() || progress_.targets.back().first != c.target->name)
        progress_.targets.emplace_back(c.target->name, RunShare{});
      ++progress_.targets.back().second.total;
    }
    pause_ = cancel_ = false;
    begun_s_ = now_s();
    case_begun_s_ = left_estimate_s_ = done_estimate_s_ = done_s_ = 0;
  }
  thread_ = std::thread(
      [this, cases = std::move(cases), settings = std::move(settings), name, command,
       resume]() mutable { work(std::move(cases), std::move(settings), name, command, resume); });
}

void RunModel::work(std::vector<PlannedCase> cases, SweepSettings settings, std::string name,
                    std::string command, bool resume) {
  std::string ended, error;
  try {
    Environment environment = capture_environment(command, version(), git_state());
    add_peaks(environment, machine_peaks(cases.front().device, settings.threads));
    SweepRunner runner(cases, settings);
    SweepRecorder recorder(Store::create(db_), store_plan(name, cases, settings, environment),
                           resume);
    Watcher watcher(*this, runner, settings.budget_s);
    runner.amend([&](Case& result) {
      watcher.end_timing();
      result.window_frames = watcher.frames();
    });
    recorder.attach(runner);  // first: what is shown as done is stored
    runner.add(watcher);
    {
      const std::lock_guard lock(mutex_);
      progress_.sweep = recorder.id();
      progress_.state = RunState::running;
      runner_ = &runner;
      if (cancel_) runner.stop();
    }
    ++stored_;
    wake();
    ended = runner.run();
  } catch (const std::exception& e) {
    error = one_line(e);
  }
  {
    const std::lock_guard lock(mutex_);
    runner_ = nullptr;
    progress_.state = RunState::ended;
    progress_.elapsed_s = now_s() - begun_s_;
    progress_.timing = false;
    progress_.ended = ended;
    progress_.error = error;
    progress_.doing.clear();
  }
  ++stored_;
  wake();
}

void RunModel::pause() {
  const std::lock_guard lock(mutex_);
  pause_ = true;
}

void RunModel::go_on() {
  const std::lock_guard lock(mutex_);
  pause_ = false;
  unpaused_.notify_all();
}

void RunModel::cancel() {
  const std::lock_guard lock(mutex_);
  cancel_ = true;
  if (runner_) runner_->stop();
  if (progress_.state != RunState::idle && progress_.state != RunState::ended)
    progress_.state = RunState::cancelling;
  unpaused_.notify_all();
}

RunProgress RunModel::progress() const {
  const std::lock_guard lock(mutex_);
  RunProgress p = progress_;
  if (p.state == RunState::idle || p.state == RunState::ended) return p;
  p.elapsed_s = now_s() - begun_s_;
  // The estimate counts until ten cases are done, then what they took of theirs.
  const double pace = p.done >= 10 && done_estimate_s_ > 0 ? done_s_ / done_estimate_s_ : 1;
  const double spent_s = case_begun_s_ > 0 ? now_s() - case_begun_s_ : 0;
  p.left_s = std::max(0.0, left_estimate_s_ * pace - spent_s);
  if (pause_ && p.state == RunState::running) p.doing += " (then it pauses)";
  return p;
}

}  // namespace wide
