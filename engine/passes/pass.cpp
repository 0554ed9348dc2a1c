#include "engine/passes/pass.h"

#include <algorithm>
#include <tuple>

#include "engine/error.h"
#include "engine/machine/clock.h"
#include "engine/program/registry.h"

namespace wide {

namespace {

bool exists(const std::string& name) {
  return std::ranges::any_of(passes(), [&](const Pass& p) { return p.name == name; });
}

}  // namespace

const char* to_string(Stage stage) {
  constexpr const char* kNames[] = {"while widening", "on the program", "in lowering"};
  return kNames[static_cast<size_t>(stage)];
}

bool add_pass(Pass pass) {
  return enter(std::move(pass), [](const Pass& p) { return std::tie(p.stage, p.order, p.name); });
}
const std::vector<Pass>& passes() { return registry<Pass>(); }

void check_pass_names(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    if (exists(name)) continue;
    const std::vector<std::string> known = names_of(passes());
    fail("[--passes-off] name: got {}, expected one of {}; try {}", name, fmt::join(known, ", "),
         nearest(name, known, "workbench list passes"));
  }
}

bool pass_is_on(const std::string& name, const std::set<std::string>& off) {
  WIDE_ASSERT(exists(name), "{} is no pass", name);
  return off.count(name) == 0;
}

std::vector<PassRecord> run_passes(Program& program, const PassOptions& options) {
  std::vector<PassRecord> records;
  for (const Pass& pass : passes()) {
    if (!pass.run || !pass_is_on(pass.name, options.off)) continue;
    PassRecord record;
    record.name = pass.name;
    record.nodes_before = static_cast<int64_t>(program.nodes.size());
    const double start = now_ns();
    record.summary = pass.run(program);
    record.milliseconds = (now_ns() - start) * 1e-6;
    record.nodes_after = static_cast<int64_t>(program.nodes.size());
    if (options.verify) program.verify();
    if (options.keep_text) record.text_after = program.text();
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace wide
