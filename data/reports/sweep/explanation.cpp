#include "data/reports/sweep/explanation.h"

#include <fmt/format.h>

#include "data/text.h"

namespace wide {
namespace {

/// "8 operators instead of 17", or "17 operators as before" where both read the same.
std::string change(const std::string& now, const std::string& before, const char* what) {
  return now == before ? fmt::format("{}{} as before", now, what)
                       : fmt::format("{}{} instead of {}", now, what, before);
}

std::string flops_text(double flops) { return fmt::format("{:.4g}", flops * 1e-6); }

/// ", at 12 % of the machine's arithmetic peak instead of 5.1 %"; or of the memory bandwidth,
/// if `now` reaches a larger share of that. "" if a time or a peak is unknown.
std::string rate_text(const Timing* now, const Timing* before) {
  if (!now || !before || now->flops_share <= 0 || before->flops_share <= 0) return "";
  const bool arithmetic = now->flops_share >= now->bytes_share;
  const auto share = [arithmetic](const Timing& t) {
    const double percent = 100 * (arithmetic ? t.flops_share : t.bytes_share);
    return percent < 10 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.0f} %", percent);
  };
  return fmt::format(
      ", at {} instead of {}",
      share(*now) + " of the machine's " + (arithmetic ? "arithmetic peak" : "memory bandwidth"),
      share(*before));
}

}  // namespace

std::string explanation_of(const std::vector<FormWork>& work,
                           const std::vector<const Timing*>& timings) {
  std::string text;
  for (size_t i = 1; i < work.size(); ++i) {
    const FormWork &now = work[i], &before = work[i - 1];
    text += fmt::format(
        "{}{} takes {}, which read and write {} (its inputs and outputs {}) for {}{}.",
        i > 1 ? " " : "", now.form,
        change(fmt::format("{}", now.operators), fmt::format("{}", before.operators), " operators"),
        change(bytes_text(now.bytes), bytes_text(before.bytes), ""),
        change(fmt::format("{:.1f}", now.passes), fmt::format("{:.1f}", before.passes), " times"),
        change(flops_text(now.flops), flops_text(before.flops), " million sums and products"),
        rate_text(timings[i], timings[i - 1]));
  }
  return text;
}

}  // namespace wide
