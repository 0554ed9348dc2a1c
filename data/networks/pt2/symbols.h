#pragma once
#include <map>
#include <optional>
#include <string>

#include "data/networks/pt2/schema.h"

// Dynamic dimensions: names for sizes, and formulas of them. Knows no LibTorch.
namespace wide::pt2 {

/// Values of symbols: "s0" -> 8.
using Symbols = std::map<std::string, int64_t>;

/// The value of an expression as PyTorch writes it ("Symbol('s0', integer=True)",
/// "Add(Integer(1), Mul(...))", or "2*s0 + 1"), or nullopt if a symbol or function is unknown or
/// the result does not fit 64 bits.
std::optional<int64_t> evaluate(const std::string& expression, const Symbols& symbols);

/// The expression as people write it: "s0", "2*s0".
std::string readable(const std::string& expression);

/// Gives the symbols in an input's sizes their values. Throws Error naming `input` for a size that
/// differs from the export's, from the same symbol's elsewhere, or is out of range.
void bind_sizes(const std::string& input, const std::vector<int64_t>& sizes, const TensorMeta& meta,
                const Program& program, Symbols* symbols, const std::string& file);

/// Refuses sizes that one of the export's own conditions rules out; conditions that cannot be
/// evaluated are skipped. `symbols` holds the inputs' sizes as "x.size()[0]".
void check_guards(const Program& program, const Symbols& symbols, const std::string& file);

/// "[2, s0, 64]".
std::string sizes_text(const std::vector<Size>& sizes);

}  // namespace wide::pt2
