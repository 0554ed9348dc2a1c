#include "app/explorer/models/trials/filter.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Splits at spaces, except in quotes.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// "2ms" in nanoseconds, "1GB" in bytes, "3.5x", "50%", "4".
double number_of(const std::string& key, const std::string& text) {
  static const std::map<std::string, double> units = {
      {"", 1},     {"x", 1},    {"×", 1},   {"%", 0.01}, {"ns", 1},   {"us", 1e3},
      {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"b", 1},    {"kb", 1e3}, {"mb", 1e6},
      {"gb", 1e9}, {"k", 1e3},  {"m", 1e6}, {"yes", 1},  {"no", 0}};
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  const std::string unit = lower_case(end);
  const bool word = unit == "yes" || unit == "no";
  if (word) value = 1;
  const auto known = units.find(unit);
  if ((end == text.c_str() && !word) || known == units.end())
    fail("[filter] {}: got {}, expected a number with or without a unit; try {}>2", key,
         text.empty() ? "nothing" : printable(text), key);
  return value * known->second;
}

/// For each word of a table, whether it contains, or equals, one of `wanted`.
std::vector<char> matches(const Words& words, const std::vector<std::string>& wanted, bool whole) {
  std::vector<char> yes(words.size());
  for (size_t i = 0; i < yes.size(); ++i) {
    const std::string word = lower_case(words[static_cast<int32_t>(i)]);
    yes[i] = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& w) {
      return whole ? word == w : word.find(w) != std::string::npos;
    });
  }
  return yes;
}

}  // namespace

Filter::Filter(const std::string& text) {
  for (const std::string& word : words_of(text)) terms_.push_back(parse(word));
}

Filter::Term Filter::parse(const std::string& word) {
  Term term;
  size_t at = 0;
  if (word.size() > 1 && (word[0] == '-' || word[0] == '!')) {
    term.negated = true;
    at = 1;
  }
  const size_t sign = word.find_first_of(":<>=!", at);
  if (sign == std::string::npos) {
    term.words = {lower_case(word.substr(at))};
    return term;
  }
  const std::string key = lower_case(word.substr(at, sign - at));
  size_t after = sign + 1;
  if (after < word.size() && word[after] == '=' && word[sign] != ':' && word[sign] != '=') ++after;
  const std::string how = word.substr(sign, after - sign), value = word.substr(after);
  static const std::map<std::string, How> hows = {
      {":", How::holds}, {"=", How::equal}, {"!=", How::unequal}, {"<", How::less},
      {"<=", How::most}, {">", How::more},  {">=", How::least}};
  const auto known = hows.find(how);
  term.column = column_index(key);
  if (term.column < 0) {
    std::vector<std::string> keys;
    for (const TableColumn& c : columns()) keys.push_back(c.key);
    const std::string near = nearest(key, keys);
    fail("[filter] column: got {}, expected one of {}; try {}", printable(key), listing(keys, 99),
         near.empty() ? "speedup>1" : near + how + value);
  }
  const TableColumn& column = columns()[static_cast<size_t>(term.column)];
  if (known == hows.end() || value.empty())
    fail("[filter] {}: got {}, expected a value behind one of : = != < <= > >=; try {}", key,
         printable(word), column.word ? key + ":ok" : key + ">1");
  term.how = known->second;
  if (column.word) {
    if (term.how != How::holds && term.how != How::equal && term.how != How::unequal)
      fail("[filter] {}: got {}, expected :, = or != as it holds words; try {}:{}", key, how, key,
           value);
    for (const std::string& w : split(value)) term.words.push_back(lower_case(w));
  } else {
    if (term.how == How::holds) term.how = How::equal;
    term.number = number_of(key, value);
    term.shown = column.text(term.number);
  }
  return term;
}

std::vector<uint32_t> Filter::rows(const TrialTable& table) const {
  static const int32_t TrialRow::*const kAnyWord[] = {&TrialRow::target,   &TrialRow::shape,
                                                      &TrialRow::strategy, &TrialRow::status,
                                                      &TrialRow::reason,   &TrialRow::mode};
  std::vector<std::vector<char>> found;
  for (const Term& t : terms_)
    found.push_back(t.words.empty() ? std::vector<char>()
                                    : matches(table.words, t.words, t.how != How::holds));
  const auto holds = [&](const Term& t, const std::vector<char>& words, const TrialRow& row) {
    if (t.column < 0)
      return std::any_of(std::begin(kAnyWord), std::end(kAnyWord),
                         [&](auto member) { return words[static_cast<size_t>(row.*member)] != 0; });
    const TableColumn& column = columns()[static_cast<size_t>(t.column)];
    if (column.word) {
      const bool is = words[static_cast<size_t>(row.*column.word)] != 0;
      return t.how == How::unequal ? !is : is;
    }
    const double value = column.number(row);
    if (std::isnan(value)) return false;  // comparisons never match a missing value
    // The table rounds: a number typed as shown must find its row.
    const auto same = [&] {
      return value == t.number || (!shown_in_full(column) && column.text(value) == t.shown);
    };
    switch (t.how) {
      case How::less:
        return value < t.number;
      case How::most:
        return value <= t.number;
      case How::more:
        return value > t.number;
      case How::least:
        return value >= t.number;
      case How::unequal:
        return !same();
      default:
        return same();
    }
  };
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TrialRow& row = table.rows[i];
    if (row.baseline) continue;
    bool all = true;
    for (size_t t = 0; all && t < terms_.size(); ++t)
      all = holds(terms_[t], found[t], row) != terms_[t].negated;
    if (all) rows.push_back(static_cast<uint32_t>(i));
  }
  return rows;
}

}  // namespace wide
