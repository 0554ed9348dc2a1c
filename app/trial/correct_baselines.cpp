#include "app/trial/correct_baselines.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/reports/sweep/report.h"

namespace wide {
namespace {

/// The error over the results that both have: a baseline may give no buffer updates.
double error_of(const Tensors& got, const Tensors& expected) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(got.size(), expected.size()));
  return max_relative_error({got.begin(), got.begin() + count},
                            {expected.begin(), expected.begin() + count});
}

}  // namespace

CorrectBaselines correct_baselines(std::vector<Baseline> all, const Tensors& expected, bool random,
                                   double tolerance,
                                   const std::function<bool(const std::string&)>& wanted) {
  CorrectBaselines found;
  for (Baseline& baseline : all) {
    if (!wanted(baseline.name)) continue;
    if (!baseline.call) {
      found.notes.push_back(
          fmt::format("baseline {} is not available: {}", baseline.name, baseline.unavailable));
      continue;
    }
    if (!random && !expected.empty() && baseline.run) {
      const double error = error_of(baseline.run(), expected);
      if (!(error <= tolerance)) {
        found.notes.push_back(fmt::format("baseline {} is wrong (relative error {}) and left out",
                                          baseline.name, error_text(error)));
        // The others are ways to compute the models; the loop is the models themselves.
        if (baseline.name == "loop")
          found.disagreement = fmt::format(
              "the program recorded of one model is not what the separate models compute: relative "
              "error {}; does forward keep numbers between calls?",
              error_text(error));
        continue;
      }
    }
    found.good.push_back(std::move(baseline));
  }
  return found;
}

}  // namespace wide
