#include "data/plot/measure.h"

#include <fmt/format.h>

#include "data/plot/scale.h"

namespace wide {
namespace {

/// What a measure is called, what its axis says, and the units of its values, each a thousand times
/// the one before.
struct MeasureWords {
  const char *name, *title;
  std::vector<const char*> units;
};
const MeasureWords& words_of(Measure measure) {
  static const std::vector<const char*> kTimes = {"ns", "µs", "ms", "s"};
  static const MeasureWords all[] = {
      {"speedup", "speedup over ", {}},
      {"time", "time of a call of all N, quartiles", kTimes},
      {"throughput", "models per second, quartiles", {"/s", "k/s", "M/s", "G/s"}},
      {"memory", "peak memory of a call", {"B", "kB", "MB", "GB", "TB"}},
      {"roofline", "share of the machine's peak", {}},
      {"compile", "first call, compiling included", kTimes}};
  return all[static_cast<size_t>(measure)];
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {Measure::speedup, Measure::time,     Measure::throughput,
                                           Measure::memory,  Measure::roofline, Measure::compile};
  return all;
}

const char* to_string(Measure measure) { return words_of(measure).name; }

Measure measure_of(const std::string& word) {
  for (const Measure measure : measures())
    if (word == to_string(measure)) return measure;
  return Measure::speedup;
}

std::string value_text(Measure measure, double value) {
  if (measure == Measure::speedup) return short_number(value) + "×";
  if (measure == Measure::roofline) return short_number(100 * value) + " %";
  // The largest unit that leaves the value at least 1.
  const std::vector<const char*>& units = words_of(measure).units;
  size_t unit = 0;
  for (; value >= 1e3 * (1 - 1e-9) && unit + 1 < units.size(); ++unit) value /= 1e3;
  return fmt::format("{} {}", short_number(value), units[unit]);
}

std::string measure_title(Measure measure, const std::string& over) {
  return words_of(measure).title + (measure == Measure::speedup ? over : "");
}

}  // namespace wide
