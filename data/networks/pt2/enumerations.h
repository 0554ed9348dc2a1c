#pragma once
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "data/networks/pt2/schema.h"

// The schema's enumerations and c10's, for the reader and the writer of `.pt2` files.
namespace wide::pt2 {

/// The dtype in LibTorch; Undefined if it has none.
at::ScalarType scalar_type(Dtype dtype);
/// The dtype in the schema; Dtype::unknown if it has none.
Dtype dtype_of(at::ScalarType type);

std::optional<at::MemoryFormat> memory_format(int64_t number);
/// The number in the schema; 0 if it has none.
int64_t number_of(at::MemoryFormat format);

/// The only layout that is read or written; 0 is none.
inline constexpr int64_t kStridedLayout = 7;

}  // namespace wide::pt2
