#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// What an operator of this project can be called with. Stated once, where the operator is
/// registered; strategies, passes and the reasons that users read follow from it.
struct Capabilities {
  /// What computes it on one kind of device.
  struct Form {
    c10::DeviceType device;
    std::vector<at::ScalarType> dtypes;  // of real numbers
  };
  std::vector<Form> forms;
  std::vector<at::ScalarType> others = {};  // of arguments that are no real numbers: masks, indices
  bool gradients = false;                   // can be differentiated

  /// Null where a device has none.
  const Form* form_for(c10::DeviceType device) const;
};

/// Adds to what operator `op` ("wide::prelu") says of itself, at static initialisation or when the
/// code of a device is opened: one part where it is defined, one for each further device, whose
/// `others` and `gradients` are left out. Returns true.
bool add_capabilities(const std::string& op, const Capabilities& part);
/// All that are registered, by the operators' names without overload.
const std::map<std::string, Capabilities>& all_capabilities();
/// Of an operator that must be registered.
const Capabilities& capabilities(const std::string& op);

/// Why a call cannot be made: `[thing] call: got ..., expected ...`.
struct Lack {
  std::string got, expected;
};
/// Why operator `op` cannot be called with these tensors (undefined ones are passed over), or
/// nullopt. None of the operators takes a tensor without elements; those without
/// gradients are for inference, so that in grad mode they take nothing. `converts`: dtypes that the
/// caller turns into one of the operator's own.
std::optional<Lack> lacks(const std::string& op, const Tensors& tensors,
                          const std::vector<at::ScalarType>& converts = {});
/// Whether it can.
bool takes(const std::string& op, const Tensors& tensors);
/// Whether it can be called with a value of a program, which needs strides; whether it has elements
/// is not asked.
bool takes(const std::string& op, const Value& value);

/// "float32 on the CPU, or float32 or bfloat16 on a cuda device".
std::string text_of(const Capabilities& capabilities,
                    const std::vector<at::ScalarType>& converts = {});

}  // namespace wide
