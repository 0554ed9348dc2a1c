#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "app/cli.h"
#include "app/results/results.h"
#include "app/sweep/regression.h"
#include "app/sweep/summary.h"
#include "app/sweep/text.h"
#include "data/reports/report_format.h"
#include "data/reports/report_tables.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

class ReportCommand : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "a sweep's results as text, JSON, CSV, Markdown, SVG, HTML or JUnit";
  }

  void declare(CLI::App& app) override {
    app.add_option("SWEEP", which_, "a number, a name, last, or a report's .json file")->required();
    for (const ReportFormat& format : report_formats())
      app.add_option("--" + format.name, files_[format.name], format.summary + "; - is stdout");
    app.add_option("--targets", targets_, "only these")->delimiter(',');
    app.add_option("--over", over_, "plots show the speedup over the best baseline or the loop")
        ->check(CLI::IsMember({"best", "loop"}))
        ->capture_default_str();
    app.add_flag("--published", published_, "plots show what others published, dashed");
    against_.declare(app);
    app.add_option("--db", db_, "the store; default: $WORKBENCH_DB, else the user's own");
  }

  int run() override {
    SweepReport report = find_sweep(which_, db_);
    keep_targets(&report);
    FigureOptions options;
    options.over_loop = over_ == "loop";
    options.published = published_;
    against_.prepare(db_);
    bool written = false, to_stdout = false;
    for (const ReportFormat& format : report_formats()) {
      const std::string& path = files_[format.name];
      if (path.empty()) continue;
      write_report(path, format.text(report, options));
      written = true;
      to_stdout |= path == "-";
    }
    if (!written) print(report);
    return complain(against_.check(report, db_, to_stdout));
  }

 private:
  void keep_targets(SweepReport* report) const {
    if (targets_.empty()) return;
    std::vector<std::string> known;
    for (const auto& cases : target_groups(report->cases)) known.push_back(cases.front().target);
    for (const std::string& target : targets_)
      if (std::find(known.begin(), known.end(), target) == known.end())
        fail("[--targets] target: got {}, expected one of {}; try workbench report {}",
             printable(target), listing(known, 9), printable(which_));
    auto& cases = report->cases;
    cases.erase(std::remove_if(cases.begin(), cases.end(),
                               [&](const Case& c) {
                                 return std::find(targets_.begin(), targets_.end(), c.target) ==
                                        targets_.end();
                               }),
                cases.end());
  }

  static void print(const SweepReport& report) {
    for (const auto& cases : target_groups(report.cases)) print_plain(cases_text(cases));
    print_plain(summary_text(report));
  }

  std::string which_, db_, over_ = "best";
  std::map<std::string, std::string> files_;  // format to path
  std::vector<std::string> targets_;
  bool published_ = false;
  Against against_;
};

const bool registered = add_command([] { return std::make_unique<ReportCommand>(); });

}  // namespace
}  // namespace wide
