#include "data/networks/pt2/symbols.h"

#include <charconv>
#include <set>

#include "data/bytes/refuse.h"

namespace wide::pt2 {
namespace {

constexpr int kDeepest = 200;

int64_t floor_of(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b && (a < 0) != (b < 0)) ? q - 1 : q;
}

/// Formulas in Python's notation: + - * // / % **, calls, keyword arguments (which are skipped).
/// `fine_` is false once something has no value.
class Formula {
 public:
  Formula(std::string_view text, const Symbols& symbols) : text_(text), symbols_(symbols) {}

  std::optional<int64_t> value() {
    const int64_t v = comparison(0);
    space();
    return fine_ && at_ == text_.size() ? std::optional(v) : std::nullopt;
  }

 private:
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  int64_t none() {
    fine_ = false;
    return 0;
  }

  int64_t add(int64_t a, int64_t b) {
    int64_t r = 0;
    return __builtin_add_overflow(a, b, &r) ? none() : r;
  }
  int64_t subtract(int64_t a, int64_t b) {
    int64_t r = 0;
    return __builtin_sub_overflow(a, b, &r) ? none() : r;
  }
  int64_t multiply(int64_t a, int64_t b) {
    int64_t r = 0;
    return __builtin_mul_overflow(a, b, &r) ? none() : r;
  }
  int64_t divide(int64_t a, int64_t b) { return b <= 0 ? none() : floor_of(a, b); }
  int64_t modulo(int64_t a, int64_t b) { return b <= 0 ? none() : a - floor_of(a, b) * b; }
  int64_t power(int64_t a, int64_t b) {
    if (b < 0 || b > 64) return none();
    int64_t r = 1;
    for (int64_t i = 0; i < b && fine_; ++i) r = multiply(r, a);
    return r;
  }

  /// The value of a comparison (1 or 0), or of a sum.
  int64_t comparison(int depth) {
    const int64_t a = sum(depth);
    if (take("==")) return a == sum(depth);
    if (take("!=")) return a != sum(depth);
    if (take("<=")) return a <= sum(depth);
    if (take(">=")) return a >= sum(depth);
    if (take("<")) return a < sum(depth);
    if (take(">")) return a > sum(depth);
    return a;
  }

  int64_t sum(int depth) {
    if (depth > kDeepest) return none();
    int64_t v = product(depth);
    while (fine_) {
      if (take("+"))
        v = add(v, product(depth));
      else if (take("-"))
        v = subtract(v, product(depth));
      else
        break;
    }
    return v;
  }

  int64_t product(int depth) {
    int64_t v = factor(depth);
    while (fine_) {
      if (take("//"))
        v = divide(v, factor(depth));
      else if (take("/"))
        v = exact(v, factor(depth));
      else if (text_.substr(std::min(at_, text_.size()), 2) != "**" && take("*"))
        v = multiply(v, factor(depth));
      else if (take("%"))
        v = modulo(v, factor(depth));
      else
        break;
    }
    return v;
  }

  int64_t exact(int64_t a, int64_t b) { return b <= 0 || a % b ? none() : a / b; }

  int64_t factor(int depth) {
    if (depth > kDeepest) return none();
    if (take("-")) return subtract(0, factor(depth + 1));
    const int64_t v = atom(depth);
    space();
    if (fine_ && take("**")) return power(v, factor(depth + 1));
    return v;
  }

  int64_t atom(int depth) {
    space();
    if (take("(")) {
      const int64_t v = comparison(depth + 1);
      return take(")") ? v : none();
    }
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) ||
                                  text_[end] == '_' || text_[end] == '.'))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word.empty()) return none();
    if (word[0] >= '0' && word[0] <= '9') {
      int64_t v = 0;
      const auto [stop, error] = std::from_chars(word.begin(), word.end(), v);
      return error == std::errc() && stop == word.end() ? v : none();
    }
    if (take("(")) return call(word, depth + 1);
    return word == "L" ? dimension() : symbol(word);
  }

  int64_t symbol(std::string_view name) {
    const auto it = symbols_.find(std::string(name));
    return it == symbols_.end() ? none() : it->second;
  }

  /// The value of "L['batch']['image'].size()[0]", which symbols_ holds as "batch.image.size()[0]".
  int64_t dimension() {
    std::string name;
    while (take("[")) {
      const size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) return none();
      std::string_view key = text_.substr(at_, end - at_);
      if (key.size() > 1 && key.front() == '\'') key = key.substr(1, key.size() - 2);
      name += (name.empty() ? "" : ".") + std::string(key);
      at_ = end + 1;
    }
    const size_t end = text_.find(']', at_);
    if (!text_.substr(at_).starts_with(".size()[") || end == std::string_view::npos) return none();
    name += text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    return symbol(name);
  }

  /// Reads a call from behind its opening bracket: "'s0', integer=True)" of Symbol, or arguments.
  int64_t call(std::string_view name, int depth) {
    if (name == "Symbol") {
      if (!take("'")) return none();
      const size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) return none();
      const std::string_view s = text_.substr(at_, end - at_);
      at_ = text_.find(')', end);
      if (at_ == std::string_view::npos) return none();
      ++at_;
      return symbol(s);
    }
    std::vector<int64_t> v;
    if (!take(")")) {
      do {
        v.push_back(sum(depth));
        if (!fine_) return 0;
      } while (take(","));
      if (!take(")")) return none();
    }
    return function(name, v);
  }

  int64_t function(std::string_view name, const std::vector<int64_t>& v) {
    if (v.empty()) return none();
    if (name == "Integer") return v[0];
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min" || name == "max" ||
        name == "min") {
      int64_t r = v[0];
      for (size_t i = 1; i < v.size() && fine_; ++i)
        r = name == "Add"                    ? add(r, v[i])
            : name == "Mul"                  ? multiply(r, v[i])
            : name == "Max" || name == "max" ? std::max(r, v[i])
                                             : std::min(r, v[i]);
      return r;
    }
    if (v.size() != 2) return none();
    if (name == "FloorDiv" || name == "CleanDiv") return divide(v[0], v[1]);
    if (name == "CeilDiv") return v[1] <= 0 ? none() : -floor_of(subtract(0, v[0]), v[1]);
    if (name == "Mod" || name == "PythonMod") return modulo(v[0], v[1]);
    if (name == "Pow" || name == "PowByNatural") return power(v[0], v[1]);
    return none();
  }

  std::string_view text_;
  const Symbols& symbols_;
  size_t at_ = 0;
  bool fine_ = true;
};

