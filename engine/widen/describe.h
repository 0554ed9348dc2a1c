#pragma once
#include <fmt/ranges.h>

#include "engine/error.h"
#include "engine/widen/target.h"

namespace wide {

/// Helpers that many files of primitives and blocks use.

inline TensorSpec input(std::string name, Sizes sizes, Fill fill = Fill::normal,
                        double scale = 1.0) {
  const auto dtype = fill == Fill::integers ? at::kLong : at::kFloat;
  return {std::move(name), Role::input, std::move(sizes), dtype, fill, scale};
}

inline TensorSpec parameter(std::string name, Sizes sizes, double scale = 0.1,
                            Fill fill = Fill::normal) {
  return {std::move(name), Role::parameter, std::move(sizes), at::kFloat, fill, scale};
}

inline TensorSpec buffer(std::string name, Sizes sizes, Fill fill) {
  return {std::move(name), Role::buffer, std::move(sizes), at::kFloat, fill, 1.0};
}

/// Every combination of the axes' sizes, the last axis fastest.
inline std::vector<Shape> grid(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& axes) {
  std::vector<Shape> shapes{Shape{}};
  for (const auto& [axis, sizes] : axes) {
    std::vector<Shape> longer;
    for (const Shape& shape : shapes)
      for (const int64_t size : sizes) longer.push_back(Shape(shape).set(axis, size));
    shapes = std::move(longer);
  }
  return shapes;
}

/// Numbers of models of the sweeps `quick`, `full`, and `full` with 100.
inline std::vector<int64_t> quick_n() { return {4, 8, 16, 32}; }
inline std::vector<int64_t> full_n() { return {2, 4, 6, 8, 10, 12, 16, 20, 32, 64}; }
inline std::vector<int64_t> full_n_100() { return {2, 4, 6, 8, 10, 12, 16, 20, 32, 64, 100}; }

/// Axes that mean the same in every target, by their names, then `own` ones.
inline std::vector<Axis> axes(const std::vector<std::string>& names, std::vector<Axis> own = {}) {
  static const std::map<std::string, std::string> kMeanings{{"B", "samples"},
                                                            {"C", "channels"},
                                                            {"D", "features"},
                                                            {"E", "features of the conditioning"},
                                                            {"H", "height"},
                                                            {"T", "steps of a sequence"},
                                                            {"Ti", "steps of the image"},
                                                            {"Tt", "steps of the text"},
                                                            {"W", "width"},
                                                            {"h", "heads of attention"}};
  std::vector<Axis> all;
  for (const std::string& name : names) all.push_back({name, kMeanings.at(name)});
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

/// The axes' sizes multiplied.
inline double product(const Shape& shape, const std::vector<std::string>& axes) {
  double all = 1;
  for (const std::string& axis : axes) all *= double(shape[axis]);
  return all;
}

/// Refuses a shape whose axis is too small.
inline void at_least(const std::string& target, const Shape& shape, const std::string& axis,
                     int64_t least) {
  if (shape[axis] < least)
    fail("[{}] {}: got {}, expected at least {}; try {}={}", target, axis, shape[axis], least, axis,
         least);
}

/// Refuses a shape if one of these axes is given and too small.
inline void at_least_where_given(const char* target, const Shape& shape,
                                 std::initializer_list<const char*> axes, int64_t least) {
  for (const char* axis : axes)
    if (shape.has(axis)) at_least(target, shape, axis, least);
}

/// Refuses a shape where `divisor` does not divide `axis`.
inline void divides(const char* target, const Shape& shape, const char* axis, const char* divisor) {
  if (shape[divisor] < 1 || shape[axis] % shape[divisor] != 0)
    fail("[{}] {}: got {}, expected a divisor of {}={}; try {}=1", target, divisor, shape[divisor],
         axis, shape[axis], divisor);
}

inline std::string list_text(const Sizes& sizes) {
  return fmt::format("{}", fmt::join(sizes, "x"));
}

}  // namespace wide
