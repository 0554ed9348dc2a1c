#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// `--augment`, parsed: changes of training images, applied in this order.
struct Augmentation {
  bool flip = false;   // left and right, of every second image
  int64_t crop = 0;    // width of zero padding, from which a random window is cut; 0: none
  int64_t cutout = 0;  // side of a square that is set to zero at a random place; 0: none

  bool any() const { return flip || crop > 0 || cutout > 0; }
};

/// "flip", "crop:PAD", "cutout:SIZE". Throws Error.
Augmentation parse_augmentation(const std::vector<std::string>& parts);

/// Changes `images` [B, C, H, W], contiguous, in place. The random draws depend only on the model's
/// `seed`, the step and the image's position in the batch.
void augment(const Augmentation& how, uint64_t seed, int64_t step, const Tensor& images);

}  // namespace wide
