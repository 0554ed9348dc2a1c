#pragma once
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "data/text.h"

// The JSON schemas of the reports, from the descriptions of their fields.
namespace wide {

/// Makes a JSON schema of what it visits.
class SchemaWriter : public Fields {
 public:
  using Json = nlohmann::ordered_json;
  SchemaWriter() { open("", FieldRule()); }
  Json take() { return std::move(open_.back().json); }

  void visit(const char* name, FieldValue value, const FieldRule& rule) override {
    std::visit([&](auto* of) { property(name, *of, rule); }, value);
  }
  bool begin(const char* name, bool, const FieldRule& rule) override {
    if (!rule.definition) {
      open(name, rule);
      return true;
    }
    add(name, or_null({{"$ref", rule.definition}}, rule), rule);
    return false;
  }
  void end() override {
    Level level = std::move(open_.back());
    open_.pop_back();
    if (open_.back().items)
      *open_.back().items = std::move(level.json);
    else
      add(level.name.c_str(), or_null(std::move(level.json), level.rule), level.rule);
  }
  std::optional<size_t> begin_list(const char* name, size_t, const FieldRule& rule) override {
    item_ = rule.definition ? Json{{"$ref", rule.definition}} : Json();
    open_.push_back({name, rule, {}, &item_});
    return rule.definition ? 0 : 1;
  }
  void begin_item() override { open("", FieldRule()); }
  void end_list() override {
    const Level level = std::move(open_.back());
    open_.pop_back();
    add(level.name.c_str(), {{"type", "array"}, {"items", item_}}, level.rule);
  }
  void rest(FieldValue value, const FieldRule& rule) override {
    std::visit([&](auto* of) { open_.back().json["additionalProperties"] = entries(*of, rule); },
               value);
  }
  std::optional<std::vector<std::string>> begin_map(const char* name,
                                                    const std::vector<std::string>&,
                                                    const FieldRule& rule) override {
    item_ = Json();
    open_.push_back({name, rule, {}, &item_});
    return std::vector<std::string>{"any"};
  }
  void end_map() override {
    const Level level = std::move(open_.back());
    open_.pop_back();
    add(level.name.c_str(), {{"type", "object"}, {"additionalProperties", item_}}, level.rule);
  }
  bool fills() const override { return true; }

 private:
  struct Level {
    std::string name;
    FieldRule rule;
    Json json;
    Json* items = nullptr;  // of a list: where the schema of its objects goes
  };
  void property(const char* name, const double&, const FieldRule& rule) {
    const bool null = rule.presence == Presence::null || rule.presence == Presence::omitted
                          ? rule.presence == Presence::null
                          : !rule.finite;
    number(name, "number", null && !rule.finite, rule);
  }
  void property(const char* name, const int64_t&, const FieldRule& rule) {
    number(name, "integer", rule.presence == Presence::null, rule);
  }
  void property(const char* name, const bool&, const FieldRule& rule) {
    // A truth value that is left out where it is false.
    const bool only_true = rule.presence == Presence::omitted;
    add(name, only_true ? Json{{"const", true}} : Json{{"type", "boolean"}}, rule);
  }
  void property(const char* name, const std::string&, const FieldRule& rule) {
    Json json;
    const bool null = rule.presence == Presence::null;
    if (rule.words) {
      json["enum"] = split(rule.words, ' ');
      if (null) json["enum"].push_back(nullptr);
    } else {
      json["type"] = null ? Json::array({"string", "null"}) : Json("string");
    }
    if (rule.pattern) json["pattern"] = rule.pattern;
    add(name, json, rule);
  }
  void property(const char* name, const std::vector<double>&, const FieldRule& rule) {
    add(name, numbers(rule), rule);
  }
  void property(const char* name, const std::vector<std::string>&, const FieldRule& rule) {
    add(name, texts(), rule);
  }
  template <class T>
  void property(const char* name, const ByName<T>& map, const FieldRule& rule) {
    Json json = {{"type", "object"}};
    if (Json each = entries(map, rule); !each.is_null()) json["additionalProperties"] = each;
    add(name, std::move(json), rule);
  }
  void property(const char* name, const Interval&, const FieldRule& rule) {
    add(name, or_null({{"$ref", "common.json#/$defs/ci95"}}, rule), rule);
  }
  static Json one_number(const FieldRule& rule) {
    Json json = {{"type", rule.finite ? Json("number") : Json::array({"number", "null"})}};
    if (rule.minimum) json["minimum"] = *rule.minimum;
    return json;
  }
  static Json numbers(const FieldRule& rule) {
    return {{"type", "array"}, {"items", one_number(rule)}};
  }
  static Json texts() { return {{"type", "array"}, {"items", {{"type", "string"}}}}; }
  /// What each value of a map is; null: anything.
  static Json entries(const ByName<double>&, const FieldRule& rule) { return one_number(rule); }
  static Json entries(const ByName<int64_t>&, const FieldRule& rule) {
    Json json = one_number(rule);
    json["type"] = "integer";
    return json;
  }
  static Json entries(const ByName<std::string>&, const FieldRule&) { return {{"type", "string"}}; }
  static Json entries(const ByName<std::vector<double>>&, const FieldRule& rule) {
    return numbers(rule);
  }
  static Json entries(const ByName<std::vector<std::string>>&, const FieldRule&) { return texts(); }
  static Json entries(const ByName<JsonText>&, const FieldRule&) { return nullptr; }
  template <class T>
  static Json entries(const T&, const FieldRule&) {
    return nullptr;
  }
  void open(const std::string& name, const FieldRule& rule) {
    open_.push_back({name,
                     rule,
                     {{"type", "object"},
                      {"properties", Json::object()},
                      {"required", Json::array()},
                      {"additionalProperties", false}}});
  }
  static Json or_null(Json json, const FieldRule& rule) {
    if (rule.presence != Presence::null) return json;
    return {{"oneOf", Json::array({std::move(json), {{"type", "null"}}})}};
  }
  void number(const char* name, const char* type, bool null, const FieldRule& rule) {
    Json json = {{"type", null ? Json::array({type, "null"}) : Json(type)}};
    if (rule.minimum) json["minimum"] = *rule.minimum;
    if (rule.above) json["exclusiveMinimum"] = *rule.above;
    add(name, json, rule);
  }
  void add(const char* name, Json json, const FieldRule& rule) {
    if (rule.description) json["description"] = rule.description;
    Json& object = open_.back().json;
    object["properties"][name] = std::move(json);
    if (rule.presence != Presence::omitted) object["required"].push_back(name);
  }

  std::vector<Level> open_;
  Json item_;
};

/// The schema of a struct that has `describe`.
template <class Struct>
nlohmann::ordered_json schema_of() {
  Struct any{};
  SchemaWriter writer;
  describe(writer, any);
  return writer.take();
}

}  // namespace wide
