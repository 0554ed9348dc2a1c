#include "data/reports/sweep/report_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/bytes/json_depth.h"
#include "data/bytes/mapped_file.h"
#include "data/reports/sweep/report_json.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Fills the fields that it visits from JSON. Every error names the file and the field.
class JsonReader : public Fields {
 public:
  JsonReader(const Json& json, const std::string& where, UnknownFields unknown)
      : unknown_(unknown) {
    open(json, where);
  }
  /// Ends the outermost object, after all its fields.
  void close() { end(); }

  void visit(const char* name, FieldValue value, const FieldRule& rule) override {
    const Json* found = find(name, rule);
    if (!found) return;
    null_numbers_ = !rule.finite;
    std::visit([&](auto* to) { read(name, *found, *to); }, value);
  }
  void rest(FieldValue value, const FieldRule& rule) override {
    null_numbers_ = !rule.finite;
    std::visit([&](auto* to) { read_rest(*to); }, value);
  }

  bool begin(const char* name, bool /*there*/, const FieldRule& rule) override {
    const Json* found = find(name, rule);
    if (found) open(*found, inside(name));
    return found != nullptr;
  }
  void end() override {
    const Level level = std::move(open_.back());
    open_.pop_back();
    if (unknown_ == UnknownFields::ignored) return;
    for (const auto& [key, value] : level.json->items())
      if (std::find(level.known.begin(), level.known.end(), key) == level.known.end())
        fail(
            "[{}] field: got {}, expected one that this version knows; try the workbench that "
            "wrote it",
            level.where, printable(key));
  }
  std::optional<size_t> begin_list(const char* name, size_t /*size*/,
                                   const FieldRule& rule) override {
    const Json* found = find(name, rule);
    if (!found) return std::nullopt;
    if (!found->is_array()) wrong(name, *found, "a list");
    lists_.push_back({found, 0, inside(name)});
    return found->size();
  }
  void begin_item() override {
    List& list = lists_.back();
    open(list.json->at(list.next++), list.where);
  }
  void end_list() override { lists_.pop_back(); }
  std::optional<std::vector<std::string>> begin_map(const char* name,
                                                    const std::vector<std::string>& /*keys*/,
                                                    const FieldRule& rule) override {
    if (!begin(name, false, rule)) return std::nullopt;
    std::vector<std::string> keys;
    for (const auto& [key, value] : open_.back().json->items()) keys.push_back(key);
    return keys;
  }
  bool fills() const override { return true; }

 private:
  struct Level {
    const Json* json;
    std::string where;
    std::vector<std::string> known;
  };
  struct List {
    const Json* json;
    size_t next;
    std::string where;
  };

  void open(const Json& json, std::string where) {
    if (!json.is_object())
      fail("[{}] JSON: got {}, expected an object; try a report that the workbench wrote", where,
           json.type_name());
    open_.push_back({&json, std::move(where), {}});
  }
  std::string inside(const std::string& name) const { return open_.back().where + ": " + name; }

  /// The field's JSON, or nullptr if it is missing or null and its rule allows that.
  const Json* find(const char* name, const FieldRule& rule) {
    open_.back().known.emplace_back(name);
    const auto it = open_.back().json->find(name);
    const bool there = it != open_.back().json->end();
    if (rule.presence != Presence::always && (!there || it->is_null())) return nullptr;
    if (!there)
      fail("[{}] {}: got nothing, expected a value; try a report that the workbench wrote",
           open_.back().where, name);
    return &*it;
  }

