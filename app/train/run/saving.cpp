#include "app/train/run/saving.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/fuse/unstack.h"
#include "app/train/inputs/arrays.h"
#include "data/bytes/json_depth.h"
#include "data/bytes/new_file.h"
#include "data/bytes/part_file.h"
#include "data/reports/run/run_fields.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_tables.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Named = std::vector<std::pair<std::string, Tensor>>;

std::string number_text(double number) { return fmt::format("{}", number); }

Json parse_json(const std::string& text, const std::string& file) {
  check_json_depth(text, file);
  return Json::parse(text);
}

}  // namespace

std::string RunFolder::file(const std::string& name) const { return (fs::path(path_) / name); }

std::string RunFolder::checkpoint(const std::string& kind, int64_t model) const {
  return (fs::path(path_) / kind / fmt::format("model-{:04}.safetensors", model)).string();
}

void RunFolder::prepare(const Prepared& run, int64_t model_bytes, int64_t state_bytes) const {
  if (!exists()) return;
  places().folder(path_);
  const int64_t kept = run.options.keep > 0 ? std::min(run.options.keep, run.n()) : run.n();
  // Twice the state, since the new file is complete before the old one is removed.
  const int64_t wanted = 2 * kept * model_bytes + 2 * state_bytes;
  std::error_code error;
  const fs::space_info space = fs::space(path_, error);
  if (!error && static_cast<int64_t>(space.available) < wanted)
    throw Error(fmt::format("[{}] disk: got {} free, expected {} for the checkpoints of {} models; "
                            "try --keep 10, --no-save or another --save",
                            printable(path_), bytes_text(static_cast<double>(space.available)),
                            bytes_text(static_cast<double>(wanted)), run.n()),
                1);
  // After all checks: up to here the earlier run is untouched.
  if (run.options.overwrite)
    for (const std::string& part : run_parts(path_)) places().remove(part);
  for (const char* kind : {"best", "last"}) places().folder(file(kind));
}

void RunFolder::save_state(const Prepared& run, const Trainer& trainer,
                           const TrainState& state) const {
  if (!exists()) return;
  const TrainerState from = trainer.state();
  Named tensors;
  for (const auto& [name, tensor] : from.tensors) tensors.emplace_back(name, tensor);
  for (const auto& [name, tensor] : state.best) tensors.emplace_back(kBestTensors + name, tensor);
  tensors.emplace_back(kLossSum, state.loss_sum);
  for (const Normalization& n : run.data.normalization) {
    tensors.emplace_back("normalize.mean." + n.input, n.mean);
    tensors.emplace_back("normalize.std." + n.input, n.std);
  }
  std::vector<int64_t> groups;
  for (size_t i = 0; i < run.configurations.models.size(); ++i)
    groups.push_back(run.data.folds > 0 ? run.configurations.models[i].fold
                                        : static_cast<int64_t>(i));
  Json head = {{"schema", 1},
               {"more_is_better", run.monitor().more_is_better},
               {"groups", groups},
               {"columns", fields_json(run.data.train.columns)},
               {"options", to_json(run.options)},
               {"defaults", run.defaults},
               {"state", to_json(state)},
               {"trainer_step", from.step}};
  save_tensors(file(kRunState), tensors,
               {{"workbench", head.dump(-1, ' ', false, Json::error_handler_t::replace)},
                {"data", run.fingerprint},
                {"identity", run.identity},
                {"plan", from.plan}});
}

void RunFolder::save_checkpoints(const Prepared& run, const Trainer& trainer,
                                 const TrainState& state,
                                 const std::vector<int64_t>& models) const {
  if (!exists()) return;
  // Those that an earlier part of a resumed run kept, and that are no longer among the best.
  for (int64_t m = 0; m < run.n() && run.options.keep > 0; ++m)
    if (std::ranges::find(models, m) == models.end())
      for (const char* kind : {"best", "last"}) places().remove(checkpoint(kind, m));
  const std::map<std::string, Tensor> last = trainer.weights();
  for (const int64_t m : models) {
    save_checkpoint(checkpoint("last", m), run, last, m);
    if (state.models[static_cast<size_t>(m)].best)
      save_checkpoint(checkpoint("best", m), run, state.best, m);
  }
}

void save_checkpoint(const std::string& path, const Prepared& run,
                     const std::map<std::string, Tensor>& weights, int64_t model) {
  std::map<std::string, Tensor> own;
  for (const TensorSpec& spec : run.network.tensors()) {
    const Tensor& tensor = weights.at(spec.name);
    const bool shared = tensor.dim() == static_cast<int64_t>(spec.sizes.size());
    own[spec.name] = shared ? tensor : tensor[model];
  }
  // Tied weights are one tensor; a state_dict has it under each of its names.
  Named named(own.begin(), own.end());
  for (const auto& [alias, name] : run.network.train_form().aliases)
    if (own.count(name)) named.emplace_back(alias, own.at(name));
  save_tensors(path, named);
}

std::string unstack_run(const std::string& folder, const Prepared& run,
                        const std::map<std::string, Tensor>& weights) {
  for (int64_t m = 0; m < run.n(); ++m)
    save_checkpoint((fs::path(folder) / unstacked_name(m, run.n())).string(), run, weights, m);
  return fmt::format("{} checkpoints written to {}: best weights, last ones where there is no best",
                     run.n(), printable(folder));
}

