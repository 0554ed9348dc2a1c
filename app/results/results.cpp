#include "app/results/results.h"

#include <filesystem>

#include "data/reports/report_read.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

SweepReport find_sweep(const std::string& which, const std::string& db_option) {
  std::error_code error;
  const bool file = std::filesystem::is_regular_file(which, error);
  if (which.ends_with(".json") || which.find('/') != std::string::npos)
    return read_sweep_report(which);
  const std::string path = Store::path(db_option);
  // A report's file may have any name, unless a stored sweep has it.
  if (file && !std::filesystem::exists(path, error)) return read_sweep_report(which);
  Store store = Store::read(path);
  if (file && !store.find(which)) return read_sweep_report(which);
  return store.load(find_stored(store, which, path));
}

int64_t find_stored(Store& store, const std::string& which, const std::string& path) {
  if (const auto id = store.find(which)) return *id;
  fail(
      "[{}] sweep: got no such number or name in {}, expected a stored sweep, last, or a "
      "report's .json; try workbench list sweeps",
      printable(which), printable(path));
}

}  // namespace wide
