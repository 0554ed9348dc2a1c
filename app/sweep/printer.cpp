#include "app/sweep/printer.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "app/cli.h"
#include "app/sweep/text.h"
#include "data/escape.h"
#include "data/reports/sweep/summary_rows.h"
#include "data/text.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

/// Width of the terminal on standard error, in columns.
size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

SweepPrinter::SweepPrinter(SweepSession& session, bool quiet)
    : session_(session), start_s_(now_s()), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {
  const std::vector<SweepCase>& cases = session.runner().cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (i == 0 || cases[i - 1].machine != cases[i].machine ||
        !same_table(empty_case(cases[i - 1]), empty_case(cases[i])))
      groups_.emplace_back().machine = cases[i].machine;
    group_of_.push_back(groups_.size() - 1);
    ++groups_.back().left;
  }
}

void SweepPrinter::show(const std::string& doing) {
  if (quiet_) return;
  const double minutes = (now_s() - start_s_) / 60;
  const std::string rate =
      run_ > 0 ? fmt::format("{:.1f} cases/min · ", static_cast<double>(run_) / minutes) : "";
  std::string text =
      fmt::format("[{}/{}] {} · {}{} left", begun_.size(), session_.runner().cases().size(), line_,
                  rate, duration_text(session_.left_s()));
  if (!terminal_) {
    write_stderr(text + "\n");
    return;
  }
  if (!doing.empty()) text += " · " + doing;
  // A progress line that wraps could not be erased.
  size_t shown = 0, bytes = 0;
  for (; bytes < text.size() && shown + 1 < columns(); ++shown) do
      ++bytes;
    while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80);
  write_stderr("\r\x1b[K" + text.substr(0, bytes));
}

void SweepPrinter::clear() {
  if (quiet_ || !terminal_) return;
  write_stderr("\r\x1b[K");
}

void SweepPrinter::on_begin(const SweepCase& p) {
  begun_.insert(session_.runner().index(p));
  line_ = fmt::format("{} {} N={}", p.target->name, p.shape.text(), p.n);
  show("");
}

void SweepPrinter::on_stage(const std::string& what, const std::string& trial) {
  if (terminal_) show(trial.empty() ? what : what + " " + trial);
}

void SweepPrinter::on_case(const SweepCase& planned, const Case& result) {
  ++run_;
  add(planned, result);
}

void SweepPrinter::on_known(const SweepCase& planned, const Case& result) {
  begun_.insert(session_.runner().index(planned));
  add(planned, result);
}

void SweepPrinter::on_lost(const std::string& what) {
  clear();
  if (!quiet_) write_stderr(clean_text(what) + "\n");
}

void SweepPrinter::on_end(const std::string&) {
  for (Group& group : groups_) print(group);
}

void SweepPrinter::add(const SweepCase& planned, const Case& result) {
  const size_t index = session_.runner().index(planned);
  Group& group = groups_[group_of_[index]];
  group.done[index] = result;
  if (--group.left == 0) print(group);
}

void SweepPrinter::print(Group& group) {
  clear();
  std::vector<Case> cases;
  for (auto& [index, result] : group.done) cases.push_back(std::move(result));
  group.done.clear();
  if (!quiet_) print_plain(tables_text(cases, group.machine));
  std::fflush(stdout);
}

}  // namespace wide
