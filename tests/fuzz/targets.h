#pragma once
#include <string_view>
#include <vector>

namespace wide::fuzz {

/// A reader of foreign bytes: takes any, and throws nothing but Error, in one line.
struct Target {
  const char* name;
  void (*read)(std::string_view bytes);
};

const std::vector<Target>& targets();

/// Runs one; aborts where it throws anything else or a message of several lines.
void run(const Target& target, std::string_view bytes);

}  // namespace wide::fuzz
