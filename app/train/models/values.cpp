#include "app/train/models/values.h"

#include <algorithm>
#include <cmath>

#include "data/bytes/csv.h"
#include "data/datasets/draws.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

double number(const std::string& key, const std::string& text, const std::string& whole) {
  if (text == "true" || text == "True") return 1;
  if (text == "false" || text == "False") return 0;
  double value = 0;
  if (!parse_number(text, &value) || std::isnan(value))
    fail(
        "[{}] value: got {}, expected a number, a list, a range or a draw; try {}=0.1 or "
        "{}=log:1e-4..1e-1",
        printable(key), printable(whole.empty() ? "nothing" : whole), printable(key),
        printable(key));
  return value;
}

constexpr std::pair<std::string_view, Values::Kind> kPrefixes[] = {
    {"log:", Values::Kind::logarithmic},
    {"lin:", Values::Kind::linear},
    {"loguniform:", Values::Kind::loguniform},
    {"uniform:", Values::Kind::uniform}};

}  // namespace

std::vector<double> Values::spread(int64_t many, const std::string& key, uint64_t seed) const {
  std::vector<double> all;
  for (int64_t i = 0; i < many; ++i) {
    double share = many > 1 ? static_cast<double>(i) / static_cast<double>(many - 1) : 0;
    if (kind == Kind::uniform || kind == Kind::loguniform)
      share = uniform_draw(seed, key, static_cast<uint64_t>(i));
    const auto between = [&](double a, double b) { return a + share * (b - a); };
    switch (kind) {
      case Kind::one:
        all.push_back(numbers[0]);
        break;
      case Kind::list:
        all.push_back(numbers.at(static_cast<size_t>(i)));
        break;
      case Kind::linear:
      case Kind::uniform:
        all.push_back(share == 1 ? numbers[1] : between(numbers[0], numbers[1]));
        break;
      case Kind::logarithmic:
      case Kind::loguniform:
        all.push_back(share == 0   ? numbers[0]
                      : share == 1 ? numbers[1]
                                   : std::exp(between(std::log(numbers[0]), std::log(numbers[1]))));
        break;
    }
  }
  return all;
}

Values parse_values(const std::string& key, const std::string& text) {
  Values values;
  std::string rest = text;
  for (const auto& [prefix, kind] : kPrefixes)
    if (text.starts_with(prefix)) {
      values.kind = kind;
      rest = text.substr(prefix.size());
    }
  const size_t dots = rest.find("..");
  if (dots != std::string::npos && rest.find(',') == std::string::npos) {
    if (values.kind == Values::Kind::one) values.kind = Values::Kind::linear;
    const size_t colon = rest.find(':', dots);
    values.count = 0;
    if (colon != std::string::npos) {
      const auto many = whole_number(rest.substr(colon + 1));
      if (!many || *many < 1)
        fail("[{}] range: got {} values, expected a whole number from 1 on; try {}8",
             printable(key), printable(rest.substr(colon + 1)),
             printable(text.substr(0, text.size() - rest.size() + colon + 1)));
      values.count = *many;
      rest.resize(colon);
    }
    values.numbers = {number(key, rest.substr(0, dots), text),
                      number(key, rest.substr(dots + 2), text)};
    const bool logs =
        values.kind == Values::Kind::logarithmic || values.kind == Values::Kind::loguniform;
    if (logs && !(values.numbers[0] > 0 && values.numbers[1] > 0))
      fail("[{}] range: got {}, expected ends above 0 to take logarithms of; try lin:{}",
           printable(key), printable(text), printable(rest));
    return values;
  }
  if (values.kind != Values::Kind::one)
    fail("[{}] range: got {}, expected two numbers with two dots between; try {}1e-4..1e-1",
         printable(key), printable(text), printable(text.substr(0, text.size() - rest.size())));
  const std::vector<std::string> parts = listed(rest);
  for (const std::string& part : parts) values.numbers.push_back(number(key, part, text));
  if (parts.size() > 1) values.kind = Values::Kind::list;
  values.count = static_cast<int64_t>(parts.size());
  return values;
}

std::pair<std::string, std::string> key_value(const std::string& option, const std::string& text,
                                              const std::string& example) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("[{}] key: got {}, expected KEY=VALUE; try {} {}", option, printable(text), option,
         example);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::vector<std::string> part = split(text.substr(begin, end - begin));
    parts.push_back(part.empty() ? "" : part[0]);
    begin = end + 1;
  }
  return parts;
}

}  // namespace wide
