#include <fmt/format.h>

#include "engine/passes/pass.h"

namespace wide::dead_code_pass {
namespace {

[[maybe_unused]] const bool registered = add_pass(
    {"dead-code", "removes what no output needs", Stage::program, 90,
     [](Program& program) { return fmt::format("removed {} nodes", program.remove_dead_nodes()); },
     /*portable=*/true});

}  // namespace
}  // namespace wide::dead_code_pass
