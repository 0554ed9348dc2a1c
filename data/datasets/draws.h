#pragma once
#include <cstdint>
#include <string_view>

namespace wide {

/// Random numbers by position, without state, the same on every machine: SplitMix64 of a key that
/// is mixed from all arguments.
uint64_t draw_bits(uint64_t seed, std::string_view what, uint64_t index);
/// A random number in [0, 1), by the same rule.
double uniform_draw(uint64_t seed, std::string_view what, uint64_t index);

}  // namespace wide
