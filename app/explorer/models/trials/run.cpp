#include "app/explorer/models/trials/run.h"

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/options.h"
#include "app/sweep/text.h"
#include "data/escape.h"
#include "data/one_line.h"
#include "data/reports/sweep/report.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

/// Key of the jobs that prepare a sweep: only the newest one counts.
constexpr const char* kStart = "start";

std::vector<std::string> list_of(const std::set<std::string>& names) {
  return {names.begin(), names.end()};
}

SweepSettings settings_of(const RunChoices& choices) {
  SweepSettings settings;
  settings.budget_s = choices.budget_s;
  settings.threads = set_threads(0);
  settings.all_cores = true;
  settings.baselines = list_of(choices.baselines);
  settings.timeout_s = choices.timeout_s;
  return settings;
}

Preset preset_of(const RunChoices& choices) {
  Preset preset = find_preset(choices.preset);
  preset.targets = list_of(choices.targets);
  return preset;
}

/// Whether a preset of the program times some baselines only.
bool names_baselines(const std::string& preset) {
  static const std::vector<Preset> all = presets();
  return std::ranges::any_of(
      all, [&](const Preset& p) { return p.name == preset && !p.baselines.empty(); });
}

/// The choices that a preset contains.
RunChoices choices_of(const std::string& name) {
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
  const std::vector<std::string> devices = expand_devices(p.devices);
  c.devices = {devices.begin(), devices.end()};
  c.baselines = {p.baselines.begin(), p.baselines.end()};
  c.budget_s = p.budget_s;
  return c;
}

}  // namespace

std::vector<std::string> baselines_on(const std::set<std::string>& devices) {
  const bool cpu = devices.count("cpu") > 0, other = devices.size() > (cpu ? 1U : 0U);
  std::vector<std::string> names;
  for (const std::string& name : baseline_names()) {
    if (name == "threads" && !cpu) continue;
    if ((name == "streams" || name == "graph") && !other) continue;
    names.push_back(name);
  }
  return names;
}

std::set<std::string> baselines_with(const RunChoices& c, const std::set<std::string>& on) {
  const std::vector<std::string> shown = baselines_on(c.devices);
  std::set<std::string> chosen;
  for (const std::string& name : baseline_names()) {
    const bool hidden = std::ranges::find(shown, name) == shown.end();
    const bool stays = hidden && (c.baselines.empty() || c.baselines.count(name) > 0);
    if (stays || on.count(name) > 0) chosen.insert(name);
  }
  return chosen.size() == baseline_names().size() ? std::set<std::string>() : chosen;
}

std::string take_seconds(const std::string& what, const std::string& text, double* seconds) {
  const std::string wrong = text.empty() ? "" : negative(text);
  if (!wrong.empty()) return fmt::format("[run] {}: {}; try 1.5", what, wrong);
  *seconds = std::strtod(text.c_str(), nullptr);
  return "";
}

std::string command_of(const RunChoices& c) {
  std::string line = "workbench sweep " + shell_word(c.preset);
  const auto add = [&](const char* option, const std::string& value) {
    line += fmt::format(" {} {}", option, shell_word(value));
  };
  const auto add_all = [&](const char* option, const std::set<std::string>& values) {
    if (!values.empty()) add(option, fmt::format("{}", fmt::join(values, ",")));
  };
  add_all("--targets", c.targets);
  if (!c.n.empty()) add("-n", c.n);
  for (const std::string& axis : c.axes) add("--axis", axis);
  add_all("--mode", c.modes);
  add_all("--dtype", c.dtypes);
  add_all("--device", c.devices);
  add_all("--phase", c.phases);
  add_all("--baselines", c.baselines);
  if (c.baselines.empty() && names_baselines(c.preset))  // all of them, not the preset's
    add("--baselines", fmt::format("{}", fmt::join(baseline_names(), ",")));
  add("--budget", fmt::format("{}", c.budget_s));
  if (c.timeout_s > 0) add("--timeout", fmt::format("{}", c.timeout_s));
  if (!c.name.empty()) add("--name", c.name);
  return line;
}

