#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/reports/run/run_report.h"
#include "data/reports/sweep/report_read.h"

// The fields of a training run's report, as report_fields.h has those of sweeps and fusions.
namespace wide {

void describe(Fields& fields, DataColumns& columns);
void describe(Fields& fields, RunHead& head);
void describe(Fields& fields, RunMonitor& monitor);
void describe(Fields& fields, RunData& data);
void describe(Fields& fields, SwitchedModes& switched);
void describe(Fields& fields, TrainerMemory& memory);
void describe(Fields& fields, ModelSeeds& seeds);
void describe(Fields& fields, BestEvaluation& best);
void describe(Fields& fields, ModelReport& model);
void describe(Fields& fields, RunEvent& event);
void describe(Fields& fields, RunEvaluation& evaluation);
void describe(Fields& fields, MeanAnswer& answer);
void describe(Fields& fields, Spread& spread);
void describe(Fields& fields, MetricSummary& metric);
void describe(Fields& fields, ConfigSummary& config);
/// The fields of the run itself, without its models.
void describe_head(Fields& fields, RunReport& report);
/// The results of its models, without their histories.
void describe_models(Fields& fields, RunReport& report);
void describe(Fields& fields, RunReport& report);

nlohmann::ordered_json to_json(const RunReport& report);
/// Reads a report's JSON. Throws Error naming a field that is missing, unknown or mistyped.
RunReport run_from_json(const nlohmann::ordered_json& json, const std::string& where,
                        UnknownFields unknown = UnknownFields::refused);

}  // namespace wide
