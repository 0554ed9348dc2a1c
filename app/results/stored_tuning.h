#pragma once
#include <string>

namespace wide {

/// Makes the engine remember which strategy won in the store at `db`, and ask there; "" for in
/// memory only. Cheap when nothing changes. Throws Error as the store does.
void use_stored_tuning(const std::string& db);

}  // namespace wide
