#include "app/train/baselines/separate_runs.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "app/cancel.h"
#include "app/sandbox/sandbox.h"
#include "app/train/baselines/separate_models.h"
#include "data/text.h"
#include "engine/machine/clock.h"
#include "engine/measure/statistics.h"

namespace wide {
namespace {

constexpr double kWidest = 1.5;      // upper end of the interval over the lower one
constexpr int64_t kManySteps = 20;   // in an epoch this long the smaller last batch hardly counts
constexpr double kForSamples = 0.5;  // share of the budget; the rest is making models, warming up
constexpr double kNarrow = 0.05;     // relative half width at which sampling stops
constexpr int kResamples = 1000;

struct OutOfTime {};

/// A step whose batch has one of the sizes that occur, and the share of all steps with that size.
struct BatchShare {
  int64_t step = 0;
  double share = 1;
};

std::vector<BatchShare> batches_of(const Prepared& run) {
  const int64_t steps = run.feed->steps_per_epoch();
  if (steps == 1 || steps > kManySteps || run.feed->fills_up_training() ||
      run.feed->rows() % run.network.batch() == 0)
    return {{0, 1}};
  const double last = 1 / double(steps);
  return {{0, 1 - last}, {steps - 1, last}};
}

Start start_from(const Prepared& run, const std::map<std::string, Tensor>& weights) {
  Start start;
  for (const TensorSpec& spec : run.network.tensors()) {
    const Tensor& tensor = weights.at(spec.name);
    start.tensors[spec.name] = {tensor, tensor.dim() == static_cast<int64_t>(spec.sizes.size())};
  }
  return start;
}

}  // namespace

std::optional<SeparateRuns> estimate_separate_runs(const Prepared& run,
                                                   const std::map<std::string, Tensor>& weights,
                                                   int64_t model_steps, double budget_s) {
  const double deadline_s = now_s() + budget_s;
  const auto check_time = [deadline_s] {
    if (cancelled() || now_s() > deadline_s) throw OutOfTime();
    heartbeat();
  };
  const int threads = at::get_num_threads();
  const int64_t at_a_time = std::min<int64_t>(threads, run.n());
  const std::vector<BatchShare> batches = batches_of(run);
  const Start start = start_from(run, weights);
  std::vector<Contender> contenders;  // for each batch size the loop and, with several, the threads
  const auto add = [&](const char* name, std::function<void()> step) {
    contenders.push_back({name, "baseline", [check_time, step = std::move(step)] {
                            check_time();
                            step();
                          }});
  };
  try {
    for (const BatchShare& part : batches) {
      const Batch batch = run.feed->training(part.step);
      const auto models = [&](int64_t count) {
        check_time();
        return std::make_shared<SeparateModels>(run, start, batch, count);
      };
      add("loop", [one = models(1)] { one->step_in_loop(); });
      if (threads > 1)
        add("threads", [all = models(at_a_time), threads] { all->step_spread(threads); });
    }
    MeasureOptions options;
    options.budget_s = kForSamples * budget_s / double(contenders.size());
    options.ratio_halfwidth = kNarrow;
    const std::vector<Timing> timings = measure(contenders, options);

    std::optional<SeparateRuns> best;
    const size_t ways = contenders.size() / batches.size();
    for (size_t way = 0; way < ways; ++way) {
      Interval seconds;
      for (size_t k = 0; k < batches.size(); ++k) {
        const std::vector<double>& samples = timings[k * ways + way].samples_ns;
        const Interval ns = ratio_of_medians(samples, std::vector<double>(samples.size(), 1.0),
                                             kResamples, options.seed);
        seconds.value += batches[k].share * ns.value / 1e9;
        seconds.low += batches[k].share * ns.low / 1e9;
        seconds.high += batches[k].share * ns.high / 1e9;
      }
      // The last group of models that run at a time may be smaller.
      const bool alone = way == 0;
      const int64_t together = alone ? 1 : at_a_time, turns = (run.n() + together - 1) / together;
      const double steps = double(model_steps) * double(turns) / double(run.n());
      for (double* s : {&seconds.value, &seconds.low, &seconds.high}) *s *= steps;
      if (best && best->seconds.value <= seconds.value) continue;
      best = {seconds, alone ? "one after the other"
                             : fmt::format("{} at a time on one thread each", together)};
    }
    if (!(best->seconds.low > 0) || best->seconds.high > kWidest * best->seconds.low)
      return std::nullopt;
    return best;
  } catch (const OutOfTime&) {
    return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // the training is complete without this estimate
  }
}

}  // namespace wide
