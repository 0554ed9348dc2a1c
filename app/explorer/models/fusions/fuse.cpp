#include "app/explorer/models/fusions/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/networks/network_format.h"
#include "data/text.h"

namespace wide {
namespace {

/// The options of the inputs: `--input` for random ones, else `--inputs` and a file.
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

/// A command and the options that identify a fusion. `many`: its option of N, where `n` is not "".
std::vector<std::string> asked(const FuseChoices& c, const char* command, const char* many,
                               const std::string& n) {
  std::vector<std::string> arguments = {command, c.model};
  if (!c.weights.empty()) {
    arguments.emplace_back("--weights");
    arguments.insert(arguments.end(), c.weights.begin(), c.weights.end());
  }
  if (!n.empty()) arguments.insert(arguments.end(), {many, n});
  for (const std::string& word : inputs_of(c)) arguments.push_back(word);
  if (c.share_weights) arguments.emplace_back("--share-weights");
  return arguments;
}

/// The number of models whose wide program is shown: the last one typed, or all checkpoints.
std::string traced_n(const FuseChoices& c) {
  const std::vector<std::string> ns = split(c.n);
  if (!ns.empty()) return ns.back();
  if (c.weights.empty()) return "2";
  try {
    return std::to_string(find_checkpoints(c.weights).files.size());
  } catch (const std::exception&) {
    return "1";  // the command says what is wrong with the weights
  }
}

}  // namespace

std::vector<std::string> fuse_arguments(const FuseChoices& c, const std::string& db) {
  std::vector<std::string> arguments = asked(c, "fuse", "-n", c.n);
  arguments.emplace_back("--explain");
  if (!db.empty()) arguments.insert(arguments.end(), {"--db", db});
  return arguments;
}

std::vector<std::string> export_arguments(const FuseChoices& c, const std::string& path) {
  std::vector<std::string> arguments = asked(c, "fuse", "-n", c.n);
  arguments.insert(arguments.end(), {"--export", path, "--budget", "0.01", "--no-store"});
  return arguments;
}

std::vector<std::string> trace_arguments(const FuseChoices& c) {
  std::vector<std::string> arguments = asked(c, "trace", "--wide", traced_n(c));
  arguments.emplace_back("--steps");
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
    // An extension that fits both, such as .pt, counts as weights, the more common case.
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

std::vector<WayShare> way_shares(const FuseResult& result) {
  const auto of = [](const auto& ways, Way way) {
    const auto it = ways.find(way);
    return it == ways.end() ? 0.0 : static_cast<double>(it->second);
  };
  std::vector<WayShare> shares;
  double nodes = 0, time = 0;
  for (const Way way : {Way::strategy, Way::vmap, Way::shared, Way::per_model}) {
    shares.push_back({way, of(result.coverage, way), of(result.coverage_time, way)});
    nodes += shares.back().nodes;
    time += shares.back().time;
  }
  for (WayShare& share : shares) {
    if (nodes > 0) share.nodes /= nodes;
    if (time > 0) share.time /= time;
  }
  return shares;
}

Interval shown_speedup(const FuseResult& result, bool over_loop) {
  if (!result.speedup) return {};
  return over_loop ? result.speedup->vs_loop.value_or(Interval{}) : result.speedup->vs_best;
}

Figure fuse_figure(const FuseReport& report, bool over_loop) {
  Figure figure;
  figure.title =
      fmt::format("{} · {} · {} · {}", report.model, report.device, report.dtype, report.mode);
  if (over_loop) figure.over = "the loop";
  Curve curve;
  curve.name = curve.strategy = "wide";
  if (report.along_n) curve.crossover = report.along_n->crossover;
  for (const FuseResult& at : report.curve) {
    const Correctness& correct = at.correctness;
    CurvePoint p;
    p.n = static_cast<double>(at.n);
    p.incorrect = !correct.pass;
    p.error = correct.max_rel;
    p.about = fmt::format("N={}: error {:.2g}", at.n, correct.max_rel);
    const Interval speedup = shown_speedup(at, over_loop);
    if (correct.pass && speedup.value > 0) {
      p.value = speedup.value;
      if (speedup.low > 0) p.low = speedup.low;
      if (speedup.high > 0) p.high = speedup.high;
      p.about += fmt::format(", {:.4g}× [{:.4g}, {:.4g}] over {}", speedup.value, speedup.low,
                             speedup.high, over_loop ? "loop" : at.speedup->best_baseline);
    }
    curve.points.push_back(p);
    figure.allowances.push_back({p.n, allowed(correct), correct.eager_max_rel});
  }
  figure.curves.push_back(curve);
  return figure;
}

}  // namespace wide
