#pragma once
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "data/networks/pt2/schema.h"

// The schema's enumerations and c10's, for the reader and the writer of `.pt2` files.
namespace wide::pt2 {

/// Undefined for what LibTorch does not have.
at::ScalarType scalar_type(Dtype dtype);
/// Dtype::unknown for what the schema does not have.
Dtype dtype_of(at::ScalarType type);

std::optional<at::MemoryFormat> memory_format(int64_t number);
/// 0 for what the schema does not have.
int64_t number_of(at::MemoryFormat format);

/// The only layout that is read or written; 0 is none.
inline constexpr int64_t kStridedLayout = 7;

}  // namespace wide::pt2
