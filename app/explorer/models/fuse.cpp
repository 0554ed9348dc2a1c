#include "app/explorer/models/fuse.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/networks/network_format.h"
#include "data/reports/report.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& json, const char* pointer) {
  const Json value = json.value(Json::json_pointer(pointer), Json());
  return value.is_number() ? value.get<double>() : 0;
}

std::string text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

FuseView::AtN at_n(const Json& json) {
  FuseView::AtN at;
  at.n = static_cast<int64_t>(number(json, "/n"));
  at.vs_best = number(json, "/speedup/vs_best_baseline");
  at.low = number(json, "/speedup/vs_best_baseline_ci95/0");
  at.high = number(json, "/speedup/vs_best_baseline_ci95/1");
  at.vs_loop = number(json, "/speedup/vs_loop");
  at.loop_low = number(json, "/speedup/vs_loop_ci95/0");
  at.loop_high = number(json, "/speedup/vs_loop_ci95/1");
  Correctness correctness;
  correctness.max_rel = at.error = number(json, "/correctness/max_rel");
  correctness.eager_max_rel = at.separate_error = number(json, "/correctness/eager_max_rel");
  correctness.tolerance = number(json, "/correctness/tolerance");
  at.allowed_error = allowed(correctness);
  at.wide_bytes = number(json, "/memory/wide_bytes");
  at.separate_bytes = number(json, "/memory/separate_bytes");
  at.chosen = text(json, "chosen");
  at.right = json.value(Json::json_pointer("/correctness/pass"), Json(false)) == true;
  if (json.contains("speedup") && json["speedup"].is_object())
    at.best_baseline = text(json["speedup"], "best_baseline");
  return at;
}

/// Everything that says which fusion it is.
std::vector<std::string> asked(const FuseChoices& c) {
  std::vector<std::string> arguments = {"fuse", c.model};
  if (!c.weights.empty()) {
    arguments.emplace_back("--weights");
    arguments.insert(arguments.end(), c.weights.begin(), c.weights.end());
  }
  if (!c.n.empty()) arguments.insert(arguments.end(), {"-n", c.n});
  for (const std::string& input : split(c.inputs, ' '))
    arguments.insert(arguments.end(), {"--input", input});
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
  for (const std::string& input : split(c.inputs, ' '))
    arguments.insert(arguments.end(), {"--input", input});
  return arguments;
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

FuseView fuse_view(const Json& json) {
  FuseView view;
  view.title = fmt::format("{} · {} · {} · {}", text(json, "model"), text(json, "device"),
                           text(json, "dtype"), text(json, "mode"));
  if (json.contains("environment")) view.cpu = text(json["environment"], "cpu");
  const auto times = json.find("coverage_time");
  view.timed_coverage = times != json.end() && times->is_object() && !times->empty();
  double all = 0, all_time = 0;
  for (const char* way : {"strategy", "vmap", "shared", "per_model"}) {
    const double nodes = number(json, (std::string("/coverage/") + way).c_str());
    const double time = number(json, (std::string("/coverage_time/") + way).c_str());
    view.coverage.push_back({way, nodes, time});
    all += nodes;
    all_time += time;
  }
  for (FuseView::Share& share : view.coverage) {
    if (all > 0) share.nodes /= all;
    if (all_time > 0) share.time /= all_time;
  }
  for (const Json& f : json.value("fallbacks", Json::array()))
    view.fallbacks.emplace_back(text(f, "operator"), text(f, "reason"));
  for (const Json& s : json.value("steps", Json::array())) {
    const std::string strategy = text(s, "strategy"), primitive = text(s, "primitive");
    view.steps.push_back({text(s, "operator"), text(s, "module"),
                          primitive.empty() ? strategy : primitive + " / " + strategy,
                          s.contains("shape") && s["shape"].is_string() ? text(s, "shape") : "",
                          number(s, "/median_ns"), number(s, "/share")});
  }
  if (json.contains("curve"))
    for (const Json& point : json["curve"]) view.curve.push_back(at_n(point));
  else
    view.curve.push_back(at_n(json));
  if (const double from = number(json, "/along_n/crossover"); from > 0)
    view.crossover = static_cast<int64_t>(from);
  for (const Json& note : json.value("notes", Json::array()))
    if (note.is_string()) view.notes.push_back(note.get<std::string>());
  view.plan = text(json, "plan");
  if (json.contains("correctness") && json["correctness"].is_object())
    view.failure = text(json["correctness"], "failure");
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
      p.about += fmt::format(", {:.4g}x [{:.4g}, {:.4g}] over {}", value, low, high,
                             over_loop ? "loop" : at.best_baseline);
    }
    curve.points.push_back(p);
    figure.allowances.push_back({p.n, at.allowed_error, at.separate_error});
  }
  figure.curves.push_back(curve);
  return figure;
}

}  // namespace wide