bool RunFolder::has_split() const {
  std::error_code error;
  return !exists() || fs::exists(file("split.npz"), error);
}

void RunFolder::save_split(const Prepared& run) const {
  if (!exists()) return;
  Named arrays;
  // With rows of models' own: all lists joined, and an array of the model of each row.
  const auto add_all = [&](const std::string& name, const std::vector<Rows>& lists) {
    Rows all, model;
    for (size_t m = 0; m < lists.size(); ++m) {
      all.insert(all.end(), lists[m].begin(), lists[m].end());
      model.insert(model.end(), lists[m].size(), static_cast<int64_t>(m));
    }
    arrays.emplace_back(name, at::tensor(all, at::kLong));
    if (lists.size() > 1) arrays.emplace_back(name + "_model", at::tensor(model, at::kLong));
  };
  if (!run.data.fold_of.empty())
    arrays.emplace_back("fold", at::tensor(run.data.fold_of, at::kLong));
  else
    add_all("train", run.data.train_rows);
  if (run.data.folds == 0 && run.data.has_validation()) add_all("validation", run.data.validation);
  if (!run.data.test.empty()) add_all("test", run.data.test);
  write_npz(file("split.npz"), arrays);
}

void RunFolder::save_models(const Prepared& run, const TrainState& state) const {
  if (!exists()) return;
  ReportTable table({"model", "name", "config", "fold", "seed.init", "seed.order", "seed.dropout"});
  std::vector<std::string>& head = table.head;
  for (const auto& [key, value] : run.configurations.models[0].hyper) head.push_back(key);
  for (const auto& [key, value] : run.configurations.models[0].labels) head.push_back(key);
  for (const char* more : {"status", "at_step", "best_step"}) head.emplace_back(more);
  for (const WantedMetric& metric : run.metrics) head.push_back("best." + metric.name);
  for (size_t i = 0; i < run.configurations.models.size(); ++i) {
    const ModelSettings& m = run.configurations.models[i];
    const ModelState& s = state.models[i];
    std::vector<TableCell> cells{std::to_string(i),
                                 m.name,
                                 std::to_string(m.config),
                                 m.fold < 0 ? "" : std::to_string(m.fold),
                                 std::to_string(m.seed_init),
                                 std::to_string(m.seed_order),
                                 std::to_string(m.seed_dropout)};
    for (const auto& [key, value] : m.hyper) cells.push_back(number_text(value));
    for (const auto& [key, value] : m.labels) cells.push_back(value);
    cells.push_back(s.status);
    cells.push_back(std::to_string(s.at_step));
    cells.push_back(s.best ? std::to_string(s.best_step) : "");
    for (const WantedMetric& metric : run.metrics) {
      const auto best = s.at_best.find(metric.name);
      const bool there = best != s.at_best.end() && !std::isnan(best->second);
      cells.push_back(there ? number_text(best->second) : "");
    }
    table.rows.push_back(std::move(cells));
  }
  write_file(file("models.csv"), table.csv());
}

SavedRun read_saved_run(const std::string& folder) {
  const std::string path = (fs::path(folder) / kRunState).string();
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail("[{}] run: got no {}, expected a run's folder; try the DIR of --save", printable(folder),
         kRunState);
  const safetensors::File file(path);
  const auto& metadata = file.index().metadata;
  SavedRun run;
  try {
    const Json head = parse_json(metadata.at("workbench"), path);
    if (head.at("schema") != 1) throw std::out_of_range("schema");
    run.options = options_of(head.at("options"));
    if (!head.at("options").contains("validation_of_rest")) run.options.validation_of_rest = true;
    if (head.contains("defaults")) head.at("defaults").get_to(run.defaults);
    run.state = state_of(head.at("state"));
    run.more_is_better = head.at("more_is_better");
    run.groups = head.at("groups").get<std::vector<int64_t>>();
    if (head.contains("columns"))
      read_fields(head.at("columns"), printable(path), UnknownFields::refused,
                  [&](Fields& fields) { describe(fields, run.columns.emplace()); });
    run.plan = metadata.at("plan");
    if (metadata.count("data")) run.data = metadata.at("data");
    if (metadata.count("identity")) run.identity = metadata.at("identity");
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail("[{}] run: got another file, expected one of workbench train; try another folder",
         printable(path));
  }
  return run;
}

RunFile load_run_file(const std::string& folder) {
  const std::string path = (fs::path(folder) / kRunState).string();
  RunFile file;
  for (const auto& [name, tensor] : load_tensors(path)) file.tensors[name] = tensor.clone();
  file.metadata = safetensors::File(path).index().metadata;
  return file;
}

void save_run_file(const std::string& folder, const RunFile& file) {
  save_tensors((fs::path(folder) / kRunState).string(), {file.tensors.begin(), file.tensors.end()},
               file.metadata);
}

std::vector<std::string> run_files(const std::string& folder) {
  std::vector<std::string> all;
  for (const char* name : {kRunState, "report.json", "split.npz", "models.csv", "oof.npz"})
    all.push_back((fs::path(folder) / name).string());
  return all;
}

std::vector<std::string> run_parts(const std::string& folder) {
  std::vector<std::string> all = run_files(folder);
  for (const char* kind : {"best", "last"}) all.push_back((fs::path(folder) / kind).string());
  return all;
}

}  // namespace wide
