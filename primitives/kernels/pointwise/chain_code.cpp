#include "primitives/kernels/pointwise/chain_code.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <unordered_map>

namespace wide::chains {

const std::vector<OpRow>& rows() {
#define WIDE_ROW(NAME, ...) {#NAME, Op::NAME, __VA_ARGS__},
  static const std::vector<OpRow> all{WIDE_CHAIN_OPS(WIDE_ROW)};
#undef WIDE_ROW
  return all;
}

const OpRow* find_row(const std::string& name) {
  for (const OpRow& row : rows())
    if (name == row.name) return &row;
  return nullptr;
}

namespace {

/// An operand before slots are assigned.
struct Operand {
  enum class Kind { input, result, number } kind = Kind::number;
  size_t index = 0;
  float number = 0;
};

float parse_number(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  TORCH_CHECK(end != word.c_str() && *end == '\0' && value == value, "wide::chain: got ", word,
              " in '", text, "', expected a number");
  return static_cast<float>(value);
}

Operand parse_operand(const std::string& word, size_t inputs, size_t results,
                      const std::string& text) {
  const bool input = word[0] == 'x';
  if (!input && word[0] != 't') return {Operand::Kind::number, 0, parse_number(word, text)};
  char* end = nullptr;
  const size_t index = std::strtoul(word.c_str() + 1, &end, 10);
  TORCH_CHECK(word.size() > 1 && *end == '\0' && index < (input ? inputs : results),
              "wide::chain: got ", word, " in '", text, "' with ", inputs, " inputs");
  return {input ? Operand::Kind::input : Operand::Kind::result, index, 0};
}

}  // namespace

Code parse(const std::string& text, size_t inputs) {
  Code code;
  code.inputs = inputs;
  std::vector<std::vector<Operand>> operands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const OpRow* row = find_row(word);
    TORCH_CHECK(row != nullptr, "wide::chain: got ", word, " in '", text, "', expected an op");
    Instruction next{row->op, 0, {}, {}};
    operands.emplace_back();
    for (int i = 0; i < row->operands + row->numbers; ++i) {
      TORCH_CHECK(words >> word, "wide::chain: got too few operands of ", row->name, " in '", text,
                  "'");
      if (i < row->operands)
        operands.back().push_back(parse_operand(word, inputs, operands.size() - 1, text));
      else
        next.numbers[i - row->operands] = parse_number(word, text);
    }
    TORCH_CHECK(!(words >> word), "wide::chain: got ", word, " too many in '", text, "'");
    code.instructions.push_back(next);
    code.boolean = row->boolean;
  }
  const size_t count = operands.size();
  TORCH_CHECK(count > 0, "wide::chain: got no instructions");
  // Assigns slots to constants, equal ones once.
  for (const auto& list : operands)
    for (const Operand& o : list)
      if (o.kind == Operand::Kind::number &&
          std::ranges::find(code.constants, o.number) == code.constants.end())
        code.constants.push_back(o.number);
  // Assigns registers, which are reused after the last read of their value.
  std::vector<size_t> last(count, 0), holds(count, 0);
  for (size_t i = 0; i < count; ++i)
    for (const Operand& o : operands[i])
      if (o.kind == Operand::Kind::result) last[o.index] = i;
  const size_t first = inputs + code.constants.size();
  std::vector<bool> taken;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < operands[i].size(); ++k) {
      const Operand& o = operands[i][k];
      size_t slot = o.index;
      if (o.kind == Operand::Kind::number)
        slot = inputs + static_cast<size_t>(std::ranges::find(code.constants, o.number) -
                                            code.constants.begin());
      if (o.kind == Operand::Kind::result) slot = first + holds[o.index];
      code.instructions[i].from[k] = static_cast<uint8_t>(slot);
    }
    // Instructions work element by element, so a result may overwrite its operand.
    for (const Operand& o : operands[i])
      if (o.kind == Operand::Kind::result && last[o.index] == i) taken[holds[o.index]] = false;
    if (i + 1 == count) break;
    const auto free = std::ranges::find(taken, false);
    holds[i] = static_cast<size_t>(free - taken.begin());
    if (free == taken.end()) taken.push_back(false);
    taken[holds[i]] = true;
    code.instructions[i].to = static_cast<uint8_t>(first + holds[i]);
  }
  code.slots = first + taken.size() + 1;
  TORCH_CHECK(inputs <= kMostInputs && code.slots <= kMostSlots, "wide::chain: got '", text,
              "' of ", inputs, " inputs, expected at most ", kMostInputs, " and ", kMostSlots,
              " operands at a time");
  code.instructions.back().to = static_cast<uint8_t>(code.slots - 1);
  return code;
}

const Code& parsed(const std::string& text, size_t inputs) {
  thread_local std::unordered_map<std::string, std::unique_ptr<const Code>> known;
  auto& code = known[text];
  if (code == nullptr || code->inputs != inputs)
    code = std::make_unique<const Code>(parse(text, inputs));
  return *code;
}

}  // namespace wide::chains
