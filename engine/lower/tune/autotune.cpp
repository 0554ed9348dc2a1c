#include "engine/lower/tune/autotune.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/error.h"
#include "engine/lower/tune/quick_time.h"
#include "engine/measure/stopwatch.h"

namespace wide {
namespace {

constexpr double kFaster = 0.98;  // share of the best time so far; a smaller gain is noise

class Autotune {
 public:
  Autotune(const Ensemble& ensemble, const AutotuneOptions& options, const MakeAttempt& make,
           ResultMemory& results)
      : ensemble_(ensemble), options_(options), make_(make), results_(results) {}

  Attempt run() {
    if (const auto known = tuning_table().lookup(options_.key))
      if (const int ranges = std::atoi(known->strategy.c_str()); ranges > 0)
        return make_({{}, ranges, false});
    end_ns_ = now_ns() + 1e9 * options_.budget_s;
    best_ = make_({});
    std::vector<TunedChoice> choices = chosen();
    std::ranges::sort(choices, [](const TunedChoice& a, const TunedChoice& b) {
      return a.median_ns > b.median_ns;
    });
    for (const TunedChoice& choice : choices)
      for (const std::string& other : choice.applicable)
        if (other != choice.strategy && now_ns() < end_ns_) try_strategy(choice, other);
    if (now_ns() < end_ns_) consider(make_({decided_, 0, true}));
    remember();
    return std::move(best_);
  }

 private:
  std::vector<TunedChoice> chosen() const {
    return best_.widening->choices(best_.executor->models_at_a_time());
  }

  void try_strategy(const TunedChoice& choice, const std::string& strategy) {
    DecidedStrategies decided = decided_;
    decided[choice.key.text()] = strategy;
    try {
      if (consider(make_({decided, 0, false}))) decided_ = std::move(decided);
    } catch (const Unsupported&) {  // the strategy's operator has no gradient
    } catch (const c10::Error&) {
    }
  }

  /// Whether `other` is faster than the best so far, and is now the best itself.
  bool consider(Attempt other) {
    constexpr int kTurns = 5;
    double best_ns = std::numeric_limits<double>::max(), other_ns = best_ns;
    for (int turn = 0; turn < kTurns; ++turn) {
      best_ns = std::min(best_ns, time(*best_.executor));
      other_ns = std::min(other_ns, time(*other.executor));
      if (other_ns > 1.5 * best_ns) break;
    }
    best_ns_ = std::min(best_ns, other_ns);
    if (other_ns > kFaster * best_ns) return false;
    best_ = std::move(other);
    return true;
  }

  double time(Executor& executor) {
    constexpr double kTurn_ns = 5e6;
    const Tensors& results = results_.next(executor);
    Stopwatch watch(ensemble_.device());
    const auto once = [&] {
      return watch.time_ns([&] { executor.run(ensemble_.tensors, results); });
    };
    const double first = once();  // wakes the threads
    return median_ns(once, std::clamp(static_cast<int>(kTurn_ns / (first + 1)), 1, 41));
  }

  void remember() {
    if (best_ns_ == 0) best_ns_ = time(*best_.executor);
    for (const TunedChoice& choice : chosen())
      if (choice.applicable.size() > 1)
        tuning_table().store(choice.key, {choice.strategy, best_ns_});
    tuning_table().store(options_.key, {std::to_string(best_.executor->ranges()), best_ns_});
  }

  const Ensemble& ensemble_;
  const AutotuneOptions& options_;
  const MakeAttempt& make_;
  ResultMemory& results_;
  Attempt best_;
  DecidedStrategies decided_;
  double best_ns_ = 0, end_ns_ = 0;
};

}  // namespace

std::string hash_text(const std::string& program,
                      const std::map<std::string, std::string>& forced) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  };
  add(program);
  for (const auto& [primitive, strategy] : forced) add(" " + primitive + "=" + strategy);
  return fmt::format("{:016x}", hash);
}

Attempt autotune(const Ensemble& ensemble, const AutotuneOptions& options, const MakeAttempt& make,
                 ResultMemory& results) {
  return Autotune(ensemble, options, make, results).run();
}

}  // namespace wide
