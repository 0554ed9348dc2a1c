#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/cli.h"
#include "app/results/results.h"
#include "data/store/sweeps/merge.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::store_command {
namespace {

class StoreCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    export_ = app.add_subcommand("export", "write one sweep as a store of its own");
    export_->add_option("SWEEP", sweep_, "a number, a name, or last")->required();
    export_->add_option("FILE", file_, "a new .db file")->required();
    import_ = app.add_subcommand("import", "add the sweeps of another store");
    import_->add_option("FILE", file_, "a .db file")->required();
    delete_ = app.add_subcommand("delete", "delete a sweep, its results and its references");
    delete_->add_option("SWEEP", sweep_, "a number, a name that is no reference's, or last")
        ->required();
    merge_ = app.add_subcommand(
        "merge",
        "write the sweep that was run in parts (--part), or on each machine (--each-machine)");
    merge_->add_option("OUT", file_, "a new .db file")->required();
    merge_->add_option("PART", parts_, "the stores with the parts, all of them")->required();
    for (CLI::App* sub : {export_, import_, delete_})
      sub->add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    if (merge_->parsed()) {
      print_plain(fmt::format("{} cases of {} stores are in {}\n", merge_parts(file_, parts_),
                              parts_.size(), file_));
      return 0;
    }
    const std::string path = Store::path(db_);
    if (import_->parsed()) {
      Store::read(file_);  // throws before a store is made for it
      const std::vector<int64_t> added = Store::create(path).import_sweeps(file_);
      print_plain(fmt::format("imported {} sweeps: {}\n", added.size(), fmt::join(added, ", ")));
      return 0;
    }
    Store reader = Store::read(path);
    // A sweep may have the name too: then it is not clear which one is to go.
    if (const auto named = reader.reference(sweep_); delete_->parsed() && named)
      fail(
          "[{}] sweep: got a reference's name, expected a sweep's number or name; try workbench "
          "store delete {}",
          printable(sweep_), *named);
    const int64_t id = find_stored(reader, sweep_, path);
    if (export_->parsed()) {
      reader.export_sweep(id, file_);
      print_plain(fmt::format("sweep {} is in {}\n", id, file_));
    } else {
      Store::create(path).remove(id);
      print_plain(fmt::format("sweep {} is deleted\n", id));
    }
    return 0;
  }

 private:
  CLI::App *export_ = nullptr, *import_ = nullptr, *delete_ = nullptr, *merge_ = nullptr;
  std::string sweep_, file_, db_;
  std::vector<std::string> parts_;
};

const bool registered = add_command<StoreCommand>(
    "store",
    "stored results: export SWEEP FILE.db, import FILE.db, delete SWEEP, merge OUT.db PART.db...");

}  // namespace
}  // namespace wide::store_command
