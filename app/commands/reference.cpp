#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/cli.h"
#include "app/results/results.h"
#include "app/results/table.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::reference_command {
namespace {

class Reference : public Command {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    set_ = app.add_subcommand("set", "name a stored sweep; a name that is taken moves");
    set_->add_option("NAME", name_,
                     "the reference's name, which no other sweep may have: where a sweep is named, "
                     "a reference comes before a sweep of that name")
        ->required();
    set_->add_option("SWEEP", sweep_, "a number, a name, or last")->required();
    list_ = app.add_subcommand("list", "all references");
    delete_ = app.add_subcommand("delete", "forget a name; the sweep stays");
    delete_->add_option("NAME", name_, "the reference's name")->required();
    for (CLI::App* sub : {set_, list_, delete_})
      sub->add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    const std::string path = Store::path(db_);
    if (set_->parsed()) {
      Store reader = Store::read(path);
      const int64_t id = find_stored(reader, sweep_, path);
      Store::create(path).set_reference(name_, id);
      print_plain(fmt::format("{} is sweep {}\n", printable(name_), id));
    } else if (delete_->parsed()) {
      Store::read(path);  // throws if there is no store, instead of creating one
      if (!Store::create(path).remove_reference(name_))
        fail("[{}] reference: got no such name in {}, expected one; try workbench reference list",
             printable(name_), printable(path));
      print_plain(fmt::format("{} is no reference any more\n", printable(name_)));
    } else {
      Table table({"reference", "sweep", "", "set"}, {false, true, false, false});
      for (const ReferenceRow& row : Store::read(path).references())
        table.add(
            {printable(row.name), std::to_string(row.sweep), printable(row.sweep_name), row.date});
      print_plain(table.text());
    }
    return 0;
  }

 private:
  CLI::App *set_ = nullptr, *list_ = nullptr, *delete_ = nullptr;
  std::string name_, sweep_, db_;
};

const bool registered = add_command<Reference>(
    "reference", "named sweeps to compare with: set NAME SWEEP, list, delete NAME");

}  // namespace
}  // namespace wide::reference_command
