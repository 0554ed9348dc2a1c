#pragma once
#include <string>
#include <vector>

#include "app/explorer/models/trials/columns.h"

namespace wide {

/// Which trials are shown: words side by side must all hold.
///   strategy:grouped   the column holds this text; several are parted by commas
///   n>=8  speedup<1    of a number, with its unit: time<2ms, memory>1GB, error<1e-5
///   status=ok          the whole word; != for any other
///   speedup=3.25       as the table shows it, rounded; whole numbers are exact
///   grouped            any column of words holds it
///   -vmap  -n=1        a minus turns a word around
class Filter {
 public:
  /// Throws Error (one line) for text that is no filter.
  explicit Filter(const std::string& text = "");
  bool all() const { return terms_.empty(); }

  /// The rows of a table that the filter keeps.
  std::vector<uint32_t> rows(const TrialTable& table) const;

 private:
  enum class How { holds, equal, unequal, less, most, more, least };
  struct Term {
    bool negated = false;
    int column = -1;  // -1: any column of words
    How how = How::holds;
    std::vector<std::string> words;
    double number = 0;
    std::string shown;  // the number as the column shows it
  };
  static Term parse(const std::string& word);
  std::vector<Term> terms_;
};

}  // namespace wide
