#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// Decides which machines' results are shown separately in tables and plots: machines with
/// different hardware; with --each-machine, every machine.
class Apart {
 public:
  explicit Apart(const std::vector<Case>& cases);
  /// `machines`: of all cases, "" if unknown. `each`: whether a case was measured on several of
  /// them.
  Apart(const std::vector<std::string>& machines, bool each);
  /// Cases with equal names may share a table or a line: the hardware, or the machine's name.
  std::string of(const Case& c) const { return name(number(c)); }
  const std::string& name(size_t number) const { return names_[number]; }
  /// Index of that name among all of them, from 0.
  size_t number(const Case& c) const { return number(c.machine); }
  size_t number(const std::string& machine) const;
  bool several() const { return names_.size() > 1; }

 private:
  void take(const std::vector<std::string>& machines);

  bool each_ = false;
  std::vector<std::string> names_;  // in order of first appearance
};

}  // namespace wide
