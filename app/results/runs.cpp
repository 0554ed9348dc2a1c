#include "app/results/runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/bytes/json_depth.h"
#include "data/bytes/mapped_file.h"
#include "data/escape.h"
#include "data/reports/run/run_fields.h"
#include "data/store/store.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// nullopt if the file is not JSON.
std::optional<Json> parsed(const std::string& path) {
  const MappedFile file(path);
  check_json_depth(file.bytes(), path);
  Json json = Json::parse(file.bytes(), nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? std::nullopt : std::optional(std::move(json));
}

/// `sweeps_first`: a number or name that a sweep has too is none of a run.
std::optional<RunReport> found_run(const std::string& which, const std::string& db_option,
                                   bool sweeps_first) {
  std::error_code error;
  if (fs::is_directory(which, error)) {
    const std::string path = (fs::path(which) / "report.json").string();
    if (!fs::exists(path, error) && fs::exists(fs::path(which) / "run.safetensors", error))
      fail(
          "[{}] report: got a run that has not ended, expected one with a report; try train "
          "--resume {}",
          printable(which), shell_word(which));
    const auto json = parsed(path);
    if (!json)
      fail("[{}] report: got no JSON, expected a report; try another file", printable(path));
    return run_from_json(*json, printable(path));
  }
  if (which.ends_with(".json") || which.find('/') != std::string::npos) {
    if (!fs::is_regular_file(which, error)) return std::nullopt;
    const auto json = parsed(which);
    if (!json || !json->is_object() || json->value("kind", "") != "run")
      return std::nullopt;  // it may be a sweep's report
    return run_from_json(*json, printable(which));
  }
  const bool said = which.rfind("run:", 0) == 0;
  const std::string path = Store::path(db_option);
  if (!fs::exists(path, error)) return std::nullopt;
  Store store = Store::read(path);
  if (sweeps_first && !said && store.find(which)) return std::nullopt;
  const auto run = store.find_run(said ? which.substr(4) : which);
  if (!run) return std::nullopt;
  return run_from_json(store.load_run(*run), fmt::format("run {}", *run), UnknownFields::ignored);
}

}  // namespace

std::optional<RunReport> try_find_run(const std::string& which, const std::string& db_option) {
  return found_run(which, db_option, /*sweeps_first=*/true);
}

RunReport find_run(const std::string& which, const std::string& db_option) {
  if (auto run = found_run(which, db_option, /*sweeps_first=*/false)) return std::move(*run);
  fail(
      "[{}] run: got no such folder, number or name in {}, expected a training run, as run:3 or "
      "last; try workbench list runs",
      printable(which), printable(Store::path(db_option)));
}

}  // namespace wide
