#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/explorer/plot_png.h"
#include "app/results/results.h"
#include "app/results/runs.h"
#include "app/sandbox/output_files.h"
#include "app/sweep/regression.h"
#include "app/sweep/summary.h"
#include "app/sweep/text.h"
#include "data/plot/svg_document.h"
#include "data/reports/report_format.h"
#include "data/reports/run/run_fields.h"
#include "data/reports/run/run_figure.h"
#include "data/reports/run/run_files.h"
#include "data/reports/run/run_page.h"
#include "data/reports/run/run_report.h"
#include "data/reports/suites/suites.h"
#include "data/reports/sweep/published.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::report_command {
namespace {

/// `workbench report`: finds a stored sweep or training run and writes it in each format that was
/// asked for, or prints it as text where none was. Exit codes: 2 for a result, target or
/// format that does not exist, 1 where a file cannot be written, 3 where `--against` finds it
/// slower.
class ReportCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option(
           "SWEEP", which_,
           "a number, a name, last, or a report's .json file; of a training run its folder, "
           "run:3 or run:last")
        ->required();
    app.add_option(
           "--by", by_,
           "of a training run: hyperparameters that make a configuration, or columns of numbers "
           "of --models")
        ->delimiter(',');
    for (const ReportFormat& format : report_formats())
      app.add_option("--" + format.name, files_[format.name], format.summary + "; - is stdout");
    app.add_option("--csv-suite", suite_,
                   "a folder for the suites' own CSV files, a page of tables and plots");
    app.add_option("--targets", targets_, "only these")->delimiter(',');
    app.add_option("--over", over_, "plots show the speedup over the best baseline or the loop")
        ->check(CLI::IsMember({"best", "loop"}))
        ->capture_default_str();
    app.add_flag("--published", published_, "plots show what WideCompiler published, dashed");
    against_.declare(app);
    app.add_option("--db", db_, "the store; default: $WORKBENCH_DB, else the user's own");
  }

  int run() override {
    OutputFiles outputs;
    for (const auto& [format, path] : files_) outputs.emplace_back("--" + format, path);
    check_apart(outputs, {which_}, db_);
    const bool gated = against_.fails_on_regression();
    if (auto found = try_find_run(which_, db_)) return report_run(std::move(*found));
    SweepReport report = find_sweep(which_, db_, kOrRun);
    if (!by_.empty())
      fail("[--by] report: got a sweep, expected a training run; try it without --by");
    expect_targets(report);
    keep_targets(&report);
    if (published_) expect_published(report);
    FigureOptions options;
    options.over_loop = over_ == "loop";
    options.published = published_;
    against_.prepare(db_, [this](SweepReport* other) { keep_targets(other); });
    bool written = false, to_stdout = false;
    for (const ReportFormat& format : report_formats()) {
      const std::string& path = files_[format.name];
      if (path.empty()) continue;
      write_report(path, format.text(report, options));
      written = true;
      to_stdout |= path == "-";
    }
    if (!suite_.empty()) write_suite(report);
    if (!written && suite_.empty()) print(report);
    std::vector<Complaint> complaints = against_.check(report, to_stdout);
    if (gated) complaints.push_back(failed_trials(report));
    return complain(complaints);
  }

 private:
  int report_run(RunReport run) {
    using Text = std::function<std::string(const RunReport&)>;
    const auto json = [](const RunReport& all) { return report_text(to_json(all)); };
    const auto page = [this](const RunReport& all) { return run_html(all, by_); };
    const auto picture = [this](const RunReport& all) {
      return curves_document(
          report_figure(std::make_shared<const RunHistory>(run_history(all)), "", by_),
          all.run.command);
    };
    const std::map<std::string, Text> texts{
        {"json", json}, {"csv", run_csv}, {"html", page}, {"junit", run_junit}, {"svg", picture}};
    for (const auto& [format, path] : files_)
      if (!path.empty() && !texts.count(format))
        fail(
            "[--{}] report: got a training run, expected a sweep; try --html, --csv, --json, "
            "--svg or --junit",
            format);
    const std::pair<const char*, bool> of_sweeps[] = {{"--csv-suite", !suite_.empty()},
                                                      {"--targets", !targets_.empty()},
                                                      {"--over", over_ != "best"},
                                                      {"--published", published_}};
    for (const auto& [option, given] : of_sweeps)
      if (given)
        fail("[{}] report: got a training run, expected a sweep; try it without {}", option,
             option);
    run.by = by_;
    bool written = false, to_stdout = false;
    for (const ReportFormat& format : report_formats()) {
      const std::string& path = files_[format.name];
      if (path.empty()) continue;
      write_report(path, texts.at(format.name)(run));
      written = true;
      to_stdout |= path == "-";
    }
    if (!written) print_plain(run_text(run, by_));
    return complain(against_.check(run, db_, to_stdout));
  }

  /// --csv-suite: tables and plots of the suites in `presets/README.md`.
  void write_suite(const SweepReport& report) const {
    const SuitePages pages = suite_pages(report);
    std::error_code error;
    std::filesystem::create_directories(suite_, error);
    if (!std::filesystem::is_directory(suite_))
      throw Error(fmt::format("[--csv-suite] folder: got {}, expected one that can be made; try "
                              "another path",
                              printable(suite_)),
                  1);
    for (const SuiteFile& file : pages.files) write_report(suite_ + "/" + file.name, file.text);
    for (const SuitePlots& p : pages.plots) {
      write_report(suite_ + "/" + p.name + ".svg", svg_document(p.figures, p.title, p.footer));
      write_report(suite_ + "/" + p.name + ".png", plot_png(p.figures, p.title, p.footer));
    }
  }

  /// --targets: throws Error for one that the report does not have.
  void expect_targets(const SweepReport& report) const {
    std::vector<std::string> known;
    for (const auto& cases : target_groups(report.cases)) known.push_back(cases.front().target);
    for (const std::string& target : targets_)
      if (std::find(known.begin(), known.end(), target) == known.end())
        fail("[--targets] target: got {}, expected one of {}; try workbench report {}",
             printable(target), listing(known, 9), printable(which_));
  }

  /// --targets: drops the cases of all other targets.
  void keep_targets(SweepReport* report) const {
    if (targets_.empty()) return;
    std::erase_if(report->cases, [&](const Case& c) {
      return std::find(targets_.begin(), targets_.end(), c.target) == targets_.end();
    });
  }

  /// --published: throws Error where no plot would have a published figure.
  static void expect_published(const SweepReport& report) {
    if (std::ranges::any_of(report.cases,
                            [](const Case& c) { return published_line(c).has_value(); }))
      return;
    std::vector<std::string> targets;
    for (const auto& cases : target_groups(report.cases)) targets.push_back(cases.front().target);
    fail(
        "[--published] figures: got none of forward calls of {} in f32, expected a target of the "
        "sweep published; try it without --published",
        printable(listing(targets, 9)));
  }

  static void print(const SweepReport& report) {
    print_plain(tables_text(report.cases));
    print_plain(summary_text(report));
  }

  std::string which_, db_, suite_, over_ = "best";
  std::map<std::string, std::string> files_;  // format to path
  std::vector<std::string> targets_, by_;
  bool published_ = false;
  Against against_;  // --against and --fail-on-regression: a comparison with an earlier result
};

const bool registered = add_command<ReportCommand>(
    "report",
    "a sweep's or a training run's results as text, JSON, CSV, Markdown, SVG, HTML or JUnit");

}  // namespace
}  // namespace wide::report_command
