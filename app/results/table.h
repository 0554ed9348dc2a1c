#pragma once
#include <string>
#include <vector>

namespace wide {

/// Columns of text lined up; numbers to the right. An empty first row is a rule of nothing.
class Table {
 public:
  /// `right[i]` aligns column i to the right.
  Table(std::vector<std::string> head, std::vector<bool> right);
  void add(std::vector<std::string> row);
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace wide
