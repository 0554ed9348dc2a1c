#include "app/train/models/configurations.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/train/models/model_keys.h"
#include "app/train/models/values.h"
#include "data/bytes/csv.h"
#include "data/bytes/mapped_file.h"
#include "data/machine/environment.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/train/trainer.h"

namespace wide {
namespace {

const std::set<std::string> kSeedKeys = {"seed", "seed.init", "seed.order", "seed.dropout"};

constexpr int64_t kSettings_bytes = 1 << 10;  // of one model, about

using Row = std::map<std::string, double>;
using Counts = std::vector<std::pair<std::string, int64_t>>;  // option, number of models

class ConfigurationBuilder {
 public:
  ConfigurationBuilder(const TrainOptions& options, Counts counts, int64_t folds,
                       double label_smoothing)
      : options_(options),
        counts_(std::move(counts)),
        folds_(folds),
        optimizer_(optimizer(options.optimizer)) {
    for (const Hyperparameter& h : optimizer_.hyperparameters) known_.push_back(h);
    for (Hyperparameter h : trainer_hyperparameters()) {
      if (h.name == "label_smoothing") h.value = label_smoothing;
      if (h.name == "dropout") h.low = 0;  // negative means the network's own, for the engine only
      known_.push_back(h);
    }
  }

  Configurations build() {
    read_settings();
    read_grid();
    if (!options_.models.empty()) read_models();
    count();
    Configurations all;
    const int64_t each = seeds() * fold_models();
    for (int64_t i = 0; i < n_; ++i) all.models.push_back(model(i, i / each));
    number_configs(&all);
    for (const auto& [key, values] : settings_) all.said.insert(key);
    for (const auto& [key, values] : grid_) all.said.insert(key);
    for (const TableRow& row : table_)
      for (const auto& [key, number] : row.numbers) all.said.insert(key);
    return all;
  }

 private:
  int64_t seeds() const { return std::max<int64_t>(options_.seeds, 1); }

  /// Models for each configuration and seed: one for every fold, unless the key `fold` says which.
  int64_t fold_models() const {
    const bool said =
        settings_.count("fold") || (!table_.empty() && table_.front().numbers.count("fold"));
    return said ? 1 : std::max<int64_t>(folds_, 1);
  }

  bool is_known(const std::string& key) const {
    return kSeedKeys.count(key) || key == "fold" || key == kOwnEpochs ||
           std::ranges::any_of(known_, [&](const auto& h) { return h.name == key; });
  }

  std::vector<std::string> known_keys() const {
    std::vector<std::string> names(kSeedKeys.begin(), kSeedKeys.end());
    for (const Hyperparameter& h : known_) names.push_back(h.name);
    return names;
  }

  /// Throws Error for a key that cannot be set; `option` is where the user wrote it.
  void check_key(const std::string& option, const std::string& key) const {
    if (is_known(key)) return;
    if (of_the_program(key))
      fail(
          "[{}] {}: got a key that changes the program, expected one that models may differ in; "
          "try one run for each {}",
          option, printable(key), printable(key));
    const std::vector<std::string> names = known_keys();
    if (const std::string usual = usual_key(key); !usual.empty())
      fail("[{}] {}: got another name of {}, expected this one; try {}", option, printable(key),
           usual, usual);
    for (const Optimizer& other : optimizers())
      if (other.index(key) >= 0)
        fail("[{}] {}: got a hyperparameter of {}, expected one of {}; try --optimizer {}", option,
             printable(key), other.name, optimizer_.name, other.name);
    fail("[{}] key: got {}, expected one of {}; try {}", option, printable(key), listing(names, 20),
         nearest(key, names, "one of these"));
  }

  void add(const std::string& option, const std::string& key, const std::string& text) {
    check_key(option, key);
    if (!settings_.emplace(key, parse_values(key, text)).second)
      fail("[{}] {}: got it twice, expected it once; try to leave one out", option, key);
  }

