#pragma once
#include <c10/core/Device.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "app/gpu/stage.h"

namespace wide {

/// Runs a stage in a process of its own until it ends or its time limit is over; returns `{name,
/// what, status, reason, seconds, limit_s, steps}`, status ok, failed, crashed or timeout. A stage
/// that reaches its limit is ok only if its `cut` returns a text, which becomes the reason.
nlohmann::ordered_json run_gpu_stage(const GpuStage& stage, c10::Device device,
                                     const std::string& folder);

/// `{status, stage, step, reason}` of the first stage that is not ok, else status ok.
nlohmann::ordered_json gpu_verdict(const nlohmann::ordered_json& stages);

/// The verdict and all stages as one page.
std::string gpu_report_html(const nlohmann::ordered_json& report);

}  // namespace wide
