#include "engine/train/optimizer/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "engine/error.h"

namespace wide {
namespace {

/// From `from` to `to` along half a cosine.
double annealed(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

/// torch.optim.lr_scheduler.OneCycleLR: rises from 1/25 in the first 30 %, then falls to 1/25e4.
double one_cycle(int64_t t, int64_t steps) {
  constexpr double kUp = 0.3, kFirst = 1.0 / 25, kLast = kFirst / 1e4;
  const double top = kUp * double(steps) - 1, last = double(steps) - 1, now = double(t);
  if (now <= top) return annealed(kFirst, 1, top > 0 ? now / top : 1);
  return annealed(1, kLast, last > top ? (now - top) / (last - top) : 1);
}

bool ends(const Schedule& s) {
  return s.name == "cosine" || s.name == "linear" || s.name == "onecycle";
}

double number(const std::string& text, const std::string& all) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end)
    fail("[train] schedule {}: got {}, expected a number; try cosine:0.1 or step:1000,0.5", all,
         text.empty() ? "nothing" : text);
  return value;
}

}  // namespace

double Schedule::factor(int64_t t) const {
  if (t < warmup) return double(t + 1) / double(warmup);
  const int64_t left = steps - warmup;
  const double now = double(t - warmup);
  if (name == "step") return std::pow(gamma, std::floor(now / double(every)));
  if (!ends(*this)) return 1;
  if (name == "onecycle") return one_cycle(std::min(t, steps - 1), steps);
  const double share = std::min(now, double(left)) / double(left);
  return name == "cosine" ? annealed(1, floor, share) : 1 - share;
}

void Schedule::check() const {
  if (name != "constant" && name != "step" && !ends(*this))
    fail(
        "[train] schedule: got {}, expected constant, cosine, linear, step:EVERY,GAMMA or "
        "onecycle; try cosine",
        name);
  if (name == "step" && (every < 1 || !(gamma > 0)))
    fail(
        "[train] schedule step: got every {} and gamma {}, expected both above 0; try "
        "step:1000,0.5",
        every, gamma);
  if (!(floor >= 0 && floor <= 1))
    fail("[train] schedule cosine: got {}, expected a share of lr from 0 to 1; try cosine:0.1",
         floor);
  if (ends(*this) && steps < 1)
    fail("[train] schedule {}: got no number of steps, expected how long the run is; try steps",
         name);
  if (warmup < 0 || (ends(*this) && warmup >= steps))
    fail("[train] warmup: got {}, expected fewer than the {} steps; try {}", warmup, steps,
         std::max<int64_t>(steps / 20, 0));
  if (name == "onecycle" && warmup > 0)
    fail("[train] warmup: got {} with onecycle, expected 0; try without, it warms up by itself",
         warmup);
}

Schedule parse_schedule(const std::string& text, int64_t warmup, int64_t steps) {
  Schedule s;
  const size_t colon = text.find(':');
  s.name = text.substr(0, colon);
  s.warmup = warmup;
  s.steps = steps;
  const std::string given = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (s.name == "step") {
    const size_t comma = given.find(',');
    const double every = number(given.substr(0, comma), text);
    if (!(std::abs(every) < 1e18 && every == std::floor(every)))
      fail(
          "[train] schedule step: got every {}, expected a whole number of steps; try "
          "step:1000,0.5",
          every);
    s.every = static_cast<int64_t>(every);
    s.gamma = number(comma == std::string::npos ? "" : given.substr(comma + 1), text);
  } else if (s.name == "cosine" && !given.empty()) {
    s.floor = number(given, text);
  } else if (colon != std::string::npos && s.name != "cosine") {
    fail("[train] schedule: got {}, expected no number behind {}; try {}", text, s.name, s.name);
  }
  s.check();
  return s;
}

}  // namespace wide
