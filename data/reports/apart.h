#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// Which machines' results stand apart in tables and plots: those of other hardware, and where a
/// case was measured on several machines, each of them.
class Apart {
 public:
  explicit Apart(const std::vector<Case>& cases);
  /// Cases with equal names may share a table or a line: the hardware, or the machine's name.
  std::string of(const Case& c) const;
  /// The place of that name among all of them, from 0.
  size_t number(const Case& c) const;
  bool several() const { return names_.size() > 1; }

 private:
  bool each_ = false;
  std::vector<std::string> names_;  // in the order they come
};

}  // namespace wide
