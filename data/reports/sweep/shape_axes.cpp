#include "data/reports/sweep/shape_axes.h"

#include <cstdlib>

#include "data/text.h"

namespace wide {
namespace {

/// Index of the number in "T256"; 0 if the text is not a letter name and a number.
size_t digits_of(const std::string& part) {
  const size_t digits = part.find_first_of("-0123456789");
  return digits == std::string::npos ? 0 : digits;
}

}  // namespace

std::map<std::string, int64_t> axes_of(const std::string& shape) {
  std::map<std::string, int64_t> axes;
  for (const std::string& part : split(shape, ' '))
    if (const size_t digits = digits_of(part); digits > 0)
      axes[part.substr(0, digits)] = std::strtoll(part.c_str() + digits, nullptr, 10);
  return axes;
}

std::string without_axis(const std::string& shape, const std::string& axis) {
  std::string rest;
  for (const std::string& part : split(shape, ' '))
    if (part.substr(0, digits_of(part)) != axis) rest += (rest.empty() ? "" : " ") + part;
  return rest;
}

}  // namespace wide
