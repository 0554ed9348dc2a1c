#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/lower/tune/tuning.h"

namespace wide {

/// Makes the engine keep and look up tuning results (which strategy was fastest) in the store at
/// `db`; "": in memory only. Cheap to call again with the same `db`. Throws Error as Store does.
void use_stored_tuning(const std::string& db);

/// The tuning table for that. Results measured while `other_load` (the share of the cores that
/// other programs use) is above kDisturbedShare stay in memory and are not written to the store.
std::shared_ptr<TuningTable> lasting_tuning(const std::string& db,
                                            std::function<double()> other_load);

}  // namespace wide
