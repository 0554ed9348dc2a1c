#include "app/worker/host.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/trial/outcome.h"
#include "data/machine/ending.h"
#include "data/machine/peaks.h"
#include "data/one_line.h"
#include "data/reports/sweep/report_read.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// How often the worker is checked while no message comes.
constexpr int kLookMs = 100;
/// A worker that uses more than this share of the available memory is replaced.
constexpr double kGrown = 0.25;

bool is_baseline(const std::string& name) { return name.rfind(kBaselinePrefix, 0) == 0; }

}  // namespace

/// One attempt at a case: its result, or what went wrong and which trial was running.
struct WorkerHost::Attempt {
  std::optional<Case> result;
  Status status = Status::crashed;
  std::string reason;
  std::string stage = "start", name;  // what ran last; an empty name: the whole case
  std::vector<std::string> timed;     // contenders, while they are being timed
  std::vector<std::string> asked;     // the strategies, in the order of the result's trials
  MemoryNeed memory;
  bool worker_was_used = false;  // it had run other cases before
  std::string error;             // about the request itself: the sweep cannot go on
  int error_code = 2;
};

double trial_limit_s(const SweepCase& planned, const SweepSettings& settings) {
  if (settings.timeout_s > 0) return settings.timeout_s;
  return 60 + 20 * settings.budget_s + 400 * estimate_call_s(planned);
}

Peaks peaks_by_worker(c10::Device device, int threads, bool tf32) {
  constexpr double kLongest_s = 180;  // first calls load libraries
  const auto failed = [&](const std::string& how) {
    throw Error(fmt::format("[{}] peaks: got {}, expected what it reaches at most; try workbench "
                            "gpu-report",
                            device.str(), printable(how, 200)),
                5);
  };
  WorkerProcess worker;
  worker.send(Json{{"peaks_of", device.str()}, {"threads", threads}, {"tf32", tf32}}.dump());
  const double begun_s = now_s();
  while (now_s() - begun_s < kLongest_s) {
    const auto [line, ended] = worker.hear(kLookMs);
    const Json said = line ? Json::parse(*line, nullptr, /*allow_exceptions=*/false) : Json();
    if (said.is_object() && said.contains("peaks")) return peaks_of(said["peaks"]);
    if (said.is_object() && said.contains("error")) failed(said["error"].get<std::string>());
    if (ended) failed("the end of its worker, " + last_line(worker.words()));
    if (cancelled()) throw Cancelled();
  }
  failed("no answer");
  return {};
}

WorkerHost::WorkerHost(SweepSettings settings) : settings_(std::move(settings)) {}

WorkerHost::~WorkerHost() = default;

Case WorkerHost::run(const SweepCase& planned, const Watch& watch) {
  SweepCase left = planned;
  SweepSettings settings = settings_;
  Case done = empty_case(planned);
  const auto trial = [&](const std::string& strategy) -> Trial& {
    return *std::ranges::find_if(done.trials,
                                 [&](const Trial& t) { return t.strategy == strategy; });
  };
  const auto fail_trial = [&](const std::string& strategy, const Attempt& a) {
    trial(strategy).status = a.status;
    trial(strategy).reason = a.reason;
    std::erase(left.strategies, strategy);
  };
  std::vector<std::string> notes;  // on baselines that crashed a worker
  const double begun_s = now_s();
  while (!left.strategies.empty()) {
    Attempt a = attempt(left, settings, watch);
    if (!a.error.empty()) throw Error(a.error, a.error_code);
    if (a.result) {
      for (Trial& t : a.result->trials) trial(t.strategy) = std::move(t);
      a.result->trials = std::move(done.trials);
      a.result->notes.insert(a.result->notes.begin(), notes.begin(), notes.end());
      a.result->seconds.total = now_s() - begun_s;
      return std::move(*a.result);
    }
    worker_.reset();
    if (is_baseline(a.name) &&
        settings.baselines_off.insert(a.name.substr(std::strlen(kBaselinePrefix))).second) {
      notes.push_back("a baseline is left out: " + a.reason);
    } else if (!a.name.empty() && !is_baseline(a.name)) {
      fail_trial(a.name, a);
    } else if (!a.worker_was_used || a.status == Status::timeout) {
      for (const std::string& strategy : std::vector(left.strategies)) fail_trial(strategy, a);
    }
    // Otherwise an earlier case may have corrupted the worker's memory: try again in a fresh one.
  }
  done.notes = std::move(notes);
  done.seconds.total = now_s() - begun_s;
  return done;
}

