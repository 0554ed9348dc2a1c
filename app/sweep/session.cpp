#include "app/sweep/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "app/version.h"
#include "app/worker/host.h"
#include "data/machine/gpu.h"
#include "data/machine/load.h"
#include "data/machine/peaks.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

/// Time over which the load of other programs is measured: the system counts processor time
/// coarsely.
constexpr double kLookS = 0.3;
/// Until so many cases are done, the time left is the estimate for all cases, uncorrected by their
/// times.
constexpr size_t kSomeCases = 10;

/// Captures this machine's environment, with the GPU that the cases use.
Environment this_machine(const std::string& command, const std::vector<SweepCase>& cases) {
  Environment e = capture_environment(command, version(), git_state());
  for (const SweepCase& c : cases)
    if (!c.device.is_cpu() && e.gpu.empty()) add_gpu(e, c.device);
  return e;
}

/// The cases to run; with --each-machine repeated for every machine.
std::vector<SweepCase> cases_of(SweepRequest* request) {
  std::vector<SweepCase> cases = std::move(request->cases);
  if (!request->settings.each_machine || !cases.front().machine.empty()) return cases;
  std::vector<std::string> machines;
  for (const Environment& machine : request->machines) machines.push_back(machine_name(machine));
  if (machines.empty()) machines.push_back(machine_name(this_machine(request->command, cases)));
  return on_each_machine(cases, std::move(machines));
}

SweepSettings with_store(SweepSettings settings, const std::string& db) {
  settings.tuning_db = db;
  return settings;
}

}  // namespace

SweepSession::SweepSession(SweepRequest request)
    : runner_(cases_of(&request), with_store(std::move(request.settings), request.db)) {
  const LoadWatch watch;
  const double begun_s = now_s();
  const std::vector<SweepCase>& cases = runner_.cases();
  const SweepSettings& settings = runner_.settings();
  report_.name = request.name;
  report_.command = request.command;
  const bool elsewhere = !request.machines.empty();
  if (elsewhere) {
    report_.environment = request.machines.front();
  } else {
    allow_tf32(settings.tf32);
    report_.environment = this_machine(request.command, cases);
    const c10::Device first = cases.front().device;
    const Peaks peaks = first.is_cpu() ? machine_peaks(first, settings.threads)
                                       : peaks_by_worker(first, settings.threads, settings.tf32);
    add_peaks(report_.environment, peaks);
    runner_.use_peaks(first, peaks);
    here_ = report_.environment;
  }
  elsewhere_ = elsewhere;
  report_.id = report_.environment.date;
  runner_.use_machine(machine_name(report_.environment));
  if (!request.db.empty()) {
    StoredCases stored = cases_to_store(request.name, cases, settings, report_.environment);
    stored.any_machine = elsewhere;
    recorder_.emplace(Store::create(request.db), stored, request.resume);
    std::vector<Environment>& machines = request.machines;
    if (!elsewhere && request.resume != Resume::no) machines.push_back(report_.environment);
    for (const Environment& machine : machines) recorder_->add_machine(machine);
    if (request.resume != Resume::no) {  // finished cases may come from other machines
      const SweepReport kept = recorder_->stored();
      report_.command = kept.command;
      report_.environment = kept.environment;
      report_.changes = kept.changes;
      machines = kept.machines;
      machines.push_back(kept.environment);
    }
    report_.id = std::to_string(recorder_->id());
    recorder_->attach(runner_);  // first, so that what other observers show as done is stored
  }
  for (const SweepCase& c : cases) {
    estimates_s_.push_back(estimate_seconds({c}, settings.budget_s));
    left_estimate_s_ += estimates_s_.back();
  }
  for (const Environment& machine : request.machines)
    if (std::ranges::none_of(
            report_.machines,
            [&](const Environment& e) { return machine_name(e) == machine_name(machine); }) &&
        machine_name(machine) != machine_name(report_.environment))
      report_.machines.push_back(machine);
  if (elsewhere) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(begun_s + kLookS - now_s()));
  if (const double load = watch.other_load(); load > kDisturbedShare)
    busy_ = fmt::format(
        "other programs took {:.0f} % of the cores as it began: what they disturb is UNCLEAR",
        100 * load);
}

std::string SweepSession::run() {
  runner_.add(*this);  // last, so that a case's time does not include other observers' work
  workers_ = runner_.workers();
  std::string state = runner_.run();
  sort_cases();
  note_changes();
  return state;
}

void SweepSession::note_changes() {
  if (elsewhere_) return;  // this machine's load does not affect the measuring ones
  Environment now;
  now.cores = usable_cores();
  now.threads = here_.threads;
  read_processor(now);
  for (const SweepCase& c : runner_.cases())
    if (!c.device.is_cpu() && !now.gpu_state) add_gpu(now, c.device);
  add_changes(changes_between(here_, now));
  if (!busy_.empty()) add_changes({busy_});
}

void SweepSession::add_changes(const std::vector<std::string>& changes) {
  report_.changes.insert(report_.changes.end(), changes.begin(), changes.end());
  if (recorder_ && !changes.empty()) recorder_->add_changes(changes);
}

void SweepSession::sort_cases() {
  std::vector<std::pair<size_t, Case>> all;
  for (size_t i = 0; i < places_.size(); ++i)
    all.emplace_back(places_[i], std::move(report_.cases[i]));
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first < b.first; });
  report_.cases.clear();
  for (auto& [place, result] : all) report_.cases.push_back(std::move(result));
}

void SweepSession::on_begin(const SweepCase& planned) {
  const std::lock_guard lock(mutex_);
  begun_s_[runner_.index(planned)] = now_s();
}

void SweepSession::on_case(const SweepCase& planned, const Case& result) {
  on_known(planned, result);
  const size_t index = runner_.index(planned);
  const std::lock_guard lock(mutex_);
  run_estimate_s_ += estimates_s_.at(index);
  run_s_ += now_s() - begun_s_.at(index);
  begun_s_.erase(index);
  ++run_;
}

void SweepSession::on_known(const SweepCase& planned, const Case& result) {
  const size_t index = runner_.index(planned);
  report_.cases.push_back(result);
  places_.push_back(index);
  const std::lock_guard lock(mutex_);
  left_estimate_s_ -= estimates_s_.at(index);
}

void SweepSession::on_lost(const std::string& what) {
  add_changes({what});
  const std::lock_guard lock(mutex_);
  if (workers_ > 1) --workers_;
}

double SweepSession::left_s() const {
  const std::lock_guard lock(mutex_);
  const double pace = run_ >= kSomeCases && run_estimate_s_ > 0 ? run_s_ / run_estimate_s_ : 1;
  double spent_s = 0;
  for (const auto& [index, begun_s] : begun_s_) spent_s += now_s() - begun_s;
  return std::max(0.0, left_estimate_s_ * pace - spent_s) / static_cast<double>(workers_);
}

}  // namespace wide
