#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/report.h"

namespace wide {

/// What is asked of a trial fusion.
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

/// A trial fusion as the window shows it.
struct FuseView {
  struct Share {
    std::string way;
    double nodes = 0, time = 0;  // shares
  };
  struct Step {
    std::string what, where, how, shape;
    double ns = 0, share = 0;
  };
  struct AtN {
    int64_t n = 0;
    double vs_best = 0, low = 0, high = 0, vs_loop = 0, loop_low = 0, loop_high = 0;
    double error = 0, allowed_error = 0, separate_error = 0, wide_bytes = 0, separate_bytes = 0;
    std::string chosen, best_baseline;
    std::string verdict;  // FASTER, SLOWER, SAME or UNCLEAR over the best baseline; "": not timed
    bool right = false;
  };
  std::string title, cpu;
  bool timed_coverage = false;
  std::vector<Share> coverage;
  std::vector<std::pair<std::string, std::string>> fallbacks;  // operator, reason
  std::vector<Step> steps;
  std::vector<AtN> curve;
  std::optional<int64_t> crossover;  // faster than the best baseline from this N on
  std::vector<std::string> notes;
  std::string plan, failure;
};
FuseView fuse_view(const FuseReport& report);
/// Its speedup along N, over the loop or the best baseline, beside its error.
Figure fuse_figure(const FuseView& view, bool over_loop);

}  // namespace wide
