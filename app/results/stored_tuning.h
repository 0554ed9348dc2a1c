#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/lower/tune/tuning.h"

namespace wide {

/// Makes the engine remember which strategy won in the store at `db`, and ask there; "" for in
/// memory only. Cheap when nothing changes. Throws Error as the store does.
void use_stored_tuning(const std::string& db);

/// The table that it uses. What is measured while `other_load` (share of the cores that other
/// programs take) is above kDisturbedShare is known to this table alone and never written.
std::shared_ptr<TuningTable> lasting_tuning(const std::string& db,
                                            std::function<double()> other_load);

}  // namespace wide
