#pragma once
#include <ATen/ATen.h>

#include "engine/network.h"

namespace wide {

/// Two linear layers with GELU between them, for tests of what a device does with a whole network.
inline Network mlp() {
  Network net;
  net.name = "mlp";
  net.tensors = {{"x", Role::input, {5, 7}},
                 {"w", Role::parameter, {11, 7}},
                 {"b", Role::parameter, {11}},
                 {"v", Role::parameter, {3, 11}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::linear(at::gelu(at::linear(t[0], t[1], t[2])), t[3])};
  };
  return net;
}

}  // namespace wide
