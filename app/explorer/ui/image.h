#pragma once
#include <imgui.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace wide {

/// Pixels that a panel has made, and draws with ImGui's `AddImage` and `texture_of`. It has to stay
/// where it is until its frame is drawn.
struct Image {
  int width = 0, height = 0;
  std::vector<uint32_t> rgba;  // as ImU32, top row first
  uint64_t version = 0;        // of its pixels: no two images have the same

  /// The version of pixels that are new.
  static uint64_t next_version() {
    static uint64_t last = 0;
    return ++last;
  }
};

inline ImTextureID texture_of(const Image& image) { return const_cast<Image*>(&image); }

/// The image of a texture, or null where it is one of OpenGL's, whose numbers have 32 bits: an
/// address of this program is larger.
inline const Image* image_of(ImTextureID texture) {
  const auto number = reinterpret_cast<uintptr_t>(texture);
  return number > std::numeric_limits<uint32_t>::max() ? static_cast<const Image*>(texture)
                                                       : nullptr;
}

}  // namespace wide
