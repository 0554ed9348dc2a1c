#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/reports/sweep/report_fields.h"

// Reports as JSON; report_read.h reads it back.
namespace wide {

/// Of the JSON reports; a reader refuses any other.
inline constexpr int kReportSchema = 2;  // of sweeps and fusions
inline constexpr int kRunSchema = 1;     // of training runs

/// Which fields `written` writes.
enum class Written {
  values,    // those that have a value, as a report does
  all_empty  // all but lists of objects, with a value or without; the structs visited are filled
};
/// The object of all fields that `visit` visits.
nlohmann::ordered_json written(const std::function<void(Fields&)>& visit,
                               Written which = Written::values);

/// Any struct that has `describe`.
template <class T>
nlohmann::ordered_json fields_json(const T& value) {
  // Visiting writes to no field of it.
  return written([&](Fields& fields) { describe(fields, const_cast<T&>(value)); });
}

nlohmann::ordered_json to_json(const Environment& environment);
nlohmann::ordered_json to_json(const FuseReport& report);
nlohmann::ordered_json to_json(const SweepReport& report);
nlohmann::ordered_json to_json(const Case& c);
nlohmann::ordered_json to_json(const Timing& timing);

/// As a file holds it.
std::string report_text(const nlohmann::ordered_json& json);
/// "-" is stdout. Throws Error with exit code 1 where it cannot be written.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace wide
