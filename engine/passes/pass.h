#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// One rewrite of Program(N). It returns what it did in a few words ("removed 3 nodes"), never
/// changes the number or order of random operators, and keeps inputs, outputs and updates.
struct Pass {
  std::string name;
  std::string summary;
  int order = 0;  // passes run by ascending order
  std::function<std::string(Program&)> run;
};

/// Registers at static initialisation.
bool add_pass(Pass pass);
/// All passes in the order in which they run.
std::vector<const Pass*> passes();

}  // namespace wide