RunEstimate estimate_of(const RunChoices& c) {
  RunEstimate estimate;
  try {
    if (c.targets.empty())
      fail("[run] targets: got none, expected at least one; try a preset, or tick one in the list");
    if (!c.unread.empty()) throw Error(c.unread);
    if (!(c.budget_s > 0))
      fail("[run] seconds a trial: got {}, expected a positive number; try 1.5", c.budget_s);
    const SweepChoices choices{
        {}, c.axes, {}, list_of(c.devices), list_of(c.dtypes), list_of(c.modes), list_of(c.phases),
        c.n};
    estimate.cases = sweep_cases(preset_of(c), choices);
    estimate.trials = count_trials(estimate.cases);
    estimate.seconds = estimate_seconds(estimate.cases, c.budget_s);
  } catch (const std::exception& e) {
    estimate.error = one_line(e);
  }
  return estimate;
}

const char* to_string(RunState state) {
  static const char* const names[] = {"idle",   "preparing",  "running",
                                      "paused", "cancelling", "ended"};
  return names[static_cast<size_t>(state)];
}

/// Updates the model with the sweep's events, on the sweep's thread.
class RunModel::Watcher : public SweepObserver {
 public:
  explicit Watcher(RunModel& model) : model_(model) {}

  /// How many frames the window drew while the last case was timed.
  int64_t frames() const { return timed_frames_; }

  void on_begin(const SweepCase& planned) override {
    std::unique_lock lock(model_.mutex_);
    if (model_.pause_) {
      model_.progress_.state = RunState::paused;
      model_.wake();
      model_.unpaused_.wait(lock, [this] { return !model_.pause_ || model_.cancel_; });
    }
    model_.progress_.state = model_.cancel_ ? RunState::cancelling : RunState::running;
    where_ = fmt::format("{} {} N={}", planned.target->name, planned.shape.text(), planned.n);
    model_.progress_.doing = where_;
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

  void on_case(const SweepCase&, const Case& result) override { note(result); }
  void on_known(const SweepCase&, const Case& result) override { note(result); }

 private:
  void note(const Case& result) {
    {
      const std::lock_guard lock(model_.mutex_);
      RunProgress& p = model_.progress_;
      // A case that was cut short by the user is not stored: it has still to be done.
      const bool cut = std::any_of(result.trials.begin(), result.trials.end(), [](const Trial& t) {
        return ending_of(t.status) == Ending::not_finished;
      });
      p.timing = false;
      if (cut) return;
      ++p.done;
      for (auto& [name, share] : p.targets) {
        if (name != result.target) continue;
        ++share.done;
        for (const Trial& t : result.trials) {
          share.incorrect += ending_of(t.status) == Ending::incorrect;
          share.failed += ending_of(t.status) == Ending::failed;
        }
      }
    }
    ++model_.stored_;
    model_.wake();
  }

  RunModel& model_;
  std::string where_;
  int64_t frames_at_ = -1, timed_frames_ = 0;
};

std::string left_text(const RunProgress& p) {
  if (p.state == RunState::preparing) return "time left not known yet";
  if (p.state == RunState::ended) return "ended";
  if (p.state == RunState::cancelling) return "ending";
  if (p.done >= p.total) return "finishing";
  if (p.left_s < 1) return "longer than estimated";
  return duration_text(p.left_s) + " left";
}

RunModel::RunModel(Jobs& jobs, std::string db)
    : jobs_(jobs), db_(std::move(db)), presets_(wide::presets()) {}

RunModel::~RunModel() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

void RunModel::set_choices(RunChoices choices) {
  choices_ = std::move(choices);
  jobs_.start("estimate", [this, c = choices_]() -> Jobs::Result {
    return [this, estimate = estimate_of(c)]() mutable { estimate_ = std::move(estimate); };
  });
}

void RunModel::take_preset(const std::string& name) { set_choices(choices_of(name)); }

double RunModel::preset_seconds(const std::string& name) {
  const auto [known, first_question] = preset_seconds_.try_emplace(name, 0);
  if (first_question)
    jobs_.start("preset " + name, [this, name]() -> Jobs::Result {
      const double seconds = estimate_of(choices_of(name)).seconds;
      return [this, name, seconds] { preset_seconds_[name] = seconds; };
    });
  return known->second;
}

bool RunModel::estimating() const { return jobs_.busy("estimate") || jobs_.busy(kStart); }

bool RunModel::active() const {
  const std::lock_guard lock(mutex_);
  return progress_.state != RunState::idle && progress_.state != RunState::ended;
}

void RunModel::start() {
  if (active()) return;
  jobs_.start(kStart, [this, db = db_, c = choices_]() -> Jobs::Result {
    RunEstimate estimate = estimate_of(c);
    if (!estimate.error.empty())
      return [this, estimate = std::move(estimate)]() mutable { estimate_ = std::move(estimate); };
    return launched({c.name.empty() ? c.preset : c.name, command_of(c), std::move(estimate.cases),
                     settings_of(c), db, Resume::no});
  });
}

void RunModel::resume(int64_t sweep, Resume how) {
  if (active()) return;
  jobs_.start(kStart, [this, db = db_, sweep, how]() -> Jobs::Result {
    try {
      const StoredCases stored = Store::read(db).stored_cases(sweep);
      SweepSettings settings;
      std::vector<SweepCase> cases = cases_again(stored, &settings);
      return launched(
          {stored.name, stored.command, std::move(cases), std::move(settings), db, how});
    } catch (const std::exception& e) {
      return [this, error = one_line(e)] {
        const std::lock_guard lock(mutex_);
        progress_.error = error;
      };
    }
  });
}

Jobs::Result RunModel::launched(SweepRequest request) {
  return [this, request = std::move(request)]() mutable {
    if (!active()) launch(std::move(request));
  };
}

void RunModel::launch(SweepRequest request) {
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(mutex_);
    progress_ = {};
    progress_.state = RunState::preparing;
    progress_.name = request.name;
    progress_.doing = "measuring what the machine reaches at most";
    progress_.total = request.cases.size();
    for (const SweepCase& c : request.cases) {
      if (progress_.targets.empty() || progress_.targets.back().first != c.target->name)
        progress_.targets.emplace_back(c.target->name, RunShare{});
      ++progress_.targets.back().second.total;
    }
    pause_ = cancel_ = false;
    begun_s_ = now_s();
  }
  thread_ =
      std::thread([this, request = std::move(request)]() mutable { work(std::move(request)); });
}

