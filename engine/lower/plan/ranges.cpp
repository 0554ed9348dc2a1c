#include "engine/lower/plan/ranges.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/lower/tune/quick_time.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

[[maybe_unused]] const bool ranges_registered = add_pass(
    {"ranges", "cuts the models into ranges, so that each core runs its own from end to end",
     Stage::lowering, 10});

bool draws_random_numbers(const Program& program) {
  return std::ranges::any_of(program.nodes, [](const Node& node) { return node.is_random(); });
}

/// Numbers of ranges worth trying: one model each, then fewer and longer ranges down to one for
/// each thread, then all models at once. This order lets short calls rule out longer ones untimed.
std::vector<int> candidates(const Program& single, int n, const RangeOptions& options) {
  if (n == 1 || draws_random_numbers(single)) return {1};
  if (options.asked > 0) return {std::min(options.asked, n)};
  if (!options.split) return {1};
  if (!options.measure && !options.share_of_memory) return {std::min(n, options.threads)};
  std::vector<int> numbers;
  if (options.threads == 1 || (options.all_at_once && options.measure)) numbers.push_back(1);
  for (int s = std::max(options.threads, 2); s < n; s *= 2) {
    numbers.push_back(s);
    if (options.every && s + s / 2 < n) numbers.push_back(s + s / 2);
  }
  numbers.push_back(n);
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

/// Executors of the same models, timed one after the other, those with the shortest ranges first.
class Race {
 public:
  Race(const CallOf& call_of, bool in_turns) : call_of_(call_of), in_turns_(in_turns) {}

  /// Times an executor, whose calls count `weight` times; returns what a call counts, in
  /// nanoseconds.
  double add(std::unique_ptr<Executor> executor, double weight) {
    Runner next{std::move(executor), weight};
    next.ns = time(next);
    bool better = best_ns_ == 0 || next.ns < best_ns_;
    if (better && in_turns_ && best_ns_ > kShortCall_ns && next.ns < kOneCall_ns) {
      in_turns(runners_.back(), next);
      best_ns_ = runners_.back().ns;
      better = next.ns < best_ns_;
    }
    lost_ = better ? 0 : lost_ + (next.ns > kClearlySlower * best_ns_ ? 1 : 0);
    const double ns = next.ns;
    // Of slow executors only the fastest is kept: their weights may be large.
    if (better && ns > kShortCall_ns) runners_.clear();
    if (better) best_ns_ = ns;
    if (better || best_ns_ < kShortCall_ns) runners_.push_back(std::move(next));
    return ns;
  }

  /// Whether two executors since the fastest one were clearly slower: longer ranges are not tried.
  bool only_loses() const { return lost_ >= 2; }

  /// The fastest. Executors with short calls are timed again in turns and judged by their best
  /// turn, so that short disturbances by other programs do not decide.
  std::unique_ptr<Executor> winner() {
    constexpr int kTurns = 3;
    constexpr double kTurn_ns = 1e6;
    const auto by_ns = [](const Runner& a, const Runner& b) { return a.ns < b.ns; };
    const auto best = [&] { return std::min_element(runners_.begin(), runners_.end(), by_ns); };
    if (best()->ns < kShortCall_ns)
      for (int turn = 0; turn < kTurns; ++turn)
        for (Runner& r : runners_) {
          if (turn > 0 && r.ns > 2 * best()->ns) continue;
          const auto once = [&] { return call_ns(r); };
          once();  // wakes the threads
          r.ns =
              std::min(r.ns, median_ns(once, std::clamp(static_cast<int>(kTurn_ns / r.ns), 3, 15)));
        }
    return std::move(best()->executor);
  }

 private:
  static constexpr double kClearlySlower = 1.15;

  struct Runner {
    std::unique_ptr<Executor> executor;
    double weight = 1;
    double ns = 0;  // times the weight
  };

  /// Nanoseconds of a call times the runner's weight: the mean of several calls if one is too short
  /// for the clock.
  double call_ns(Runner& r) {
    constexpr double kClear_ns = 2e4;
    const int calls = r.ns > 0 ? std::clamp(static_cast<int>(kClear_ns / r.ns), 1, 64) : 1;
    const std::function<void()> call = call_of_(*r.executor);
    const double start = now_ns();
    for (int i = 0; i < calls; ++i) call();
    return r.weight * (now_ns() - start) / calls;
  }

  /// Times two executors in turns, so that a disturbance of one alone does not decide.
  void in_turns(Runner& one, Runner& other) {
    constexpr int kTurns = 5;
    one.ns = other.ns = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn < kTurns; ++turn)
      for (Runner* r : {&one, &other}) r->ns = std::min(r->ns, call_ns(*r));
  }

  /// The median of a few calls; fewer if the first is far above the best.
  double time(Runner& r) {
    const auto once = [&] { return call_ns(r); };
    const double first = r.ns = first_look_ns(once, 2 * best_ns_);
    if ((best_ns_ > 0 && first > 2 * best_ns_) || first > kSteadyCall_ns) return first;
    return median_ns(once, std::clamp(static_cast<int>(1e7 / (first + 1)), 3, 41));
  }

  const CallOf& call_of_;
  const bool in_turns_;
  std::vector<Runner> runners_;
  double best_ns_ = 0;
  int lost_ = 0;  // executors since the fastest one that were clearly slower
};

