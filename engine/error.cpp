#include "engine/error.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace wide {

std::string first_line(const std::exception& thrown) {
  const auto* torch = dynamic_cast<const c10::Error*>(&thrown);
  const std::string text = torch ? torch->what_without_backtrace() : thrown.what();
  return text.substr(0, text.find('\n'));
}

std::string nearest(const std::string& name, const std::vector<std::string>& names,
                    const std::string& otherwise) {
  std::string best = otherwise;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& other : names) {
    std::vector<size_t> row(other.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = diagonal + (name[i - 1] != other[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row.back() < best_distance) best_distance = row.back(), best = other;
  }
  return best;
}

}  // namespace wide