WorkerHost::Attempt WorkerHost::attempt(const SweepCase& planned, const SweepSettings& settings,
                                        const Watch& watch) {
  Attempt a;
  a.asked = planned.strategies;
  a.worker_was_used = worker_ != nullptr;
  if (!worker_) {
    worker_ = std::make_unique<WorkerProcess>();
    ++started_;
  }
  const bool sent = worker_->send(request_json(planned, settings).dump());
  if (sent)
    listen(a, trial_limit_s(planned, settings), watch);
  else
    describe_end(a);
  return a;
}

/// Receives messages until the result has come or the worker must be killed.
void WorkerHost::listen(Attempt& a, double limit_s, const Watch& watch) {
  Silence silence;
  for (;;) {
    if (watch.stopped()) {
      worker_.reset();
      throw Cancelled();
    }
    const auto [line, ended] = worker_->hear(kLookMs);
    if (line) {
      silence.restart();
      if (take(a, *line, watch)) return;
      continue;
    }
    if (ended) return describe_end(a);
    if (!a.timed.empty()) silence.listen(worker_->heart());
    const double silent_s = silence.seconds();
    // Stages of the whole case take longer: they run all of its models, once in float64.
    const double allowed_s = a.name.empty() && a.timed.empty() ? 3 * limit_s : limit_s;
    if (silent_s < allowed_s) continue;
    blame(a);
    a.status = Status::timeout;
    a.reason = fmt::format(
        "[{}] {}: got no end after {:.3g} s, expected at most {:.3g} s; try "
        "--timeout {:.0f}",
        a.name.empty() ? "case" : a.name, a.stage, silent_s, allowed_s, 4 * allowed_s);
    return;
  }
}

/// Handles one message of the worker; true if it was the last one.
bool WorkerHost::take(Attempt& a, const std::string& line, const Watch& watch) {
  const auto garbage = [&] {
    blame(a);
    a.reason = fmt::format(
        "[{}] {}: got {} on the worker's pipe, expected a message; try --strategy with another one",
        a.name.empty() ? "case" : a.name, a.stage, printable(line, 60));
    return true;
  };
  const auto is_known = [&](const std::string& name) {
    return name.empty() || is_baseline(name) || std::ranges::find(a.asked, name) != a.asked.end();
  };
  try {
    const Json message = Json::parse(line);
    if (message.contains("result")) {
      Case result = case_from_json(message["result"], "worker");
      if (!std::ranges::equal(result.trials, a.asked, {}, &Trial::strategy)) return garbage();
      a.result = std::move(result);
      if (message.at("resident").get<double>() > kGrown * double(available_memory()))
        worker_.reset();
      return true;
    }
    if (message.contains("error")) {
      message["error"].get_to(a.error);
      message.at("exit_code").get_to(a.error_code);
      return true;
    }
    if (message.contains("memory")) {
      a.memory = {message["memory"].at(0), message["memory"].at(1)};
    } else if (message.contains("time")) {
      const auto timed = message["time"].get<std::vector<std::string>>();
      if (!std::ranges::all_of(timed, is_known)) return garbage();
      a.timed = timed;
      a.stage = "time";
      a.name.clear();
      watch.stage(a.stage, a.name);
    } else if (!message.contains("ready")) {
      const auto name = message.at("name").get<std::string>();
      if (!is_known(name)) return garbage();
      message.at("stage").get_to(a.stage);
      a.name = name;
      a.timed.clear();
      watch.stage(a.stage, a.name);
    }
    return false;
  } catch (const Json::exception&) {
    return garbage();
  } catch (const Error&) {
    return garbage();
  }
}

/// During timing, the page of the heartbeat says which contender's call was running.
void WorkerHost::blame(Attempt& a) const {
  if (a.timed.empty()) return;
  a.name = a.timed.at(std::min<size_t>(worker_->heart().contender, a.timed.size() - 1));
}

/// After the worker is gone: finds out why, and which trial was running.
void WorkerHost::describe_end(Attempt& a) {
  blame(a);
  const WorkerProcess::End end = worker_->kill(1000);
  const std::string words = last_line(worker_->words());
  // Not every SIGKILL is for memory: a user or a batch system may send one too.
  const bool killed = end.for_memory && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL;
  const std::string thing = a.name.empty() ? "case" : a.name;
  if (killed || speaks_of_memory(words)) {
    a.status = Status::oom;
    a.reason = out_of_memory_text(thing, killed ? "killed by the system during " + a.stage : words,
                                  a.memory);
    return;
  }
  a.status = Status::crashed;
  const std::string how = !end.by_itself ? "a closed pipe"
                          : WIFSIGNALED(end.status)
                              ? signal_text(WTERMSIG(end.status))
                              : fmt::format("exit code {}", WEXITSTATUS(end.status));
  a.reason = fmt::format("[{}] {}: got {}{}, expected a result; try --strategy with another one",
                         thing, a.stage, how, words.empty() ? "" : " (" + words + ")");
}

}  // namespace wide
