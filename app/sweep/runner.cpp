#include "app/sweep/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <thread>

#include "app/cancel.h"
#include "app/sweep/queue.h"
#include "app/worker/host_worker.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using std::chrono::milliseconds;

/// How long to wait for a message where there is one worker, and the pause between two rounds of
/// polling where there are several. Not shorter, as polling takes time from the measuring cores.
constexpr milliseconds kPatience{100}, kPollPause{10};
/// After a case was lost with this many workers, its trials count as crashed.
constexpr int kMostLost = 3;

}  // namespace

/// One call of `run`: which worker has which case.
class SweepRunner::Round {
 public:
  Round(SweepRunner& runner, std::vector<std::unique_ptr<Worker>> workers)
      : runner_(runner),
        count_(workers.size()),
        queue_(runner.order(workers.size() > 1), runner.cases_.size()) {
    for (auto& worker : workers) slots_.push_back({std::move(worker), std::nullopt});
  }

  /// Runs all cases. When asked to stop, reports the running cases as cancelled and throws
  /// Cancelled.
  void operator()() {
    for (;;) {
      if (runner_.stopped() && (busy() || !queue_.empty())) cancel();
      hand_out();
      if (!busy() && queue_.empty()) return;
      const bool all_live =
          std::ranges::all_of(slots_, [](const Slot& s) { return s.worker->alive(); });
      if (!busy() && all_live) refuse_waiting();
      const bool single = slots_.size() == 1;
      bool any = false;
      for (Slot& slot : slots_) any |= listen(slot, single ? kPatience : milliseconds(0));
      remove_lost_workers();
      if (!any && !single) std::this_thread::sleep_for(kPollPause);
    }
  }

