#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/reports/sweep/report_fields.h"

// Reports as JSON; report_read.h reads it back.
namespace wide {

/// Versions of the JSON reports' schemas. The readers refuse versions that they do not know.
inline constexpr int kReportSchema = 2;  // of sweeps and fusions
inline constexpr int kRunSchema = 1;     // of training runs

/// Which fields `written` writes.
enum class Written {
  values,    // those that have a value, as a report does
  all_empty  // all but lists of objects, also without a value; fills the structs
};
/// The JSON object of the fields that `visit` visits.
nlohmann::ordered_json written(const std::function<void(Fields&)>& visit,
                               Written which = Written::values);

/// The JSON of a struct that has `describe`.
template <class T>
nlohmann::ordered_json fields_json(const T& value) {
  // JsonWriter does not change the fields.
  return written([&](Fields& fields) { describe(fields, const_cast<T&>(value)); });
}

nlohmann::ordered_json to_json(const Environment& environment);
nlohmann::ordered_json to_json(const FuseReport& report);
nlohmann::ordered_json to_json(const SweepReport& report);
nlohmann::ordered_json to_json(const Case& c);
nlohmann::ordered_json to_json(const Timing& timing);

/// The text of a report's file.
std::string report_text(const nlohmann::ordered_json& json);
/// "-" is stdout. Throws Error with exit code 1 if it cannot be written.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace wide
