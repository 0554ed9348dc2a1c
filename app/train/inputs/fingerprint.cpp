#include "app/train/inputs/fingerprint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/bytes/digest.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kHashed = 16 << 20;  // bytes of a column that are read at most

/// A hash of all rows, or of as many evenly spaced rows as `kHashed` allows.
std::string hash_of(const DataPart& part) {
  Tensor values = part.values;
  const auto bytes = static_cast<int64_t>(values.nbytes());
  if (bytes > kHashed && part.rows() > 1) {
    const int64_t rows = part.rows(), row = std::max<int64_t>(1, bytes / rows);
    const int64_t taken = std::clamp<int64_t>(kHashed / row, 2, rows);
    const Tensor at = (at::arange(taken, at::kLong) * (rows - 1)).div(taken - 1, "floor");
    values = values.index_select(part.own ? 1 : 0, at);
  }
  values = values.contiguous();
  return digest(values.const_data_ptr(), values.nbytes());
}

Json column_of(const DataPart& part) {
  return {{"name", part.name},
          {"columns", part.columns},
          {"type", fmt::format("{} {}", short_name(part.values.scalar_type()),
                               sizes_text(part.row_sizes()))},
          {"hash", hash_of(part)}};
}

constexpr const char* kKinds = "kinds";

Json kinds_of(const char* name, const std::vector<std::string>& column, const Rows& kinds) {
  return {{"name", name},
          {"columns", column.empty() ? name : column.front()},
          {"type", kKinds},
          {"hash", digest(kinds.data(), kinds.size() * sizeof(int64_t))}};
}

Json parts_of(const DataParts& parts) {
  Json all = {{"rows", parts.rows}, {"columns", Json::array()}};
  for (const DataPart* part : all_parts(parts)) all["columns"].push_back(column_of(*part));
  if (!parts.fold.empty())
    all["columns"].push_back(kinds_of("fold", parts.columns.fold, parts.fold));
  if (!parts.group.empty())
    all["columns"].push_back(kinds_of("group", parts.columns.group, parts.group));
  return all;
}

Json files_of(const TrainingData& data) {
  Json files = {{"data", parts_of(data.train)}};
  if (data.validation_file) files["validation"] = parts_of(*data.validation_file);
  if (data.test_file) files["test"] = parts_of(*data.test_file);
  return files;
}

/// Whether two entries name different columns. Those of folds and groups are not compared: runs
/// that the first versions saved do not hold their names.
bool other_columns(const Json& one, const Json& other) {
  return one.at("type") != kKinds && one.at("columns") != other.at("columns");
}

/// The program's text (operators, arguments and sizes), then a digest of each constant.
std::string text_with_constants(const Program& program) {
  std::string text = program.text();
  for (const Value& value : program.values) {
    if (value.role != Role::constant || !value.constant.defined()) continue;
    const Tensor values = value.constant.contiguous();
    text += digest(values.const_data_ptr(), values.nbytes()) + "\n";
  }
  return text;
}

void check_same(const std::string& file, const Json& saved, const Json& now) {
  const auto differ = [&](const std::string& what, const Json& got, const Json& expected) {
    const auto text = [](const Json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); };
    if (got != expected)
      fail("[{}] {}: got {}, expected {} as when the run began; try the file that it began with",
           file, what, printable(text(got)), printable(text(expected)));
  };
  differ("rows", now.at("rows"), saved.at("rows"));
  const Json &columns = now.at("columns"), &before = saved.at("columns");
  differ("columns", columns.size(), before.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string column = columns[i].at("columns");
    if (other_columns(columns[i], before[i]))
      differ("columns", columns[i].at("columns"), before[i].at("columns"));
    differ("column " + column, columns[i].at("type"), before[i].at("type"));
    if (columns[i].at("hash") != before[i].at("hash"))
      fail(
          "[{}] column {}: got other values, expected those that the run began with; try the file "
          "that it began with",
          file, column);
  }
}

}  // namespace

std::string fingerprint(const TrainingData& data) {
  return files_of(data).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string split_fingerprint(const TrainingData& data) {
  std::string all;
  const auto add = [&](const char* name, const Rows& rows) {
    all += fmt::format("{} {} ", name, digest(rows.data(), rows.size() * sizeof(int64_t)));
  };
  add("fold", data.fold_of);
  for (const Rows& rows : data.train_rows) add("train", rows);
  for (const Rows& rows : data.validation) add("validation", rows);
  for (const Rows& rows : data.test) add("test", rows);
  return digest(all);
}

NetworkFingerprint network_fingerprint(const TrainNetwork& network) {
  try {
    // Recorded at a fixed batch size, so that the run's --batch does not change the digest.
    const int64_t batch = network.takes(2) ? 2 : network.batch();
    const Forms forms = network.forms();
    const auto text = [&](const NetworkSource& form) {
      return text_with_constants(network.recorded(form(network.inputs(batch))));
    };
    const std::string evaluation = text(forms.evaluate);
    return {digest(text(forms.train) + evaluation), digest(evaluation)};
  } catch (const std::exception&) {
    return {};
  }
}

std::string data_difference(const std::string& one, const std::string& other) {
  const Json a = Json::parse(one), b = Json::parse(other);
  for (const char* file : {"data", "validation", "test"}) {
    if (a.contains(file) != b.contains(file)) return fmt::format("another --{}", file);
    if (!a.contains(file)) continue;
    const Json &mine = a[file]["columns"], &its = b[file]["columns"];
    if (a[file]["rows"] != b[file]["rows"])
      return fmt::format("another number of rows of --{}", file);
    if (mine.size() != its.size()) return fmt::format("another number of columns of --{}", file);
    for (size_t i = 0; i < mine.size(); ++i) {
      const std::string column = mine[i].at("columns");
      if (mine[i]["name"] != its[i]["name"] || mine[i]["type"] != its[i]["type"] ||
          other_columns(mine[i], its[i]))
        return fmt::format("another column {} of --{}", printable(column), file);
      if (mine[i]["hash"] != its[i]["hash"])
        return fmt::format("other values in column {} of --{}", printable(column), file);
    }
  }
  return "";
}

void check_same_data(const std::string& saved, const std::string& fingerprint,
                     const TrainingData& data) {
  const Json before = Json::parse(saved), now = Json::parse(fingerprint);
  check_same(data.train.file, before.at("data"), now.at("data"));
  if (data.validation_file)
    check_same(data.validation_file->file, before.at("validation"), now.at("validation"));
  if (data.test_file) check_same(data.test_file->file, before.at("test"), now.at("test"));
}

}  // namespace wide