/// The names of all symbols in an expression.
std::set<std::string> symbols_of(const std::string& expression) {
  std::set<std::string> names;
  const std::string text = readable(expression);
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    const bool call = end < text.size() && text[end] == '(';
    if (end > at && !call && !std::isdigit(static_cast<unsigned char>(text[at])))
      names.insert(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return names;
}

/// Gives the only unknown symbol of a linear expression the value that makes it `wanted`. Returns
/// the symbol's name even if no such value exists, or "" unless exactly one symbol is unknown.
std::string solve(const std::string& expression, int64_t wanted, Symbols* symbols) {
  std::string unknown;
  for (const std::string& name : symbols_of(expression))
    if (!symbols->count(name)) {
      if (!unknown.empty()) return "";
      unknown = name;
    }
  if (unknown.empty()) return "";
  Symbols trial = *symbols;
  const auto at = [&](int64_t value) {
    trial[unknown] = value;
    return evaluate(expression, trial);
  };
  const auto zero = at(0), one = at(1);
  if (!zero || !one) return "";
  int64_t slope = 0, rest = 0;
  if (__builtin_sub_overflow(*one, *zero, &slope) || slope <= 0 ||
      __builtin_sub_overflow(wanted, *zero, &rest))
    return "";
  const int64_t value = rest / slope;
  if (at(value) == wanted) (*symbols)[unknown] = value;
  return unknown;
}

}  // namespace

std::optional<int64_t> evaluate(const std::string& expression, const Symbols& symbols) {
  return Formula(expression, symbols).value();
}

std::string readable(const std::string& expression) {
  std::string out;
  for (size_t at = 0; at < expression.size();) {
    const bool symbol = !expression.compare(at, 8, "Symbol('");
    const bool integer = !expression.compare(at, 8, "Integer(");
    const size_t close = symbol || integer ? expression.find(')', at) : std::string::npos;
    if (close == std::string::npos) {
      out += expression[at++];
      continue;
    }
    const size_t end = symbol ? expression.find('\'', at + 8) : close;
    out += expression.substr(at + 8, std::min(end, close) - at - 8);
    at = close + 1;
  }
  return out;
}

std::string sizes_text(const std::vector<Size>& sizes) {
  std::string out;
  for (const Size& size : sizes)
    out += (out.empty() ? "" : ", ") + (size.expression.empty()
                                            ? fmt::format("{}", size.value)
                                            : printable(readable(size.expression), 60));
  return "[" + out + "]";
}

void bind_sizes(const std::string& input, const std::vector<int64_t>& sizes, const TensorMeta& meta,
                const Program& program, Symbols* symbols, const std::string& file) {
  const auto differs = [&](const std::string& expected) {
    refuse(file, "input " + printable(input), fmt::format("[{}]", fmt::join(sizes, ", ")), expected,
           "give inputs of these sizes, or to export with dynamic_shapes");
  };
  const std::string exported = sizes_text(meta.sizes) + " as exported";
  if (sizes.size() != meta.sizes.size()) differs(exported);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Size& size = meta.sizes[i];
    (*symbols)[fmt::format("{}.size()[{}]", input, i)] = sizes[i];
    if (size.expression.empty()) {
      if (size.value != sizes[i]) differs(exported);
      continue;
    }
    const std::string unknown = solve(size.expression, sizes[i], symbols);
    if (const auto value = evaluate(size.expression, *symbols); value && *value != sizes[i])
      differs(fmt::format("{} of which {} is {} already", exported,
                          printable(readable(size.expression), 60), *value));
    else if (!value && !unknown.empty())
      differs(fmt::format("{} of which {} cannot be {}", exported,
                          printable(readable(size.expression), 60), sizes[i]));
    if (const auto range = program.ranges.find(unknown); range != program.ranges.end()) {
      const int64_t number = symbols->at(unknown);
      const auto& [least, most] = range->second;
      if ((least && number < *least) || (most && number > *most))
        differs(fmt::format("{} with {} from {} to {}", exported, printable(unknown, 60),
                            least ? fmt::format("{}", *least) : "-inf",
                            most ? fmt::format("{}", *most) : "inf"));
    }
  }
}

void check_guards(const Program& program, const Symbols& symbols, const std::string& file) {
  for (const std::string& guard : program.guards)
    if (evaluate(guard, symbols) == 0)
      refuse(file, "sizes of the inputs", "some that the export rules out", printable(guard, 160),
             "give other sizes, or to export with these");
}

}  // namespace wide::pt2
