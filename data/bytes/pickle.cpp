#include "data/bytes/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "data/bytes/refuse.h"

namespace wide::pickle {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int kHighestProtocol = 5;
constexpr size_t kMostStack = 1 << 22, kMostItems = 4 * kMostValues;

class Machine {
 public:
  Machine(std::string_view bytes, Values& values, Meaning& meaning)
      : bytes_(bytes), values_(values), meaning_(meaning) {
    small_.fill(kUnset);
  }

  Read run() {
    while (true) {
      const auto op = static_cast<unsigned char>(take(1)[0]);
      if (op == '.') {
        const Id root = pop();
        return {root, at_};
      }
      number(op);
    }
  }

 private:
  static constexpr Id kUnset = UINT32_MAX;

  [[noreturn]] void broken(const std::string& got, const std::string& expected) const {
    refuse(values_.file(), fmt::format("pickle at byte {}", at_), got, expected);
  }

  // ---- bytes

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      broken(fmt::format("{} bytes", bytes_.size() - at_), fmt::format("{} more", count));
    const std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }

  template <class Number>
  Number read() {
    Number number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) broken("no end of line", "one");
    const std::string_view out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  // ---- the stack

  void push(Id id) {
    if (stack_.size() >= kMostStack) broken("a deeper stack", fmt::format("{} values", kMostStack));
    stack_.push_back(id);
  }
  void push(Value value) { push(values_.add(std::move(value))); }
  void push_text(Kind kind, std::string_view text) {
    push(Value{.kind = kind, .number = 0, .text = text});
  }

  void push_integer(int64_t number) {
    const bool small = number >= 0 && number < static_cast<int64_t>(small_.size());
    if (small && small_[static_cast<size_t>(number)] != kUnset)
      return push(small_[static_cast<size_t>(number)]);
    const Id id = values_.add(Value{.kind = Kind::integer, .number = number});
    if (small) small_[static_cast<size_t>(number)] = id;
    push(id);
  }

