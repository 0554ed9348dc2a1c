#include "app/train/baselines/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "app/sandbox/sandbox.h"
#include "app/train/baselines/separate_models.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

constexpr double kSameLoss = 3e-4;  // relative, of a mean over a batch in float32

/// Throws Error if a baseline's loss differs from that of the wide step on the same weights and
/// rows. With dropout losses are not compared, since each contender draws masks of its own.
void check_losses(const Prepared& run, const Tensor& got, const Tensor& wide) {
  if (run.network.has_dropout()) return;
  const Tensor losses = got.to(at::kDouble);
  for (int64_t m = 0; m < run.n(); ++m) {
    const auto is = losses[m].item<double>(), should = wide[m].item<double>();
    if (std::isfinite(should) && !(std::abs(is - should) <= kSameLoss * std::abs(should) + 1e-6))
      fail("[bench] loss of model {}: got {:.6g}, expected {:.6g} as of the wide step", m, is,
           should);
  }
}

}  // namespace

BenchResult bench(const Prepared& run, const Start& start, Trainer& trainer, double budget_s) {
  BenchResult result;
  const Batch batch = run.feed->training(0);
  const double begun = now_ns();
  const Tensor wide = trainer.step(batch).losses;
  result.first_call_ns = now_ns() - begun;
  std::vector<Contender> contenders;
  /// Adds a baseline whose `step` trains all models. Its first call finds out whether it can run,
  /// and checks its losses.
  const auto add = [&](const char* name, std::function<Tensor()> step) {
    try {
      check_losses(run, step(), wide);
      contenders.push_back({name, "baseline", [step = std::move(step)] {
                              heartbeat();
                              step();
                            }});
    } catch (const std::exception& e) {
      result.notes.push_back(fmt::format("no {}: {}", name, one_line(e)));
    }
  };
  const auto models = [&] { return std::make_shared<SeparateModels>(run, start, batch, run.n()); };
  add("loop", [all = models()] { return all->step_in_loop(); });
  if (const int threads = at::get_num_threads(); threads > 1)
    add("threads", [all = models(), threads] { return all->step_spread(threads); });
  try {
    const auto vmapped = std::make_shared<VmappedModels>(run, start, batch);
    add("vmap", [vmapped] { return vmapped->step(); });
  } catch (const std::exception& e) {
    result.notes.push_back("no vmap: " + one_line(e));
  }
  if (!contenders.empty() && contenders.back().name == "vmap" && !run.configurations.varied.empty())
    result.notes.emplace_back(
        "vmap steps with the first model's hyperparameters: ATen's optimisers take one for all");
  contenders.push_back({"wide", "candidate", [&] {
                          heartbeat();
                          trainer.step(batch);
                        }});
  MeasureOptions options;
  options.budget_s = budget_s;
  result.timings = measure(contenders, options);
  for (Timing& t : result.timings)
    if (t.kind == "candidate") t.first_call_ns = result.first_call_ns;
  return result;
}

}  // namespace wide
