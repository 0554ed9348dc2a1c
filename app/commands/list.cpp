#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cli.h"
#include "app/explorer/panel.h"
#include "app/results/results.h"
#include "app/results/table.h"
#include "app/sweep/cases.h"
#include "app/target_text.h"
#include "data/preset.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/passes/pass.h"
#include "engine/widen/target.h"

namespace wide::list_command {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::pair<const char*, Kind>> kKinds = {
    {"primitives", Kind::primitive}, {"blocks", Kind::block}, {"models", Kind::model}};

class List : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("WHAT", what_,
                   "primitives, blocks, models, passes, presets, panels; sweeps, fusions and runs "
                   "that are stored; "
                   "or the name of a primitive, block or model; default: all that is not stored");
    auto* json = app.add_flag("--json", json_, "as JSON");
    app.add_flag("--md", markdown_, "primitives, blocks or models as a Markdown table")
        ->excludes(json);
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    if (markdown_) return list_markdown();
    if (what_ == "sweeps" || what_ == "fusions" || what_ == "runs") return list_stored();
    static const std::set<std::string> groups{"",       "primitives", "blocks", "models",
                                              "passes", "presets",    "panels"};
    if (!groups.count(what_)) return list_one();
    Json all = Json::object();
    std::string text;
    const auto section = [&](const char* title, Table table, const auto& fill) {
      if (!what_.empty() && what_ != title) return;
      fill(table, all[title] = Json::array());
      text += (text.empty() ? "" : "\n") + table.text();
    };
    for (const auto& [title, kind] : kKinds)
      section(title, Table({title, "strategies", "summary"}, {}), [&](Table& table, Json& rows) {
        for (const Target* t : targets()) {
          if (t->kind != kind) continue;
          table.add({"  " + t->name, kind == Kind::model ? "" : listing(strategy_names(*t), 99),
                     t->summary});
          rows.push_back(target_json(*t));
        }
      });
    section("passes", Table({"passes", "stage", "order", "summary"}, {false, false, true, false}),
            [](Table& table, Json& rows) {  // in the order in which they run
              for (const Pass& p : passes()) {
                table.add({"  " + p.name, to_string(p.stage), std::to_string(p.order), p.summary});
                rows.push_back({{"name", p.name},
                                {"stage", to_string(p.stage)},
                                {"order", p.order},
                                {"summary", p.summary},
                                {"off", "--passes-off " + p.name}});
              }
            });
    section("presets", Table({"presets", "", ""}, {}), [](Table& table, Json& rows) {
      for (const Preset& p : presets()) {
        table.add({"  " + p.name, "", p.description});
        rows.push_back({{"name", p.name}, {"description", p.description}});
      }
    });
    section("panels", Table({"panels", "place", "summary"}, {}), [](Table& table, Json& rows) {
      for (const PanelInfo& p : panels()) {
        table.add({"  " + p.name, to_string(p.place), p.summary});
        rows.push_back({{"name", p.name}, {"place", to_string(p.place)}, {"summary", p.summary}});
      }
    });
    if (json_)
      fmt::print("{}\n", all.dump(1));
    else
      print_plain(text);
    return 0;
  }

 private:
  int list_one() const {
    for (const Target* target : targets()) {
      if (target->name != what_) continue;
      fmt::print("{}", json_ ? target_json(*target).dump(1) + "\n" : target_text(*target));
      return 0;
    }
    fail(
        "[list] WHAT: got {}, expected primitives, blocks, models, passes, presets, panels, "
        "sweeps, fusions, runs or the name of a primitive, block or model; try workbench list",
        printable(what_));
  }

  int list_markdown() const {
    for (const auto& [title, kind] : kKinds) {
      if (what_ != title) continue;
      print_plain(targets_markdown(kind));
      return 0;
    }
    fail("[list] --md: got {}, expected primitives, blocks or models; try list primitives --md",
         what_.empty() ? "nothing named" : printable(what_));
  }

  /// Lists what is stored, newest first: at most a screen as text, everything as JSON.
  int list_stored() const {
    constexpr int64_t kShown = 40;
    const std::string path = Store::path(db_);
    std::error_code error;
    std::optional<Store> store;  // stays empty if there is no store yet
    if (std::filesystem::exists(path, error)) store = Store::read(path);
    const int64_t limit = json_ ? -1 : kShown;
    Json rows = Json::array();
    Table table =
        what_ == "sweeps"
            ? Table({"sweep", "name", "state", "cases", "trials", "not ok", "started", "host"},
                    {true, false, false, true, true, true, false, false})
        : what_ == "runs"
            ? Table({"run", "name", "network", "n", "state", "models", "started", "host"}, {true})
            : Table({"fusion", "model", "n", "device", "dtype", "mode", "date", "host"}, {true});
    if (store && what_ == "sweeps")
      for (const SweepRow& row : store->sweeps(limit)) add_sweep(row, table, rows);
    if (store && what_ == "fusions")
      for (const FuseRow& row : store->fusions(limit)) add_fusion(row, table, rows);
    if (store && what_ == "runs")
      for (const RunRow& row : store->runs(limit)) add_run(row, table, rows);
    if (json_) {
      fmt::print("{}\n", Json{{what_, rows}}.dump(1, ' ', false, Json::error_handler_t::replace));
      return 0;
    }
    const bool more = rows.size() == static_cast<size_t>(kShown);
    print_plain(fmt::format("{}{}", table.text(), more ? "the newest; all of them: --json\n" : ""));
    return 0;
  }

  static void add_sweep(const SweepRow& row, Table& table, Json& rows) {
    int64_t trials = 0;
    std::string failed;
    for (const auto& [status, count] : row.trials) {
      trials += count;
      if (status != "ok" && status != "unsupported")
        failed += fmt::format("{}{} {}", failed.empty() ? "" : ", ", count, status);
    }
    table.add({std::to_string(row.id), printable(row.name), row.state,
               row.done == row.cases ? std::to_string(row.cases)
                                     : fmt::format("{} of {}", row.done, row.cases),
               std::to_string(trials), failed, row.started, printable(row.host)});
    rows.push_back({{"id", std::to_string(row.id)},
                    {"name", row.name},
                    {"state", row.state},
                    {"started", row.started},
                    {"finished", row.finished.empty() ? Json(nullptr) : Json(row.finished)},
                    {"command", row.command},
                    {"host", row.host},
                    {"cpu", row.cpu},
                    {"gpu", row.gpu.empty() ? Json(nullptr) : Json(row.gpu)},
                    {"cases", row.cases},
                    {"done", row.done},
                    {"trials", row.trials}});
  }

  static void add_fusion(const FuseRow& row, Table& table, Json& rows) {
    table.add({std::to_string(row.id), printable(row.model),
               fmt::format("{}", fmt::join(row.n, ",")), row.device, row.dtype, row.mode, row.date,
               printable(row.host)});
    rows.push_back({{"id", std::to_string(row.id)},
                    {"model", row.model},
                    {"n", row.n},
                    {"device", row.device},
                    {"dtype", row.dtype},
                    {"mode", row.mode},
                    {"date", row.date},
                    {"host", row.host}});
  }

  static void add_run(const RunRow& row, Table& table, Json& rows) {
    std::string statuses;
    for (const auto& [status, count] : row.statuses)
      statuses += fmt::format("{}{} {}", statuses.empty() ? "" : ", ", count, status);
    table.add({"run:" + std::to_string(row.id), printable(row.name), printable(row.network),
               std::to_string(row.n), row.state, statuses, row.started, printable(row.host)});
    rows.push_back({{"id", std::to_string(row.id)},
                    {"name", row.name},
                    {"network", row.network},
                    {"n", row.n},
                    {"state", row.state},
                    {"models", row.statuses},
                    {"started", row.started},
                    {"host", row.host}});
  }

  std::string what_, db_;
  bool json_ = false, markdown_ = false;
};

const bool registered = add_command<List>(
    "list",
    "what there is: primitives, blocks, models, passes, presets, panels; what is stored: "
    "sweeps, fusions, training runs");

}  // namespace
}  // namespace wide::list_command