  void push_constant(Kind kind, bool truth = false) {
    Id& known = constants_[kind == Kind::none ? 0 : 1 + truth];
    if (known == kUnset) known = values_.add(Value{.kind = kind, .number = truth});
    push(known);
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Id top() const {
    if (stack_.size() <= floor()) broken("an empty stack", "a value on it");
    return stack_.back();
  }
  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) broken("no mark", "one");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }

  Value& container_below(Kind kind, Kind other) {
    Value& value = values_[top()];
    if (value.kind != kind && value.kind != other) broken(to_string(value.kind), to_string(kind));
    return value;
  }

  void extend(Value& value, const std::vector<Id>& items) {
    if (value.kind == Kind::dict && items.size() % 2) broken("a key without a value", "both");
    contained_ += items.size();
    if (contained_ > kMostItems) broken("more items", fmt::format("at most {}", kMostItems));
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  void memoize(uint64_t key) {
    if (memo_.size() >= kMostValues) broken("a larger memo", fmt::format("{}", kMostValues));
    memo_[key] = top();
  }
  void recall(uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) broken(fmt::format("memo {}", key), "one that was put there");
    push(it->second);
  }

  template <class Number>
  Number parse(std::string_view digits) {
    Number number{};
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
    if (error != std::errc() || end != digits.end())
      broken("'" + printable(digits, 40) + "'", "a number of 64 bits");
    return number;
  }

  // ---- opcodes: each function does those of its kind, and leaves others to the next

  /// Pushes an integer of any length, in two's complement.
  void push_long(std::string_view digits) {
    if (digits.size() > 8) return push_text(Kind::big, digits);
    int64_t number = 0;
    std::memcpy(&number, digits.data(), digits.size());
    if (!digits.empty() && digits.size() < 8 && (digits.back() & 0x80))
      number -= int64_t{1} << (8 * digits.size());
    push_integer(number);
  }

  void push_real(double real) { push(Value{.kind = Kind::real, .real = real}); }

  void number(unsigned char op) {
    switch (op) {
      case 'J':
        return push_integer(read<int32_t>());
      case 'K':
        return push_integer(read<uint8_t>());
      case 'M':
        return push_integer(read<uint16_t>());
      case 'I': {
        const std::string_view digits = line();
        if (digits == "00" || digits == "01")
          push_constant(Kind::boolean, digits == "01");
        else
          push_integer(parse<int64_t>(digits));
        return;
      }
      case 'L': {
        std::string_view digits = line();
        if (!digits.empty() && digits.back() == 'L') digits.remove_suffix(1);
        return push_integer(parse<int64_t>(digits));
      }
      case 0x8a:
        return push_long(take(read<uint8_t>()));
      case 0x8b:
        return push_long(take(read<uint32_t>()));
      case 'F':
        return push_real(parse<double>(line()));
      case 'G':
        return push_real(std::bit_cast<double>(__builtin_bswap64(read<uint64_t>())));
      case 'N':
        return push_constant(Kind::none);
      case 0x88:
      case 0x89:
        return push_constant(Kind::boolean, op == 0x88);
      default:
        return text(op);
    }
  }

  void text(unsigned char op) {
    switch (op) {
      case 'X':
      case 'T':
        return push_text(Kind::text, take(read<uint32_t>()));
      case 0x8c:
      case 'U':
        return push_text(Kind::text, take(read<uint8_t>()));
      case 0x8d:
        return push_text(Kind::text, take(read<uint64_t>()));
      case 'V':
      case 'S':
        return push_text(Kind::text, plain_line(op == 'S'));
      case 'B':
        return push_text(Kind::bytes, take(read<uint32_t>()));
      case 'C':
        return push_text(Kind::bytes, take(read<uint8_t>()));
      case 0x8e:
      case 0x96:
        return push_text(Kind::bytes, take(read<uint64_t>()));
      default:
        return container(op);
    }
  }

  std::string_view plain_line(bool quoted) {
    std::string_view text = line();
    if (quoted) {
      if (text.size() < 2 || text.front() != text.back() ||
          (text.front() != '\'' && text.front() != '"'))
        broken("'" + printable(text, 40) + "'", "a text in quotes");
      text = text.substr(1, text.size() - 2);
    }
    if (text.find('\\') != std::string_view::npos)
      broken("an escaped character in '" + printable(text, 40) + "'", "plain text");
    return text;
  }

  void container(unsigned char op) {
    switch (op) {
      case ']':
        return push(values_.add(Kind::list));
      case ')':
        return push(values_.add(Kind::tuple));
      case '}':
        return push(values_.add(Kind::dict));
      case 0x8f:
        return push(values_.add(Kind::set));
      case 'l':
        return push(values_.add(Kind::list, pop_to_mark()));
      case 't':
        return push(values_.add(Kind::tuple, pop_to_mark()));
      case 0x91:
        return push(values_.add(Kind::set, pop_to_mark()));
      case 'd': {
        const auto items = pop_to_mark();
        const Id dict = values_.add(Kind::dict);
        extend(values_[dict], items);
        return push(dict);
      }
      case 0x85:
      case 0x86:
      case 0x87: {
        std::vector<Id> items(op - 0x84u);
        for (auto it = items.rbegin(); it != items.rend(); ++it) *it = pop();
        return push(values_.add(Kind::tuple, std::move(items)));
      }
      case 'a': {
        const Id item = pop();
        return extend(container_below(Kind::list, Kind::set), {item});
      }
      case 'e':
      case 0x90: {
        const auto items = pop_to_mark();
        return extend(container_below(Kind::list, Kind::set), items);
      }
      case 's': {
        const Id value = pop(), key = pop();
        return extend(container_below(Kind::dict, Kind::dict), {key, value});
      }
      case 'u': {
        const auto items = pop_to_mark();
        return extend(container_below(Kind::dict, Kind::dict), items);
      }
      default:
        return stack_or_memo(op);
    }
  }

  void stack_or_memo(unsigned char op) {
    switch (op) {
      case '(':
        if (marks_.size() >= kMostStack) broken("more marks", fmt::format("{}", kMostStack));
        marks_.push_back(stack_.size());
        return;
      case '0':
        // If a mark is on top of the stack, this opcode drops the mark.
        if (!marks_.empty() && stack_.size() == marks_.back())
          marks_.pop_back();
        else
          pop();
        return;
      case '1':
        pop_to_mark();
        return;
      case '2':
        return push(top());
      case 'p':
        return memoize(parse<uint64_t>(line()));
      case 'q':
        return memoize(read<uint8_t>());
      case 'r':
        return memoize(read<uint32_t>());
      case 0x94:
        return memoize(memo_.size());
      case 'g':
        return recall(parse<uint64_t>(line()));
      case 'h':
        return recall(read<uint8_t>());
      case 'j':
        return recall(read<uint32_t>());
      default:
        return python(op);
    }
  }

  void push_name(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    if (!meaning_.knows(full))
      refuse(values_.file(), "pickle", printable(full),
             "tensors, OrderedDict and plain containers (nothing in it is run)",
             "save model.state_dict() alone");
    push_text(Kind::name, values_.keep(full));
  }

  void call() {
    const Id arguments = pop(), callee = pop();
    if (values_[callee].kind != Kind::name || values_[arguments].kind != Kind::tuple)
      broken(fmt::format("a call of {} with {}", to_string(values_[callee].kind),
                         to_string(values_[arguments].kind)),
             "a name with a tuple");
    const std::string_view name = values_[callee].text;
    push(meaning_.call(values_, name, arguments));
  }

  void python(unsigned char op) {
    switch (op) {
      case 0x80:
        if (const int protocol = read<uint8_t>(); protocol > kHighestProtocol)
          broken(fmt::format("protocol {}", protocol), fmt::format("at most {}", kHighestProtocol));
        return;
      case 0x95:
        read<uint64_t>();  // the length of a frame is not needed
        return;
      case 'c': {
        const std::string_view module = line();
        return push_name(module, line());
      }
      case 0x93: {
        const Id name = pop(), module = pop();
        if (values_[name].kind != Kind::text || values_[module].kind != Kind::text)
          broken("a name that is no text", "one");
        return push_name(values_[module].text, values_[name].text);
      }
      case 'i': {
        const std::string_view module = line();
        push_name(module, line());
        const Id name = pop();
        return push(
            meaning_.call(values_, values_[name].text, values_.add(Kind::tuple, pop_to_mark())));
      }
      case 'R':
      case 0x81:
        return call();
      case 'b': {
        const Id state = pop();
        if (const Kind kind = values_[top()].kind; kind != Kind::dict && kind != Kind::tensor)
          broken(fmt::format("attributes of {}", to_string(kind)),
                 "attributes of a dict or tensor");
        return meaning_.build(values_, top(), state);
      }
      case 'Q': {
        const Id id = pop();
        return push(meaning_.persistent(values_, id));
      }
      default:
        broken(fmt::format("opcode 0x{:02x}", op), "one of plain data");
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
  Values& values_;
  Meaning& meaning_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;  // stack sizes
  size_t contained_ = 0;       // items put into containers
  std::unordered_map<uint64_t, Id> memo_;
  std::array<Id, 256> small_;
  std::array<Id, 3> constants_ = {kUnset, kUnset, kUnset};
};

}  // namespace

const char* to_string(Kind kind) {
  static constexpr const char* kNames[] = {"None",   "a bool", "an int",    "an int",  "a float",
                                           "a str",  "bytes",  "a list",    "a tuple", "a set",
                                           "a dict", "a name", "a storage", "a tensor"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::tensor) + 1);
  return kNames[static_cast<size_t>(kind)];
}

Id Values::add(Value value) {
  if (values_.size() >= kMostValues)
    refuse(file_, "pickle", "more values", fmt::format("at most {}", kMostValues),
           "save model.state_dict() alone");
  values_.push_back(std::move(value));
  return static_cast<Id>(values_.size() - 1);
}

Id Values::add(Kind kind, std::vector<Id> items) {
  return add(Value{.kind = kind, .number = 0, .items = std::move(items)});
}

Read load(std::string_view bytes, Values& values, Meaning& meaning) {
  return Machine(bytes, values, meaning).run();
}

}  // namespace wide::pickle
