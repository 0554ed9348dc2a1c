#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// The devices and dtypes that an operator of this project supports. Declared once, where it is
/// registered; used by strategies, passes and the reasons that users read.
struct Capabilities {
  /// Its support on one kind of device.
  struct Form {
    c10::DeviceType device;
    std::vector<at::ScalarType> dtypes;  // of floating and complex arguments
  };
  std::vector<Form> forms;
  std::vector<at::ScalarType> others = {};  // of masks and indices
  bool gradients = false;                   // autograd can differentiate it

  /// nullptr if the device has none.
  const Form* form_for(c10::DeviceType device) const;
};

/// Adds a part of the capabilities of operator `op` ("wide::prelu"), at static initialisation or
/// when a device's plugin is loaded: one where it is defined, one for each further device, without
/// `others` and `gradients`. Returns true.
bool add_capabilities(const std::string& op, const Capabilities& part);
/// The capabilities of an operator, which must be registered.
const Capabilities& capabilities(const std::string& op);

/// Why an operator does not support a call: `[thing] call: got ..., expected ...`.
struct Lack {
  std::string got, expected;
};
/// Why operator `op` does not support these tensors (undefined ones are ignored), or nullopt. No
/// operator supports empty tensors; operators without gradients support no call in grad mode.
/// `converts`: dtypes that the caller converts to one of the operator's.
std::optional<Lack> lacks(const std::string& op, const Tensors& tensors,
                          const std::vector<at::ScalarType>& converts = {});
/// Whether operator `op` supports these tensors.
bool takes(const std::string& op, const Tensors& tensors);
/// Whether operator `op` supports a value of a program, which needs strides; empty ones count too.
bool takes(const std::string& op, const Value& value);

/// "float32 on the CPU, or float32 or bfloat16 on a cuda device".
std::string text_of(const Capabilities& capabilities,
                    const std::vector<at::ScalarType>& converts = {});

}  // namespace wide
