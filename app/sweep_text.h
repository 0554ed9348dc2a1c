#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/report.h"

namespace wide {

/// The trials of one target: N, strategy, time, speedups, error, verdict; then its crossovers.
std::string target_text(const std::vector<Case>& cases);

/// One line per target, and what is wrong. Fits a screen.
std::string summary_text(const SweepReport& report);

/// "3 min 20 s".
std::string duration_text(double seconds);

}  // namespace wide