/// What to try after a call with one model at a time.
enum class Then { fewer_ranges, all_at_once, nothing };

/// Longer ranges share the cost of starting operators. If one model takes long, that cost is
/// negligible; running all models at once may still use threads that would wait for the last model.
Then after_one_at_a_time(double ns, int models, const RangeOptions& options) {
  constexpr double kLongModel_ns = 2e6;
  constexpr double kShortModel_ns = 3e5;  // its time may be mostly the cost of starting operators
  constexpr double kIdle = 1.1;
  const int rounds = (models + options.threads - 1) / options.threads;
  const double model_ns = ns / rounds;
  if (model_ns > kLongModel_ns)
    return rounds * options.threads < kIdle * models ? Then::nothing : Then::all_at_once;
  const bool far_off = options.far_off_ns > 0 && ns > options.far_off_ns;
  return far_off && model_ns > kShortModel_ns ? Then::all_at_once : Then::fewer_ranges;
}

/// The fewest ranges that fit, or the shortest.
std::unique_ptr<Executor> longest_that_fits(const std::vector<int>& numbers,
                                            std::unique_ptr<Executor> shortest,
                                            const std::function<double(Executor&)>& share_of_memory,
                                            const MakeExecutor& lower) {
  for (size_t k = numbers.size(); k-- > 1;)
    if (std::unique_ptr<Executor> next = lower(numbers[k]); share_of_memory(*next) <= 1)
      return next;
  return shortest;
}

/// How many times a call counts that needs this share of the memory allowed; nullopt: it needs far
/// too much.
std::optional<double> weight_of(double share) {
  constexpr double kMost = 2;
  return share <= kMost ? std::optional(std::max(1.0, share)) : std::nullopt;
}

}  // namespace

std::unique_ptr<Executor> choose_ranges(const Program& single, int64_t n,
                                        const RangeOptions& options, const MakeExecutor& lower,
                                        const CallOf& call_of) {
  const std::vector<int> numbers = candidates(single, static_cast<int>(n), options);
  if (numbers.size() == 1) return lower(numbers.front());
  std::unique_ptr<Executor> shortest = lower(numbers.front());
  const auto share = [&](Executor& ranges) {
    return options.share_of_memory ? options.share_of_memory(ranges) : 0;
  };
  share(*shortest);
  if (!options.measure) return longest_that_fits(numbers, std::move(shortest), share, lower);
  Race race(call_of, options.in_turns);
  const double start = now_s();
  double before = start;
  const auto time_left = [&] {  // twice the models take up to twice as long
    const double now = now_s(), took = now - std::exchange(before, now);
    return options.longest_s == 0 || now - start + 2 * took <= options.longest_s;
  };
  const double ns = race.add(std::move(shortest), 1);
  const Then then = options.every || !options.all_at_once
                        ? Then::fewer_ranges
                        : after_one_at_a_time(ns, numbers.front(), options);
  const size_t split = numbers.size() - (options.all_at_once ? 1 : 0);
  for (size_t k = 1; k < split && then == Then::fewer_ranges && time_left() &&
                     (options.every || !race.only_loses());
       ++k) {
    std::unique_ptr<Executor> next = lower(numbers[k]);
    const std::optional<double> weight = weight_of(share(*next));
    if (!weight) break;
    race.add(std::move(next), *weight);
  }
  if (options.all_at_once && then != Then::nothing) {
    std::unique_ptr<Executor> all = lower(numbers.back());
    if (const auto weight = weight_of(share(*all))) race.add(std::move(all), *weight);
  }
  return race.winner();
}

}  // namespace wide
