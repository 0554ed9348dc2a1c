#include "app/sweep_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/sweep_text.h"

namespace wide {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Whether two cases go into one table.
bool together(const Case& a, const Case& b) {
  return a.target == b.target && a.mode == b.mode && a.device == b.device && a.dtype == b.dtype &&
         a.phase == b.phase;
}

}  // namespace

Progress::Progress(size_t total, double estimated_s, bool quiet)
    : total_(total),
      estimated_s_(estimated_s),
      start_(now_s()),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0) {}

double Progress::elapsed() const { return now_s() - start_; }

void Progress::begin(const std::string& what) {
  if (quiet_) return;
  // The first cases say little about the rest: the estimate counts until a tenth is done.
  const double share =
      static_cast<double>(done_) / static_cast<double>(std::max<size_t>(1, total_));
  const double left = share > 0.1 ? elapsed() * (1 - share) / share : estimated_s_ * (1 - share);
  const std::string line =
      fmt::format("[{}/{}] {} · {} left", done_ + 1, total_, what, duration_text(left));
  if (terminal_)
    fmt::print(stderr, "\r\x1b[K{}", line);
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

void Progress::end() { ++done_; }

void Progress::clear() {
  if (quiet_ || !terminal_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

SweepPrinter::SweepPrinter(size_t total, double estimated_s, bool quiet)
    : progress_(total, estimated_s, quiet), quiet_(quiet) {}

void SweepPrinter::on_begin(const PlannedCase& p) {
  if (!group_.empty() && !together(group_.back(), empty_case(p))) flush();
  progress_.begin(fmt::format("{} {} N={}", p.target->name, p.shape.text(), p.n));
}

void SweepPrinter::on_case(const Case& result) { on_known(result); }

void SweepPrinter::on_known(const Case& result) {
  if (!group_.empty() && !together(group_.back(), result)) flush();
  group_.push_back(result);
  progress_.end();
}

void SweepPrinter::on_end(const std::string&) { flush(); }

void SweepPrinter::flush() {
  progress_.clear();
  if (!quiet_ && !group_.empty()) fmt::print("{}", target_text(group_));
  std::fflush(stdout);
  group_.clear();
}

}  // namespace wide
