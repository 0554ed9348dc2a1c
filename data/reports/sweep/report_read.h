#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/reports/sweep/report_fields.h"

namespace wide {

/// What a reader does with fields that it does not know.
enum class UnknownFields { refused, ignored };

/// Fills the fields that `visit` visits from a JSON object. Throws Error (exit code 2) naming a
/// field that is missing, unknown or of the wrong kind; `where` is the file, for the message.
void read_fields(const nlohmann::ordered_json& json, const std::string& where,
                 UnknownFields unknown, const std::function<void(Fields&)>& visit);

/// A case from the JSON that report_json.h writes.
Case case_from_json(const nlohmann::ordered_json& json, const std::string& where);
/// A sweep from its JSON. The store ignores unknown fields, as newer versions write more.
SweepReport sweep_from_json(const nlohmann::ordered_json& json, const std::string& where,
                            UnknownFields unknown = UnknownFields::refused);
FuseReport fuse_from_json(const nlohmann::ordered_json& json, const std::string& where,
                          UnknownFields unknown = UnknownFields::refused);
/// Reads a sweep's report file.
SweepReport read_sweep_report(const std::string& path);

}  // namespace wide
