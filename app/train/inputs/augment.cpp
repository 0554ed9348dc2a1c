#include "app/train/inputs/augment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "data/bytes/csv.h"
#include "data/datasets/draws.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// What is done to one image: flip, position of the window, the square that is cut out.
struct Window {
  bool flipped = false;
  int64_t down = 0, right = 0;                                 // of the window
  int64_t top = 0, bottom = 0, left_edge = 0, right_edge = 0;  // of what is cut out
};

Window draw(const Augmentation& how, uint64_t key, uint64_t image, int64_t height, int64_t width) {
  const auto below = [&](std::string_view what, int64_t count) {
    return static_cast<int64_t>(draw_bits(key, what, image) % static_cast<uint64_t>(count));
  };
  Window w;
  if (how.flip) w.flipped = below("flip", 2) == 1;
  if (how.crop > 0) {
    w.down = below("down", 2 * how.crop + 1) - how.crop;
    w.right = below("right", 2 * how.crop + 1) - how.crop;
  }
  if (how.cutout > 0) {
    w.top = below("row", height) - how.cutout / 2;
    w.left_edge = below("column", width) - how.cutout / 2;
    w.bottom = w.top + how.cutout;
    w.right_edge = w.left_edge + how.cutout;
  }
  return w;
}

/// T is any type of the dtype's size: numbers are only moved, and zero has the same bits in all
/// dtypes.
template <class T>
void augment_as(const Augmentation& how, uint64_t key, const Tensor& images) {
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  auto* plane = static_cast<T*>(images.data_ptr());
  std::vector<T> old(static_cast<size_t>(height * width));
  for (int64_t b = 0; b < images.size(0); ++b) {
    const Window w = draw(how, key, static_cast<uint64_t>(b), height, width);
    for (int64_t c = 0; c < channels; ++c, plane += height * width) {
      std::copy(plane, plane + height * width, old.begin());
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
          const int64_t from_y = y + w.down, from_x = x + w.right;
          const bool outside = from_y < 0 || from_y >= height || from_x < 0 || from_x >= width;
          const bool cut = y >= w.top && y < w.bottom && x >= w.left_edge && x < w.right_edge;
          const int64_t column = w.flipped ? width - 1 - from_x : from_x;
          plane[y * width + x] =
              outside || cut ? T(0) : old[static_cast<size_t>(from_y * width + column)];
        }
    }
  }
}

}  // namespace

Augmentation parse_augmentation(const std::vector<std::string>& parts) {
  Augmentation how;
  std::set<std::string> names;
  for (const std::string& part : parts) {
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    if (!names.insert(name).second)
      fail("[--augment] {}: got it twice, expected it once; try to leave one out", printable(name));
    double number = 0;
    const bool whole = colon != std::string::npos &&
                       parse_number(part.substr(colon + 1), &number) && number >= 1 &&
                       number <= 1e6 && number == double(int64_t(number));
    if (part == "flip")
      how.flip = true;
    else if (name == "crop" && whole)
      how.crop = int64_t(number);
    else if (name == "cutout" && whole)
      how.cutout = int64_t(number);
    else
      fail(
          "[--augment] augmentation: got {}, expected flip, crop:PAD or cutout:SIZE; try "
          "flip,crop:4",
          printable(part));
  }
  return how;
}

void augment(const Augmentation& how, uint64_t seed, int64_t step, const Tensor& images) {
  const uint64_t key = draw_bits(seed, "augment", static_cast<uint64_t>(step));
  switch (images.element_size()) {
    case 1:
      return augment_as<uint8_t>(how, key, images);
    case 2:
      return augment_as<uint16_t>(how, key, images);
    case 4:
      return augment_as<uint32_t>(how, key, images);
    default:
      return augment_as<uint64_t>(how, key, images);
  }
}

}  // namespace wide