 private:
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::optional<size_t> index;  // position of the case that it runs; nullopt: it is idle
  };

  const SweepCase& planned(size_t index) const { return runner_.cases_[index]; }

  bool fits(const Slot& slot, size_t index) const {
    const std::string& wanted = planned(index).machine;
    if (wanted.empty()) return true;
    const std::string own = slot.worker->machine();
    return (own.empty() ? runner_.machine_ : own) == wanted;
  }

  /// Throws Error: the remaining cases must run on a machine that has no worker left.
  [[noreturn]] void refuse_waiting() const {
    throw Error(fmt::format("[sweep] workers: got none left on {}, expected one; try --resume",
                            printable(planned(queue_.front()).machine)),
                1);
  }

  bool busy() const {
    return std::ranges::any_of(slots_, [](const Slot& s) { return s.index.has_value(); });
  }

  /// Gives each idle worker the next case that it may run. Cases with a stored result are skipped.
  void hand_out() {
    for (Slot& slot : slots_) {
      if (slot.index || !slot.worker->alive()) continue;
      while (const auto index = queue_.take([&](size_t i) { return fits(slot, i); })) {
        const SweepCase& next = planned(*index);
        if (const auto done = runner_.known_ ? runner_.known_(next) : std::nullopt) {
          for (SweepObserver* o : runner_.observers_) o->on_known(next, *done);
          continue;
        }
        if (runner_.stopped()) {
          queue_.give_back(*index);
          return cancel();
        }
        for (SweepObserver* o : runner_.observers_) o->on_begin(next);
        slot.index = index;
        slot.worker->send(next);
        break;
      }
    }
  }

  /// Handles one message of a busy worker; returns whether there was one within `patience`.
  bool listen(Slot& slot, milliseconds patience) {
    if (!slot.index) return false;
    std::optional<WorkerNews> news = slot.worker->receive(patience);
    if (!news) return false;
    if (!news->result) {
      for (SweepObserver* o : runner_.observers_) o->on_stage(news->stage, news->trial);
      return true;
    }
    finish(slot, std::move(*news->result));
    return true;
  }

  void finish(Slot& slot, Case result) {
    const SweepCase& of = planned(*slot.index);
    slot.index.reset();
    if (result.machine.empty()) result.machine = runner_.machine_;
    if (runner_.amend_) runner_.amend_(result);
    for (SweepObserver* o : runner_.observers_) o->on_case(of, result);
  }

  /// Removes lost workers and puts their cases back into the queue. Throws Error if no worker is
  /// left for the remaining cases.
  void remove_lost_workers() {
    // Asked once: a worker that falls silent meanwhile is removed in the next turn, with its case.
    std::vector<Slot> silent;
    const auto live_end = std::stable_partition(slots_.begin(), slots_.end(),
                                                [](const Slot& s) { return s.worker->alive(); });
    std::move(live_end, slots_.end(), std::back_inserter(silent));
    slots_.erase(live_end, slots_.end());
    for (Slot& slot : silent) {
      while (slot.index && listen(slot, milliseconds(0))) {
      }
      const std::string what = fmt::format("{} is lost: no heartbeat{}", slot.worker->name(),
                                           slot.index ? "; another worker takes its case" : "");
      for (SweepObserver* o : runner_.observers_) o->on_lost(what);
      if (!slot.index) continue;
      const size_t index = *slot.index;
      if (queue_.give_back(index) < kMostLost) {
        slot.index.reset();
        continue;
      }
      queue_.take([index](size_t i) { return i == index; });
      Case lost = empty_case(planned(index));
      for (Trial& t : lost.trials) {
        t.status = Status::crashed;
        t.reason = fmt::format(
            "[{}] worker: got {} workers lost in this case, expected one to finish it; try "
            "--strategy with one of its strategies",
            lost.target, kMostLost);
      }
      finish(slot, std::move(lost));
    }
    if (slots_.empty() && !queue_.empty())
      throw Error(
          fmt::format("[sweep] workers: got none left of {}, expected one; try --resume", count_),
          1);
  }

  [[noreturn]] void cancel() {
    for (Slot& slot : slots_) slot.worker->stop();
    for (Slot& slot : slots_) {
      if (!slot.index) continue;
      Case cut = empty_case(planned(*slot.index));
      if (cut.machine.empty()) cut.machine = runner_.machine_;
      for (Trial& t : cut.trials) t.status = Status::cancelled;
      for (SweepObserver* o : runner_.observers_) o->on_case(planned(*slot.index), cut);
    }
    throw Cancelled();
  }

  SweepRunner& runner_;
  size_t count_;
  CaseQueue queue_;
  std::vector<Slot> slots_;
};

SweepRunner::SweepRunner(std::vector<SweepCase> cases, SweepSettings settings)
    : cases_(std::move(cases)), settings_(std::move(settings)) {}

void SweepRunner::add(SweepObserver& observer) { observers_.push_back(&observer); }

void SweepRunner::resume(std::function<std::optional<Case>(const SweepCase&)> known) {
  known_ = std::move(known);
}

size_t SweepRunner::index(const SweepCase& planned) const {
  const auto index = &planned - cases_.data();
  WIDE_ASSERT(index >= 0 && index < static_cast<int64_t>(cases_.size()));
  return static_cast<size_t>(index);
}

bool SweepRunner::stopped() const { return stop_ || cancelled(); }

std::vector<size_t> SweepRunner::order(bool longest_first) const {
  std::vector<size_t> order(cases_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!longest_first) return order;
  std::vector<double> seconds;
  for (const SweepCase& c : cases_) seconds.push_back(estimate_seconds({c}, settings_.budget_s));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  return order;
}

std::string SweepRunner::run() {
  std::string state = "complete";
  if (workers_.empty()) workers_.push_back(std::make_unique<HostWorker>(settings_));
  try {
    Round(*this, std::exchange(workers_, {}))();
  } catch (const Cancelled&) {
    state = "cancelled";
  }
  for (SweepObserver* o : observers_) o->on_end(state);
  return state;
}

}  // namespace wide