  void read_settings() {
    if (!options_.lr.empty()) add("--lr", "lr", options_.lr);
    if (!options_.weight_decay.empty())
      add("--weight-decay", "weight_decay", options_.weight_decay);
    if (!options_.momentum.empty()) add("--momentum", "momentum", options_.momentum);
    for (const std::string& text : options_.set) {
      const auto [key, value] = key_value("--set", text);
      add("--set", key, value);
    }
    for (const auto& [key, values] : settings_)
      if (values.count > 0 && values.kind != Values::Kind::one)
        rows_said_.emplace_back(
            (values.kind == Values::Kind::list ? "the list of " : "the range of ") + key,
            values.count);
  }

  void read_grid() {
    for (const std::string& text : options_.grid) {
      const auto [key, value] = key_value("--grid", text);
      check_key("--grid", key);
      if (key == "fold")
        fail("[--grid] fold: got a grid, expected --folds to make it; try --folds 5");
      const Values values = parse_values(key, value);
      if (values.is_range())
        fail("[--grid] {}: got {}, expected a list, or a range that says how many; try {}={}:8",
             key, printable(value), key, printable(value));
      if (settings_.count(key) || grid_.count(key))
        fail("[--grid] {}: got it twice, expected it once; try to leave one out", key);
      grid_[key] = values.spread(values.count, key, options_.seed);
      grid_order_.push_back(key);
      grid_size_ *= values.count;
    }
  }

  /// Refuses a column that is neither a key nor a label, as it may be a misspelt key.
  void check_column(const std::string& column) const {
    if (is_known(column) || column == "name" || column == "weights") return;
    const bool of_another = std::ranges::any_of(
        optimizers(), [&](const Optimizer& other) { return other.index(column) >= 0; });
    if (of_the_program(column) || !usual_key(column).empty() || of_another)
      check_key(options_.models, column);
    std::vector<std::string> names = known_keys();
    names.insert(names.end(), {"fold", kOwnEpochs, "name", "weights"});
    if (const std::string near = near_miss(column, names); !near.empty())
      fail(
          "[{}] column {}: got a label that is nearly the key {}, expected the key or another "
          "name; try {}",
          printable(options_.models), printable(column), near, near);
    if (of_every_table(column))
      fail(
          "[{}] column {}: got a label that the run's tables have a column of, expected another "
          "name; try my_{}",
          printable(options_.models), printable(column), printable(column));
  }

  void read_models() {
    const std::string& path = options_.models;
    const MappedFile file(path);
    CsvReader reader(file.bytes(), path);
    for (const std::string& key : reader.names()) {
      check_column(key);
      if (settings_.count(key) || grid_.count(key))
        fail("[{}] {}: got it here and as an option, expected it once; try to leave one out",
             printable(path), printable(key));
    }
    std::vector<std::string_view> cells;
    while (reader.next(&cells)) {
      TableRow row;
      for (size_t c = 0; c < cells.size(); ++c) {
        const std::string& key = reader.names()[c];
        const std::string text(cells[c]);
        if (key == "name") {
          row.name = text;
        } else if (key == "weights") {
          row.weights = text;
        } else if (!is_known(key)) {
          row.labels[key] = text;
        } else {
          double number = 0;
          if (!parse_number(cells[c], &number) || std::isnan(number))
            fail("[{}] line {}, column {}: got {}, expected a number; try to write one",
                 printable(path), reader.line(), printable(key),
                 text.empty() ? "nothing" : printable(text, 40));
          row.numbers[key] = number;
        }
      }
      table_.push_back(std::move(row));
    }
    if (table_.empty())
      fail("[{}] models: got none, expected a row each; try to add rows", printable(path));
    rows_said_.emplace_back(path, static_cast<int64_t>(table_.size()));
  }

  [[noreturn]] static void disagree(const std::string& a, int64_t x, const std::string& b,
                                    int64_t y) {
    fail(
        "[models] count: got {} from {} and {} from {}, expected them to agree; try to leave one "
        "out",
        x, a, y, b);
  }

