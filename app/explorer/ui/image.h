#pragma once
#include <imgui.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace wide {

/// Pixels that a panel has made, and draws with ImGui's `AddImage` and `texture_of`. Must stay at
/// its address until the frame is drawn.
struct Image {
  int width = 0, height = 0;
  std::vector<uint32_t> rgba;  // as ImU32, top row first
  uint64_t version = 0;        // version of the pixels, unique among all images

  /// A new version.
  static uint64_t next_version() {
    static uint64_t last = 0;
    return ++last;
  }
};

inline ImTextureID texture_of(const Image& image) { return const_cast<Image*>(&image); }

/// The image of a texture, or null for an OpenGL texture: these have numbers of 32 bits, and
/// addresses are larger.
inline const Image* image_of(ImTextureID texture) {
  const auto number = reinterpret_cast<uintptr_t>(texture);
  return number > std::numeric_limits<uint32_t>::max() ? static_cast<const Image*>(texture)
                                                       : nullptr;
}

}  // namespace wide
