#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace wide {

/// The numbers of a shape such as "B8 T256" by axis, for plots along one of them.
std::map<std::string, int64_t> axes_of(const std::string& shape);
/// The shape without one axis: "B8" for "B8 T256" and "T".
std::string without_axis(const std::string& shape, const std::string& axis);

}  // namespace wide