void RunModel::work(SweepRequest request) {
  std::string ended, error, disturbed;
  try {
    SweepSession session(std::move(request));
    Watcher watcher(*this);
    session.runner().amend([&](Case& result) {
      watcher.end_timing();
      result.window_frames = watcher.frames();
    });
    session.runner().add(watcher);
    {
      const std::lock_guard lock(mutex_);
      progress_.sweep = session.stored_as();
      progress_.busy = session.busy();
      progress_.state = RunState::running;
      session_ = &session;
      if (cancel_) session.runner().stop();
    }
    ++stored_;
    wake();
    // Other threads may use the session until it ends.
    const auto take_back = c10::make_scope_exit([this] {
      const std::lock_guard lock(mutex_);
      session_ = nullptr;
    });
    ended = session.run();
    disturbed = disturbed_text(session.report().cases);
  } catch (const std::exception& e) {
    error = one_line(e);
  }
  {
    const std::lock_guard lock(mutex_);
    progress_.state = RunState::ended;
    progress_.elapsed_s = now_s() - begun_s_;
    progress_.timing = false;
    progress_.ended = ended;
    progress_.error = error;
    progress_.disturbed = disturbed;
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
  if (session_) session_->runner().stop();
  if (progress_.state != RunState::idle && progress_.state != RunState::ended)
    progress_.state = RunState::cancelling;
  unpaused_.notify_all();
}

RunProgress RunModel::progress() const {
  const std::lock_guard lock(mutex_);
  RunProgress p = progress_;
  if (p.state == RunState::idle || p.state == RunState::ended) return p;
  p.elapsed_s = now_s() - begun_s_;
  if (session_) p.left_s = session_->left_s();
  if (pause_ && p.state == RunState::running) p.doing += " (then it pauses)";
  return p;
}

}  // namespace wide
