#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// Where in the pipeline a pass does its work.
enum class Stage { widening, program, lowering };
const char* to_string(Stage stage);

/// One row of the table of passes; its name is also its switch (`--passes-off NAME`). A pass of
/// stage program is one rewrite of Program(N): `run` returns a short summary ("removed 3 nodes"),
/// never changes the number or order of random operators, and keeps inputs, outputs and updates.
/// For the other stages the row only names work that widening or lowering does.
///
/// A row is registered by the file that does the work, so that a new pass is one file; its number
/// gives its position, whichever other passes exist. `passes()`, and with it `workbench list
/// passes`, shows the order in one place.
struct Pass {
  std::string name;
  std::string summary;
  Stage stage = Stage::program;
  int order = 0;  // position within the stage, ascending
  std::function<std::string(Program&)> run = {};
  bool portable = false;  // only removes nodes: also runs for exports
};

/// Registers at static initialisation.
bool add_pass(Pass pass);
/// All passes in the order in which they run.
const std::vector<Pass>& passes();

/// Throws Error for a name that is no pass.
void check_pass_names(const std::set<std::string>& names);
/// False when pass `name`, which must exist, is among those that are `off`.
bool pass_is_on(const std::string& name, const std::set<std::string>& off);

/// What a pass did, for `--explain`.
struct PassRecord {
  std::string name;
  double milliseconds = 0;
  int64_t nodes_before = 0, nodes_after = 0;
  std::string summary;     // one line: "folded 2 batch norms"
  std::string text_after;  // the program afterwards, if requested
};

struct PassOptions {
  std::set<std::string> off;  // by name
  bool verify = false;        // verify the program after every pass
  bool keep_text = false;
};

/// Runs the enabled passes of stage program, between widening and lowering; returns their records.
std::vector<PassRecord> run_passes(Program& program, const PassOptions& options = {});

}  // namespace wide
