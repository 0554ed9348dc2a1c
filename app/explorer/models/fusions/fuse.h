#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// The choices of a fusion in the panel.
struct FuseChoices {
  std::string model;  // a file, or a registered name
  std::vector<std::string> weights;
  std::string n = "8";
  std::string inputs;  // "x=2x3x64x64:f32", several with spaces between them; or a file of tensors
  bool share_weights = false;
};
/// The arguments of `workbench fuse`. `db` "": the default store.
std::vector<std::string> fuse_arguments(const FuseChoices& choices, const std::string& db);
/// The same for `trace`: one model's program, and the wide one after each pass, at the last N.
std::vector<std::string> trace_arguments(const FuseChoices& choices);
/// The same for an export to .pt2 or .ts: checked, hardly timed, not stored.
std::vector<std::string> export_arguments(const FuseChoices& choices, const std::string& path);
/// Why an operator is not computed in a better way, as the panel shows it: without the advice for
/// users who forced a strategy.
std::string fallback_text(const std::string& op, const std::string& reason);
/// How many checkpoints the files and patterns name, such as "64 checkpoints". Throws Error if
/// none.
std::string weights_text(const std::vector<std::string>& weights);
/// Takes dropped files: a network becomes the model, checkpoints become weights. False if none is
/// either.
bool take_files(const std::vector<std::string>& paths, FuseChoices* choices);

/// How much of a fusion was made wide in one way: its share of the nodes, and of the time if
/// measured.
struct WayShare {
  Way way = Way::strategy;
  double nodes = 0, time = 0;
};
/// The shares of all ways, in the order in which they are shown.
std::vector<WayShare> way_shares(const FuseResult& result);
/// The speedup over the loop, or over the best baseline; all zeros if unknown.
Interval shown_speedup(const FuseResult& result, bool over_loop);
/// A plot of the speedup along N, over the loop or the best baseline, beside the error.
Figure fuse_figure(const FuseReport& report, bool over_loop);

}  // namespace wide
