#pragma once
#include <string>
#include <string_view>

// Checks that LibTorch's reader of TorchScript does not make, so that a hostile file cannot exhaust
// memory or stack. Knows no LibTorch.
namespace wide {

/// The advice at the end of error messages about TorchScript files.
inline constexpr const char* kSaveAgain = "save it again with torch.jit.save";

/// Throws Error for an archive that decompresses beyond a fixed limit, is older than PyTorch 1.4,
/// or has values that are nested too deeply or contain themselves.
void check_torchscript(std::string_view archive, const std::string& file);

/// Throws Error for code or a type that is nested so deeply that a recursive parser would overflow
/// the stack.
void check_nesting(std::string_view code, const std::string& file, const std::string& what);

}  // namespace wide
