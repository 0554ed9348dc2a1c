#pragma once
#include <string>
#include <string_view>

// What LibTorch's reader of TorchScript takes on trust, checked before it is asked. Knows no
// LibTorch.
namespace wide {

/// What refusals of TorchScript advise.
inline constexpr const char* kSaveAgain = "save it again with torch.jit.save";

/// Throws Error for an archive that inflates beyond measure, is of the form before PyTorch 1.4, or
/// holds values that nest beyond measure or contain themselves.
void check_torchscript(std::string_view archive, const std::string& file);

/// Throws Error for code, or a type, of which an expression or a block nests so deep that a
/// recursive parser would run out of stack.
void check_nesting(std::string_view code, const std::string& file, const std::string& what);

}  // namespace wide
