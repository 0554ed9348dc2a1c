#include "app/explorer/models/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/networks/network_format.h"
#include "data/text.h"

namespace wide {
namespace {

FuseView::AtN at_n(const FuseResult& r) {
  FuseView::AtN at;
  at.n = r.n;
  if (r.speedup) {
    const Interval &best = r.speedup->vs_best, loop = r.speedup->vs_loop.value_or(Interval{});
    at.vs_best = best.value;
    at.low = best.low;
    at.high = best.high;
    at.vs_loop = loop.value;
    at.loop_low = loop.low;
    at.loop_high = loop.high;
    at.best_baseline = r.speedup->best_baseline;
  }
  at.error = r.correctness.max_rel;
  at.separate_error = r.correctness.eager_max_rel;
  at.allowed_error = allowed(r.correctness);
  at.wide_bytes = static_cast<double>(r.wide_bytes);
  at.separate_bytes = static_cast<double>(r.separate_bytes);
  at.chosen = r.chosen;
  at.right = r.correctness.pass;
  at.verdict = verdict_of(r);
  return at;
}

/// The options of the inputs: `--input` for what is drawn at random, else `--inputs` and a file.
std::vector<std::string> inputs_of(const FuseChoices& c) {
  const std::vector<std::string> words = split(c.inputs, ' ');
  const bool random = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    const size_t equal = word.find('=');
    return equal != std::string::npos && word.find(':', equal) != std::string::npos;
  });
  if (!random) return {"--inputs", c.inputs};
  std::vector<std::string> arguments;
  for (const std::string& word : words) arguments.insert(arguments.end(), {"--input", word});
  return arguments;
}

/// Everything that says which fusion it is.
std::vector<std::string> asked(const FuseChoices& c) {
  std::vector<std::string> arguments = {"fuse", c.model};
  if (!c.weights.empty()) {
    arguments.emplace_back("--weights");
    arguments.insert(arguments.end(), c.weights.begin(), c.weights.end());
  }
  if (!c.n.empty()) arguments.insert(arguments.end(), {"-n", c.n});
  for (const std::string& word : inputs_of(c)) arguments.push_back(word);
  if (c.share_weights) arguments.emplace_back("--share-weights");
  return arguments;
}

}  // namespace

std::vector<std::string> fuse_arguments(const FuseChoices& c, const std::string& db) {
  std::vector<std::string> arguments = asked(c);
  arguments.emplace_back("--explain");
  if (!db.empty()) arguments.insert(arguments.end(), {"--db", db});
  return arguments;
}

std::vector<std::string> export_arguments(const FuseChoices& c, const std::string& path) {
  std::vector<std::string> arguments = asked(c);
  arguments.insert(arguments.end(), {"--export", path, "--budget", "0.01", "--no-store"});
  return arguments;
}

std::vector<std::string> trace_arguments(const FuseChoices& c) {
  const std::vector<std::string> ns = split(c.n);
  std::vector<std::string> arguments = {"trace", c.model, "--wide", ns.empty() ? "2" : ns.back()};
  for (const std::string& word : inputs_of(c)) arguments.push_back(word);
  return arguments;
}

std::string fallback_text(const std::string& op, const std::string& reason) {
  if (reason.empty()) return op + " is computed one by one";
  if (reason.front() != '[') return op + " is computed one by one: " + reason;
  const size_t end = reason.find(']'), advice = reason.rfind("; try ");
  if (end == std::string::npos) return op + ": " + reason;
  std::string why = reason.substr(end + 1, advice == std::string::npos ? advice : advice - end - 1);
  why.erase(0, why.find_first_not_of(' '));
  return fmt::format("{} does without {}: {}", op, reason.substr(1, end - 1), why);
}

std::string weights_text(const std::vector<std::string>& weights) {
  if (weights.empty()) return "none: seeded copies";
  const size_t count = find_checkpoints(weights).files.size();
  return count == 1 ? "1 checkpoint" : fmt::format("{} checkpoints", count);
}

bool take_files(const std::vector<std::string>& paths, FuseChoices* choices) {
  const auto is_of = [](const std::string& path, const auto& formats) {
    for (const auto& format : formats)
      for (const std::string& extension : format.extensions)
        if (path.ends_with(extension)) return true;
    return false;
  };
  bool any = false;
  std::vector<std::string> weights;
  for (const std::string& path : paths) {
    // A name that may be either, as .pt, is taken for weights: people have more of those.
    if (is_of(path, checkpoint_formats()))
      weights.push_back(path);
    else if (is_of(path, network_formats()))
      choices->model = path;
    else
      continue;
    any = true;
  }
  if (!weights.empty()) {
    choices->weights = weights;
    choices->n.clear();
  }
  return any;
}

FuseView fuse_view(const FuseReport& report) {
  const FuseResult& last = report.curve.back();
  FuseView view;
  view.title =
      fmt::format("{} · {} · {} · {}", report.model, report.device, report.dtype, report.mode);
  view.cpu = report.environment.cpu;
  view.timed_coverage = !last.coverage_time.empty();
  const auto of = [](const auto& ways, Way way) {
    const auto it = ways.find(way);
    return it == ways.end() ? 0.0 : static_cast<double>(it->second);
  };
  double all = 0, all_time = 0;
  for (const Way way : {Way::strategy, Way::vmap, Way::shared, Way::per_model}) {
    view.coverage.push_back({to_string(way), of(last.coverage, way), of(last.coverage_time, way)});
    all += view.coverage.back().nodes;
    all_time += view.coverage.back().time;
  }
  for (FuseView::Share& share : view.coverage) {
    if (all > 0) share.nodes /= all;
    if (all_time > 0) share.time /= all_time;
  }
  for (const Fallback& f : last.fallbacks) view.fallbacks.emplace_back(f.op, f.reason);
  for (const StepCost& s : last.steps)
    view.steps.push_back({s.op, s.module,
                          s.primitive.empty() ? s.strategy : s.primitive + " / " + s.strategy,
                          s.shape, s.median_ns, s.share});
  for (const FuseResult& point : report.curve) view.curve.push_back(at_n(point));
  if (report.along_n) view.crossover = report.along_n->crossover;
  view.notes = last.notes;
  view.plan = last.plan;
  view.failure = last.correctness.failure;
  return view;
}

Figure fuse_figure(const FuseView& view, bool over_loop) {
  Figure figure;
  figure.title = view.title;
  if (over_loop) figure.over = "the loop";
  Curve curve;
  curve.name = curve.strategy = "wide";
  curve.crossover = view.crossover;
  for (const FuseView::AtN& at : view.curve) {
    CurvePoint p;
    p.n = static_cast<double>(at.n);
    p.incorrect = !at.right;
    p.error = at.error;
    p.about = fmt::format("N={}: error {:.2g}", at.n, at.error);
    const double value = over_loop ? at.vs_loop : at.vs_best;
    if (at.right && value > 0) {
      p.value = value;
      const double low = over_loop ? at.loop_low : at.low,
                   high = over_loop ? at.loop_high : at.high;
      if (low > 0) p.low = low;
      if (high > 0) p.high = high;
      p.about += fmt::format(", {:.4g}× [{:.4g}, {:.4g}] over {}", value, low, high,
                             over_loop ? "loop" : at.best_baseline);
    }
    curve.points.push_back(p);
    figure.allowances.push_back({p.n, at.allowed_error, at.separate_error});
  }
  figure.curves.push_back(curve);
  return figure;
}

}  // namespace wide
