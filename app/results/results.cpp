#include "app/results/results.h"

#include <filesystem>

#include "data/reports/sweep/report_read.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

SweepReport find_sweep(const std::string& which, const std::string& db_option,
                       const std::string& also) {
  std::error_code error;
  const bool file = std::filesystem::is_regular_file(which, error);
  if (which.ends_with(".json") || which.find('/') != std::string::npos)
    return read_sweep_report(which);
  const std::string path = Store::path(db_option);
  // A report's file may have any name, but a stored sweep of that name comes first.
  if (file && !std::filesystem::exists(path, error)) return read_sweep_report(which);
  const bool stored = which == "last" || which.find_first_not_of("0123456789") == std::string::npos;
  if (!also.empty() && !stored && !std::filesystem::exists(path, error))
    fail(
        "[{}] sweep: got no such file, and no store in {}, expected a report's .json{}; try "
        "another "
        "path",
        printable(which), printable(path), also);
  Store store = Store::read(path);
  if (file && !store.find(which)) return read_sweep_report(which);
  if (const auto id = store.find(which)) return store.load(*id);
  fail(
      "[{}] sweep: got no such number or name in {}, expected a stored sweep, last, or a "
      "report's .json{}; try workbench list {}",
      printable(which), printable(path), also, also.empty() ? "sweeps" : "sweeps, or list runs");
}

int64_t find_stored(Store& store, const std::string& which, const std::string& path) {
  if (const auto id = store.find(which)) return *id;
  fail(
      "[{}] sweep: got no such number or name in {}, expected the number or name of a stored "
      "sweep, or last; try workbench list sweeps",
      printable(which), printable(path));
}

}  // namespace wide