  /// Refuses `-n` that is no multiple of the models of each configuration.
  [[noreturn]] void refuse_total(int64_t each) const {
    std::vector<std::string> factors;
    if (grid_size_ > 1) factors.push_back(fmt::format("{} of --grid", grid_size_));
    if (seeds() > 1) factors.push_back(fmt::format("{} seeds", seeds()));
    if (fold_models() > 1) factors.push_back(fmt::format("{} folds", fold_models()));
    fail("[-n] models: got {}, expected a multiple of {} ({}), as -n counts all models; try -n {}",
         options_.n, each, fmt::join(factors, " × "), options_.n * each);
  }

  /// Computes the numbers of configurations and of models.
  void count() {
    for (const auto& [who, many] : rows_said_)
      if (many != rows_said_[0].second)
        disagree(rows_said_[0].first, rows_said_[0].second, who, many);
    const int64_t each = grid_size_ * seeds() * fold_models();
    Counts totals;
    if (options_.n > 0) totals.emplace_back("-n", options_.n);
    for (const auto& count : counts_)
      if (count.second > 0) totals.push_back(count);
    const bool ranged =
        std::ranges::any_of(settings_, [](const auto& s) { return s.second.is_range(); });
    if (!rows_said_.empty())
      rows_ = rows_said_[0].second;
    else if (!totals.empty() && totals[0].second % each == 0)
      rows_ = totals[0].second / each;
    else if (options_.n > 0)
      refuse_total(each);
    else if (ranged || (options_.seeds == 0 && grid_.empty() && folds_ == 0 && totals.empty()))
      fail("[models] count: got none, expected N models; try -n 8");
    n_ = rows_ * each;
    for (const auto& [who, many] : totals)
      if (many != n_) {
        const std::string by = !rows_said_.empty()      ? rows_said_[0].first
                               : who != totals[0].first ? totals[0].first
                                                        : "configurations × seeds × folds";
        disagree(who, many, by, n_);
      }
    WIDE_ASSERT(n_ > 0);
    if (n_ > available_memory() / kSettings_bytes)
      fail("[models] count: got {}, expected no more than fit in {} of memory; try fewer", n_,
           bytes_text(static_cast<double>(available_memory())));
    for (const auto& [key, values] : settings_) {
      std::vector<double>& spread = spread_[key] = values.spread(rows_, key, options_.seed);
      if (key == kOwnEpochs && values.is_range())
        for (double& epochs : spread) epochs = std::round(epochs);
    }
  }

  static void check_value(const Hyperparameter& h, double value) {
    const auto refuse = [&](const std::string& expected, double instead) {
      fail("[{}] value: got {}, expected {}; try {}", h.name, value, expected, instead);
    };
    if (h.name == "nesterov" && value != 0 && value != 1) refuse("0 or 1", 1);
    if (h.name == "ema" && value == 1) refuse("less than 1, with which nothing moves", 0.999);
    if (value >= h.low && value <= h.high) return;
    refuse(h.high < 1e300   ? fmt::format("{} to {}", h.low, h.high)
           : h.low > -1e300 ? fmt::format("a finite number from {} on", h.low)
                            : "a finite number",
           h.value >= h.low ? h.value : 0.1);
  }

