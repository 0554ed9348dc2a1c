#include "data/plot/measure.h"

#include <fmt/format.h>

#include "data/plot/scale.h"

namespace wide {
namespace {

/// `value` in the largest unit that leaves it at least 1.
std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  const auto* unit = units.begin();
  while (value >= step * (1 - 1e-9) && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{}{}{}", short_number(value), **unit ? " " : "", *unit);
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {Measure::speedup, Measure::time,     Measure::throughput,
                                           Measure::memory,  Measure::roofline, Measure::compile};
  return all;
}

const char* to_string(Measure measure) {
  constexpr const char* kNames[] = {"speedup", "time",     "throughput",
                                    "memory",  "roofline", "compile"};
  return kNames[static_cast<int>(measure)];
}

Measure measure_of(const std::string& word) {
  for (const Measure measure : measures())
    if (word == to_string(measure)) return measure;
  return Measure::speedup;
}

std::string value_text(Measure measure, double value) {
  switch (measure) {
    case Measure::speedup:
      break;
    case Measure::time:
    case Measure::compile:
      return scaled(value, 1e3, {"ns", "µs", "ms", "s"});
    case Measure::throughput:
      return scaled(value, 1e3, {"/s", "k/s", "M/s", "G/s"});
    case Measure::memory:
      return scaled(value, 1e3, {"B", "kB", "MB", "GB", "TB"});
    case Measure::roofline:
      return short_number(100 * value) + " %";
  }
  return short_number(value) + "×";
}

std::string measure_title(Measure measure, const std::string& over) {
  switch (measure) {
    case Measure::speedup:
      break;
    case Measure::time:
      return "time of a call of all N, quartiles";
    case Measure::throughput:
      return "models per second, quartiles";
    case Measure::memory:
      return "peak memory of a call";
    case Measure::roofline:
      return "share of the machine's peak";
    case Measure::compile:
      return "first call, compiling included";
  }
  return "speedup over " + over;
}

}  // namespace wide
