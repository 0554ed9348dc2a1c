#pragma once
#include <functional>
#include <optional>

#include "engine/program.h"

namespace wide {

/// A convolution with its weight packed once by oneDNN and an activation fused behind it.
struct PackedConvolution {
  c10::OperatorHandle op;
  Stack stack;  // arguments; [0] input, [1] weight and [2] bias are filled by the caller
  std::function<Tensor(const Tensor& weight)> pack;
  double packed_ns = 0, plain_ns = 0;  // medians the choice was made by
};

/// Measures the packed form of an `aten::convolution` node against the plain one on tensors of the
/// planned sizes and strides, single-threaded when `serial`; nullopt where it does not apply.
/// Whether it pays is for the caller to read off the two times. `relu`: the activation to fuse (the
/// plain form is timed with it as well).
std::optional<PackedConvolution> pack_convolution(const Node& node, const Value& input,
                                                  const Value& result, const Tensor& weight,
                                                  const Tensor& bias, bool relu, bool serial);

}  // namespace wide
