#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace wide {

/// "B8 T256" as numbers by axis.
std::map<std::string, int64_t> axes_of(const std::string& shape);
/// "B8 T256" and "T": "B8".
std::string without_axis(const std::string& shape, const std::string& axis);

}  // namespace wide
