#include "data/bytes/csv.h"

#include <charconv>
#include <set>

#include "data/bytes/refuse.h"

namespace wide {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

CsvReader::CsvReader(std::string_view bytes, std::string file)
    : bytes_(bytes), file_(std::move(file)) {
  if (bytes_.rfind("\xef\xbb\xbf", 0) == 0) at_ = 3;  // UTF-8 byte order mark
  std::vector<std::string_view> cells;
  if (at_ < bytes_.size()) cut(&cells);
  std::set<std::string_view> seen;
  for (const std::string_view cell : cells) {
    if (cell.empty())
      refuse(file_, "header", "a column without a name", "a name for each",
             "write names into the first line");
    if (!seen.insert(cell).second)
      refuse(file_, "header", fmt::format("{} twice", printable(cell)), "each name once",
             "rename one of them");
    names_.emplace_back(cell);
  }
  if (names_.empty()) refuse(file_, "header", "none", "names of columns", "give another file");
}

bool CsvReader::next(std::vector<std::string_view>* cells) {
  while (at_ < bytes_.size()) {
    cut(cells);
    if (cells->size() == 1 && (*cells)[0].empty() && names_.size() > 1) continue;  // a blank line
    if (cells->size() != names_.size())
      refuse(file_, fmt::format("line {}", line_), fmt::format("{} cells", cells->size()),
             fmt::format("{} as in the header", names_.size()), "correct the line");
    return true;
  }
  return false;
}

void CsvReader::cut(std::vector<std::string_view>* cells) {
  cells->clear();
  unquoted_.clear();
  line_ = next_line_++;
  std::vector<std::pair<size_t, size_t>> kept;  // cell index, index of its text in unquoted_
  for (;;) {
    if (at_ < bytes_.size() && bytes_[at_] == '"') {
      std::string text;
      for (++at_;; ++at_) {
        if (at_ >= bytes_.size())
          refuse(file_, fmt::format("line {}", line_), "a quote that does not end", "its end",
                 "correct the line");
        if (bytes_[at_] == '"') {
          if (at_ + 1 == bytes_.size() || bytes_[at_ + 1] != '"') break;
          ++at_;
        } else if (bytes_[at_] == '\n') {
          ++next_line_;
        }
        text += bytes_[at_];
      }
      ++at_;
      kept.emplace_back(cells->size(), unquoted_.size());
      unquoted_.push_back(std::move(text));
      cells->emplace_back();
      if (at_ < bytes_.size() && bytes_[at_] == '\r') ++at_;
      if (at_ < bytes_.size() && bytes_[at_] != ',' && bytes_[at_] != '\n')
        refuse(file_, fmt::format("line {}", line_), "text after a quote", "a comma",
               "correct the line");
    } else {
      size_t end = at_;
      while (end < bytes_.size() && bytes_[end] != ',' && bytes_[end] != '\n') ++end;
      std::string_view cell = bytes_.substr(at_, end - at_);
      if (!cell.empty() && cell.back() == '\r') cell.remove_suffix(1);
      cells->push_back(trimmed(cell));
      at_ = end;
    }
    if (at_ >= bytes_.size()) break;
    if (bytes_[at_++] == '\n') break;
  }
  for (const auto& [cell, text] : kept) (*cells)[cell] = unquoted_[text];
}

bool parse_number(std::string_view text, double* number) {
  if (text.substr(0, 1) == "+" && text.substr(1, 1) != "-") text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace wide
