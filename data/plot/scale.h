#pragma once
#include <functional>
#include <string>
#include <vector>

namespace wide {

/// A logarithmic axis: values from `low` to `high` (both positive, low < high) to pixels.
struct LogScale {
  double low = 1, high = 10;
  double from_px = 0, to_px = 1;

  double at(double value) const;
  double value_at(double px) const;
};

struct Tick {
  double value = 0;
  std::string label;  // empty: a tick without a label
};

/// Ticks at 1-2-5 and finer or coarser, with labels at least `gap_px` apart.
std::vector<Tick> value_ticks(const LogScale& scale, double gap_px,
                              const std::function<std::string(double)>& label);

/// Ticks of a linear axis: at most `most` steps of 1, 2 or 5 times a power of ten, labelled with as
/// many digits as needed.
std::vector<Tick> linear_ticks(double low, double high, int most);

/// Ticks at powers of ten, labelled "1e-7".
std::vector<Tick> decade_ticks(const LogScale& scale, double gap_px);

/// A tick at every measured N; powers of two and the ends are labelled first, then what fits.
/// `digit_px` is the width of a digit.
std::vector<Tick> n_ticks(const LogScale& scale, const std::vector<double>& ns, double digit_px);

/// "0.5", "12", "1.25": at most three digits.
std::string short_number(double value);

}  // namespace wide
