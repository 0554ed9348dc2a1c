#include "data/reports/sweep/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "data/reports/report_format.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Writes the fields that it visits as JSON.
class JsonWriter : public Fields {
 public:
  explicit JsonWriter(Written which) : which_(which) {}
  Json take() { return std::move(root_); }

  void visit(const char* name, FieldValue value, const FieldRule& rule) override {
    std::visit(
        [&](const auto* v) {
          if (writes(name, has_value(*v, rule), rule)) (*open_.back())[name] = json_of(*v);
        },
        value);
  }
  bool begin(const char* name, bool there, const FieldRule& rule) override {
    if (!writes(name, there, rule)) return false;
    open_.push_back(&((*open_.back())[name] = Json::object()));
    return true;
  }
  void end() override { open_.pop_back(); }
  std::optional<size_t> begin_list(const char* name, size_t size, const FieldRule& rule) override {
    if (which_ == Written::all_empty || !writes(name, size > 0, rule)) return std::nullopt;
    open_.push_back(&((*open_.back())[name] = Json::array()));
    return size;
  }
  void begin_item() override {
    open_.back()->push_back(Json::object());
    open_.push_back(&open_.back()->back());
  }
  void rest(FieldValue value, const FieldRule& /*rule*/) override {
    std::visit(
        [&](const auto* v) {
          if (const Json all = json_of(*v); all.is_object()) open_.back()->update(all);
        },
        value);
  }
  std::optional<std::vector<std::string>> begin_map(const char* name,
                                                    const std::vector<std::string>& keys,
                                                    const FieldRule& rule) override {
    return begin(name, !keys.empty(), rule) ? std::optional(keys) : std::nullopt;
  }
  bool fills() const override { return which_ == Written::all_empty; }

 private:
  /// Whether a field is written. Writes null for a field without a value if its rule says so.
  bool writes(const char* name, bool there, const FieldRule& rule) {
    if (which_ == Written::all_empty) return rule.in_csv;
    const bool may_lack = rule.presence == Presence::null || rule.presence == Presence::omitted;
    if (!may_lack || (there && rule.shown)) return true;
    if (rule.presence == Presence::null) (*open_.back())[name] = nullptr;
    return false;
  }
  template <class T>
  static bool has_value(const T& value, const FieldRule& rule) {
    if constexpr (std::is_same_v<T, bool>)
      return value;
    else if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(value) > rule.none;
    else if constexpr (std::is_same_v<T, Interval>)
      return true;
    else
      return !value.empty();
  }
  template <class T>
  static const T& json_of(const T& value) {
    return value;
  }
  static Json json_of(const ByName<JsonText>& values) {
    Json all = Json::object();
    for (const auto& [key, value] : values) all[key] = Json::parse(value.text);
    return all;
  }
  static Json json_of(const Interval& interval) {
    return Json::array({interval.low, interval.high});
  }

  Written which_;
  Json root_ = Json::object();
  std::vector<Json*> open_{&root_};
};

template <class Report>
Json report_json(const Report& report) {
  Json json = {{"schema", kReportSchema}};
  json.update(fields_json(report));
  return json;
}

}  // namespace

Json written(const std::function<void(Fields&)>& visit, Written which) {
  JsonWriter writer(which);
  visit(writer);
  return writer.take();
}

Json to_json(const Environment& environment) { return fields_json(environment); }
Json to_json(const FuseReport& report) { return report_json(report); }
Json to_json(const SweepReport& report) { return report_json(report); }
Json to_json(const Case& c) { return fields_json(c); }
Json to_json(const Timing& timing) { return fields_json(timing); }

std::string report_text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_json(const std::string& path, const Json& json) {
  write_report(path, report_text(json));
}

}  // namespace wide
