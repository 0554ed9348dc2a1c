#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// What is asked of a fusion.
struct FuseChoices {
  std::string model;  // a file, or a registered name
  std::vector<std::string> weights;
  std::string n = "8";
  std::string inputs;  // "x=2x3x64x64:f32", several parted by spaces; or a file of tensors
  bool share_weights = false;
};
/// As on the command line. `db` empty: as by default.
std::vector<std::string> fuse_arguments(const FuseChoices& choices, const std::string& db);
/// For the programs before and after each pass, at the largest N.
std::vector<std::string> trace_arguments(const FuseChoices& choices);
/// For the wide program in a file of its own, .pt2 or .ts: checked, hardly timed, not stored.
std::vector<std::string> export_arguments(const FuseChoices& choices, const std::string& path);
/// Why an operator is not computed in a better way, as the panel shows it. Strategies that were
/// refused give advice for whoever asked for them, which nobody has done here: it is left out.
std::string fallback_text(const std::string& op, const std::string& reason);
/// What the weights stand for: "64 checkpoints" of a pattern that matches so many. Throws Error
/// where there are none.
std::string weights_text(const std::vector<std::string>& weights);
/// Files that were dropped: a network becomes the model, checkpoints become weights. False where
/// none of them is either.
bool take_files(const std::vector<std::string>& paths, FuseChoices* choices);

/// "net.pt2 · cpu · f32 · default".
std::string fusion_title(const FuseReport& report);
/// How much of a fusion was made wide in one way: shares of the nodes, and of the time where that
/// was measured.
struct WayShare {
  Way way = Way::strategy;
  double nodes = 0, time = 0;
};
/// Of every way, in the order in which they are shown.
std::vector<WayShare> way_shares(const FuseResult& result);
/// The speedup over the loop, or over the best baseline; all zeros where there is none.
Interval shown_speedup(const FuseResult& result, bool over_loop);
/// Its speedup along N, over the loop or the best baseline, beside its error.
Figure fuse_figure(const FuseReport& report, bool over_loop);

}  // namespace wide
