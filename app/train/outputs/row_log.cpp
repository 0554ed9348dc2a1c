#include "app/train/outputs/row_log.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/sandbox/group.h"
#include "data/bytes/part_file.h"
#include "data/escape.h"
#include "data/reports/run/event_file.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

LogKind log_kind(const std::string& path) {
  if (path.empty()) return LogKind::none;
  if (path == "-") return LogKind::lines;
  if (path.ends_with('/')) return LogKind::events;
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".csv") return LogKind::csv;
  if (extension == ".jsonl") return LogKind::json_lines;
  fail("[--log] file: got {}, expected FILE.csv, FILE.jsonl, DIR/ or -; try log.csv",
       printable(path));
}

RowLog::RowLog(const std::string& path, const Prepared& run, const std::vector<Evaluated>& history)
    : path_(path),
      kind_(log_kind(path)),
      run_(run),
      models_(rank_group() ? run.everyone : run.configurations.models) {
  const auto rows_of = [&](size_t model) {
    std::string text;
    for (const Evaluated& row : history) text += text_of(row, model);
    return text;
  };
  if (kind_ == LogKind::lines) {
    print_plain(head());
  } else if (kind_ == LogKind::csv || kind_ == LogKind::json_lines) {
    std::string text = head();
    for (const Evaluated& row : history)
      for (size_t m = 0; m < row.train_loss.size(); ++m) text += text_of(row, m);
    write_file(path_, text);
  } else if (kind_ == LogKind::events) {
    const double begun_s = history.empty() ? wall_s() : history[0].wall_s - history[0].seconds;
    for (size_t m = 0; m < models_.size(); ++m) {
      places().folder(event_folder(path_, m));
      write_file(event_file(path_, m), event_head(m, begun_s) + rows_of(m));
    }
  }
}

void RowLog::add(const Evaluated& row) {
  if (kind_ == LogKind::none) return;
  std::string all;
  for (size_t m = 0; m < row.train_loss.size(); ++m) {
    const std::string text = text_of(row, m);
    if (kind_ == LogKind::events && !text.empty())
      places().append(event_file(path_, m), text);
    else
      all += text;
  }
  if (kind_ == LogKind::lines) {
    print_plain(all);
    std::fflush(stdout);  // a reader may follow it during training
  } else if (kind_ != LogKind::events && !all.empty()) {
    places().append(path_, all);
  }
}

std::string RowLog::head() const {
  if (kind_ == LogKind::json_lines) return "";
  std::string text = "step,epoch,seconds,model,train_loss";
  if (run_.data.has_validation())
    for (const WantedMetric& metric : run_.metrics) text += "," + csv_cell(metric.name);
  return text + "\n";
}

std::string RowLog::event_head(size_t model, double wall_s) const {
  const ModelSettings& settings = models_[model];
  std::map<std::string, double> numbers = settings.hyper;
  numbers["seed"] = double(settings.seed);
  numbers["seed.init"] = double(settings.seed_init);
  numbers["seed.order"] = double(settings.seed_order);
  numbers["seed.dropout"] = double(settings.seed_dropout);
  if (settings.fold >= 0) numbers["fold"] = double(settings.fold);
  std::map<std::string, std::string> texts = settings.labels;
  if (!settings.name.empty()) texts["name"] = settings.name;
  return event_file_head(wall_s) + event_hyperparameters(wall_s, numbers, texts);
}

/// "" if the model did not run.
std::string RowLog::text_of(const Evaluated& row, size_t model) const {
  const double train_loss = row.train_loss[model];
  if (!row.ran(model)) return "";
  if (kind_ == LogKind::events) {
    std::map<std::string, double> values;
    if (!std::isnan(train_loss)) values["train_loss"] = train_loss;
    for (const auto& [metric, of_models] : row.values) values[metric] = of_models[model];
    return event_scalars(row.wall_s, row.step, values);
  }
  if (kind_ == LogKind::json_lines) {
    Json json = {{"step", row.step},
                 {"epoch", row.epoch},
                 {"seconds", row.seconds},
                 {"model", model},
                 {"train_loss", train_loss}};
    for (const auto& [metric, of_models] : row.values) json[metric] = of_models[model];
    return json.dump() + "\n";
  }
  std::string text = fmt::format("{},{:.6g},{:.6g},{},", row.step, row.epoch, row.seconds, model);
  if (!std::isnan(train_loss)) text += csv_number(train_loss);
  for (const WantedMetric& metric : run_.metrics)
    if (row.values.count(metric.name)) text += "," + csv_number(row.values.at(metric.name)[model]);
  return text + "\n";
}

}  // namespace wide
