#include <nlohmann/json.hpp>

#include "data/reports/report_format.h"
#include "data/reports/sweep/report_json.h"

namespace wide::json_report {
namespace {

std::string text(const SweepReport& report, const FigureOptions&) {
  return report_text(to_json(report));
}

const bool registered = add_report_format({"json", "everything, with every sample", text});

}  // namespace
}  // namespace wide::json_report
