#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wide {

/// An axis that a target's shapes may have beyond those of its sweeps, such as `groups` of a
/// convolution: `--axis conv2d.groups=4` reaches it.
struct OptionalAxis {
  std::string name;
  std::optional<int64_t> otherwise;  // what stands when it is not given; none: what others say
  std::string meaning;               // in a few words; what the numbers stand for
};

/// Registers at static initialisation.
bool add_axes(const std::string& target, std::vector<OptionalAxis> axes);
/// None for targets that have registered none.
const std::vector<OptionalAxis>& axes_of(const std::string& target);

}  // namespace wide
