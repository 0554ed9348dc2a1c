#include "app/sweep/printer.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/cli.h"
#include "app/sweep/text.h"
#include "engine/measure/clock.h"

namespace wide {
namespace {

/// Columns of the terminal behind standard error.
size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

SweepPrinter::SweepPrinter(SweepSession& session, bool quiet)
    : session_(session), start_s_(now_s()), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void SweepPrinter::show(const std::string& doing) {
  if (quiet_) return;
  const double minutes = (now_s() - start_s_) / 60;
  const std::string rate =
      run_ > 0 ? fmt::format("{:.1f} cases/min · ", static_cast<double>(run_) / minutes) : "";
  std::string text = fmt::format("[{}/{}] {} · {}{} left", begun_, session_.runner().cases().size(),
                                 line_, rate, duration_text(session_.left_s()));
  if (!terminal_) {
    fmt::print(stderr, "{}\n", text);
    return;
  }
  if (!doing.empty()) text += " · " + doing;
  // A line that wraps could not be taken back.
  size_t shown = 0, bytes = 0;
  for (; bytes < text.size() && shown + 1 < columns(); ++shown) do
      ++bytes;
    while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80);
  fmt::print(stderr, "\r\x1b[K{}", text.substr(0, bytes));
  std::fflush(stderr);
}

void SweepPrinter::clear() {
  if (quiet_ || !terminal_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

void SweepPrinter::on_begin(const PlannedCase& p) {
  Case next = empty_case(p);
  if (!group_.empty()) next.machine = group_.back().machine;
  if (!group_.empty() && !same_table(group_.back(), next)) flush();
  ++begun_;
  line_ = fmt::format("{} {} N={}", p.target->name, p.shape.text(), p.n);
  show("");
}

void SweepPrinter::on_stage(const std::string& what, const std::string& trial) {
  if (terminal_) show(trial.empty() ? what : what + " " + trial);
}

void SweepPrinter::on_case(const Case& result) {
  ++run_;
  group_.push_back(result);
}

void SweepPrinter::on_known(const Case& result) {
  if (!group_.empty() && !same_table(group_.back(), result)) flush();
  ++begun_;
  group_.push_back(result);
}

void SweepPrinter::on_end(const std::string&) { flush(); }

void SweepPrinter::flush() {
  clear();
  if (!quiet_ && !group_.empty()) print_plain(cases_text(group_));
  std::fflush(stdout);
  group_.clear();
}

}  // namespace wide