  ModelSettings model(int64_t i, int64_t config) const {
    ModelSettings m;
    Row said;
    const int64_t row = config / grid_size_;
    for (const auto& [key, values] : spread_) said[key] = values[static_cast<size_t>(row)];
    if (!table_.empty()) {
      const TableRow& from = table_[static_cast<size_t>(row)];
      for (const auto& [key, number] : from.numbers) said[key] = number;
      m.name = from.name;
      m.weights = from.weights;
      m.labels = from.labels;
    }
    int64_t place = config % grid_size_;
    for (size_t k = grid_order_.size(); k-- > 0;) {
      const auto& values = grid_.at(grid_order_[k]);
      const auto size = static_cast<int64_t>(values.size());
      said[grid_order_[k]] = values[static_cast<size_t>(place % size)];
      place /= size;
    }
    for (const Hyperparameter& h : known_) {
      if (said.count(h.name)) check_value(h, said[h.name]);
      if (said.count(h.name) || h.value >= h.low)
        m.hyper[h.name] = said.count(h.name) ? said[h.name] : h.value;
    }
    const auto seed = [&](const std::string& key, uint64_t otherwise) {
      if (!said.count(key)) return otherwise;
      constexpr double kEnd = 9007199254740992;  // 2^53: larger ones are not exact
      if (!(said[key] >= 0 && said[key] < kEnd && said[key] == std::floor(said[key])))
        fail("[{}] value: got {}, expected a whole number from 0 to 9007199254740991; try 0", key,
             said[key]);
      return static_cast<uint64_t>(said[key]);
    };
    if (said.count(kOwnEpochs)) {
      const double epochs = said[kOwnEpochs];
      if (!(epochs >= 1 && epochs < 1e12 && epochs == std::floor(epochs)))
        fail("[epochs] value: got {}, expected a whole number from 1 on; try 10", epochs);
      m.epochs = static_cast<int64_t>(epochs);
      m.hyper[kOwnEpochs] = epochs;
    }
    m.seed = seed("seed", options_.seed + static_cast<uint64_t>(i));
    m.seed_init = seed("seed.init", m.seed);
    m.seed_order = seed("seed.order", m.seed);
    m.seed_dropout = seed("seed.dropout", m.seed);
    if (folds_ > 0) m.fold = i % folds_;
    if (said.count("fold")) {
      const double fold = said["fold"];
      if (folds_ == 0) fail("[fold] folds: got none, expected some to choose from; try --folds 5");
      if (!(fold >= 0 && fold < static_cast<double>(folds_) && fold == std::floor(fold)))
        fail("[fold] value: got {}, expected a whole number below the {} folds; try --folds", fold,
             folds_);
      m.fold = static_cast<int64_t>(fold);
    }
    return m;
  }

  static void number_configs(Configurations* all) {
    std::vector<Row> found;
    for (ModelSettings& m : all->models) {
      const auto it = std::ranges::find(found, m.hyper);
      m.config = it - found.begin();
      if (it == found.end()) found.push_back(m.hyper);
    }
    for (const auto& [key, value] : found[0])
      for (const Row& row : found)
        if (row.at(key) != value) {
          all->varied.push_back(key);
          break;
        }
    all->configs = std::move(found);
  }

  struct TableRow {
    Row numbers;
    std::string name, weights;
    std::map<std::string, std::string> labels;
  };

  const TrainOptions& options_;
  Counts counts_;
  int64_t folds_;
  const Optimizer& optimizer_;
  std::vector<Hyperparameter> known_;
  std::map<std::string, Values> settings_;
  std::map<std::string, std::vector<double>> grid_, spread_;
  std::vector<std::string> grid_order_;
  std::vector<TableRow> table_;
  Counts rows_said_;
  int64_t grid_size_ = 1, rows_ = 1, n_ = 0;
};

}  // namespace

std::vector<std::string> weights_of_table(const std::string& path) {
  const MappedFile file(path);
  CsvReader reader(file.bytes(), path);
  std::vector<std::string> all;
  const auto& names = reader.names();
  const auto column = std::ranges::find(names, "weights");
  std::vector<std::string_view> cells;
  while (column != names.end() && reader.next(&cells))
    all.emplace_back(cells[static_cast<size_t>(column - names.begin())]);
  return all;
}

Configurations configure_models(const TrainOptions& options,
                                const std::vector<std::pair<std::string, int64_t>>& counts,
                                int64_t folds, double label_smoothing) {
  return ConfigurationBuilder(options, counts, folds, label_smoothing).build();
}

}  // namespace wide
