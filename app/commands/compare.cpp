#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/results/compare_text.h"
#include "app/results/results.h"
#include "app/results/runs.h"
#include "app/sandbox/output_files.h"
#include "data/reports/run/run_compare.h"
#include "data/reports/sweep/compare/compare.h"
#include "data/reports/sweep/report_json.h"

namespace wide::compare_command {
namespace {

class CompareCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("BEFORE", before_, "a number, a name, last, or a report's .json file")
        ->required();
    app.add_option("AFTER", after_, "the same")->required();
    app.add_option("--json", json_, "write all of it; - is stdout");
    app.add_option("--db", db_, "the store; default: $WORKBENCH_DB, else the user's own");
  }

  int run() override {
    check_apart({{"--json", json_}}, {before_, after_}, db_);
    if (try_find_run(before_, db_) || try_find_run(after_, db_)) {
      const RunComparison runs =
          compare_runs(find_run(before_, db_), find_run(after_, db_), Pairing::seeds);
      if (!json_.empty()) write_json(json_, to_json(runs));
      if (json_ != "-") print_plain(comparison_text(runs));
      return 0;
    }
    const SweepReport before = find_sweep(before_, db_, kOrRun);
    const Comparison comparison = compare_sweeps(before, find_sweep(after_, db_, kOrRun));
    if (!json_.empty()) write_json(json_, to_json(comparison));
    if (json_ != "-") print_plain(comparison_text(comparison));
    return 0;
  }

 private:
  std::string before_, after_, json_, db_;
};

const bool registered = add_command<CompareCommand>(
    "compare", "what changed from one sweep, or training run, to another, beyond the noise");

}  // namespace
}  // namespace wide::compare_command
