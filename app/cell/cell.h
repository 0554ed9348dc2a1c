#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/cell/rights.h"

// What comes from elsewhere is opened in a process of its own, the cell, which has given its rights
// away: it reads the files that were named, computes, and asks whoever opened it for all else.
namespace wide {

/// What the kernel does not offer for a cell, a line each; empty where it offers everything. Not to
/// be asked in a cell, which may ask nothing any more.
std::vector<std::string> cell_lacks();

/// Runs `work` in a cell, and returns what it returns. To be called before anything starts a thread
/// or touches LibTorch. Throws Cancelled when asked to end, and Error with exit code 5 when the
/// cell crashes, hangs or runs out of memory.
int run_in_cell(const Rights& rights, const std::function<int()>& work);

/// In a cell: it is at work. Whoever opened it takes a long silence for a hang. Elsewhere nothing.
void show_life();

}  // namespace wide
