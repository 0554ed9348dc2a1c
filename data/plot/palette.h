#pragma once
#include <array>
#include <cstdint>

#include "data/plot/canvas.h"

namespace wide {

/// The colours of the tones, as 0xRRGGBB.
struct Palette {
  uint32_t paper, text, muted, grid, rule, wrong;
  std::array<uint32_t, kSeriesColours> series;
};

// Okabe and Ito's palette without yellow, hard to see on white, and black, the colour of text. Five
// more follow, chosen to be far from all of these in the Oklab colour space.
inline constexpr Palette kLight{0xffffff,
                                0x1b1f24,
                                0x5c6670,
                                0xe4e7eb,
                                0x98a1ab,
                                0xb3261e,
                                {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9,
                                 0x1b1f24, 0x8338ec, 0x7a4a1e, 0x86b300, 0xe6007a, 0x14532d}};
inline constexpr Palette kDark{0x14171a,
                               0xe6e9ed,
                               0x9aa4af,
                               0x2a3037,
                               0x6a747f,
                               0xff8a80,
                               {0x1f8fe0, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x7cc8f5,
                                0xe6e9ed, 0x8f5cff, 0x9a6a3c, 0xb4e61e, 0xff3db8, 0x2f7d4f}};

inline constexpr uint32_t rgb(const Palette& palette, const Colour& colour) {
  constexpr uint32_t Palette::*kTones[] = {&Palette::paper, &Palette::text, &Palette::muted,
                                           &Palette::grid,  &Palette::rule, &Palette::wrong};
  if (colour.tone != Tone::series) return palette.*kTones[static_cast<size_t>(colour.tone)];
  return palette.series[static_cast<size_t>(colour.series % kSeriesColours)];
}

}  // namespace wide
