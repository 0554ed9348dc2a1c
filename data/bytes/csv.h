#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wide {

/// Reads CSV: a line of names, then rows with as many cells. Quotes and line ends are as in RFC
/// 4180, or lines end in LF alone. Spaces around unquoted cells, a byte order mark and, where there
/// are several columns, blank lines are skipped.
class CsvReader {
 public:
  /// `bytes` must live as long as this; `file` is for messages. Throws Error for missing or
  /// duplicate names.
  CsvReader(std::string_view bytes, std::string file);

  const std::vector<std::string>& names() const { return names_; }
  /// The next row's cells, valid until the next call; false at the end. Throws Error for a row of
  /// another length or with malformed quotes.
  bool next(std::vector<std::string_view>* cells);
  /// Line number of the row read last, counted from 1 with the names' line, as editors show it.
  int64_t line() const { return line_; }

 private:
  void cut(std::vector<std::string_view>* cells);

  std::string_view bytes_;
  std::string file_;
  size_t at_ = 0;
  int64_t line_ = 0, next_line_ = 1;
  std::vector<std::string> names_, unquoted_;
};

/// Parses the whole text as a number, also "nan", "inf" and "infinity" in any case; false for
/// anything else.
bool parse_number(std::string_view text, double* number);

}  // namespace wide
