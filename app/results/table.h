#pragma once
#include <string>
#include <vector>

namespace wide {

/// Text in aligned columns.
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