  /// Not-a-number is written as null.
  static double number(const Json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  }
  void read(const char* name, const Json& found, double& to) const {
    if (!found.is_number() && !found.is_null()) wrong(name, found, "a number");
    to = number(found);
  }
  void read(const char* name, const Json& found, int64_t& to) const {
    if (!found.is_number_integer()) wrong(name, found, "an integer");
    to = found.get<int64_t>();
  }
  void read(const char* name, const Json& found, bool& to) const {
    if (!found.is_boolean()) wrong(name, found, "true or false");
    to = found.get<bool>();
  }
  void read(const char* name, const Json& found, std::string& to) const {
    if (!found.is_string()) wrong(name, found, "a text");
    to = found.get<std::string>();
  }
  template <class T>
  void read(const char* name, const Json& found, std::vector<T>& to) const {
    constexpr bool numbers = std::is_same_v<T, double>;
    if (!found.is_array()) wrong(name, found, "a list");
    to.clear();
    to.reserve(found.size());
    for (const Json& item : found) {
      const bool fits =
          numbers ? item.is_number() || (null_numbers_ && item.is_null()) : item.is_string();
      if (!fits) wrong(name, item, numbers ? "numbers" : "texts");
      if constexpr (numbers)
        to.push_back(number(item));
      else
        to.push_back(item.template get<T>());
    }
  }
  void read(const char* /*name*/, const Json& found, JsonText& to) const { to.text = found.dump(); }
  template <class T>
  void read(const char* name, const Json& found, ByName<T>& to) {
    open(found, inside(name));
    read_rest(to);
    open_.pop_back();
  }
  template <class T>
  void read_rest(T& /*to*/) const {
    throw std::logic_error("only a map takes the rest of an object's fields");
  }
  template <class T>
  void read_rest(ByName<T>& to) {
    Level& level = open_.back();
    const std::vector<std::string> named = level.known;
    for (const auto& [key, value] : level.json->items()) {
      if (std::find(named.begin(), named.end(), key) != named.end()) continue;
      read(key.c_str(), value, to[key]);
      open_.back().known.push_back(key);
    }
  }
  void read(const char* name, const Json& found, Interval& to) const {
    if (!found.is_array()) wrong(name, found, "a list");
    if (found.size() != 2)
      fail("[{}] entries: got {}, expected 2; try a report that the workbench wrote", inside(name),
           found.size());
    for (const Json& end : found)
      if (!end.is_number() && !end.is_null()) wrong(name, end, "numbers");
    to.low = number(found[0]);
    to.high = number(found[1]);
  }

  [[noreturn]] void wrong(const char* name, const Json& found, const char* expected) const {
    fail("[{}] {}: got {}, expected {}; try a report that the workbench wrote", open_.back().where,
         name, found.is_structured() ? found.type_name() : printable(found.dump(), 60), expected);
  }

  UnknownFields unknown_;
  bool null_numbers_ = true;  // whether the list or map may hold null numbers
  std::vector<Level> open_;
  std::vector<List> lists_;
};

/// Schema 1 called mode default "eager"; its cases of mode "default" only said it did not exist.
void rename_modes(std::vector<Case>* cases) {
  std::erase_if(*cases, [](const Case& c) { return c.mode == "default"; });
  for (Case& c : *cases)
    if (c.mode == "eager") c.mode = "default";
}

/// Fills a report; returns the version of its schema.
template <class Report>
int64_t read_report(const Json& json, const std::string& where, UnknownFields unknown,
                    Report& report) {
  int64_t schema = 0;
  read_fields(json, where, UnknownFields::ignored,
              [&](Fields& fields) { fields.add("schema", schema); });
  if (schema != kReportSchema && schema != 1)
    fail("[{}] schema: got {}, expected {}; try the workbench that wrote it", where, schema,
         kReportSchema);
  if (schema == 1) unknown = UnknownFields::ignored;
  read_fields(json, where, unknown, [&](Fields& fields) {
    fields.add("schema", schema);
    describe(fields, report);
  });
  return schema;
}

}  // namespace

void read_fields(const Json& json, const std::string& where, UnknownFields unknown,
                 const std::function<void(Fields&)>& visit) {
  JsonReader reader(json, where, unknown);
  visit(reader);
  reader.close();
}

Case case_from_json(const Json& json, const std::string& where) {
  Case c;
  read_fields(json, where, UnknownFields::refused, [&](Fields& fields) { describe(fields, c); });
  return c;
}

SweepReport sweep_from_json(const Json& json, const std::string& where, UnknownFields unknown) {
  SweepReport report;
  if (read_report(json, where, unknown, report) == 1) rename_modes(&report.cases);
  return report;
}

FuseReport fuse_from_json(const Json& json, const std::string& where, UnknownFields unknown) {
  FuseReport report;
  read_report(json, where, unknown, report);
  return report;
}

SweepReport read_sweep_report(const std::string& path) {
  const std::string name = printable(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail(
        "[{}] reading: got no such file, expected a sweep's JSON report; try workbench list "
        "sweeps",
        name);
  try {
    const MappedFile file(path);
    check_json_depth(file.bytes(), name);
    return sweep_from_json(Json::parse(file.bytes()), name);
  } catch (const Json::exception& e) {
    fail("[{}] JSON: got {}, expected a sweep's report; try one that the workbench wrote", name,
         printable(e.what()));
  }
}

}  // namespace wide
