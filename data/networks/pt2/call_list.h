#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

#include "data/networks/pt2/convert.h"

namespace wide::pt2 {

/// An argument of an operator that is filled in at every call; other arguments are constant.
struct Filling {
  enum class Kind { value, number_tensor, real, tensors, optional_tensors, integers, reals };
  Kind kind = Kind::value;
  size_t place = 0;
  std::vector<int> values = {};       // registers; -1: None, or the constant in `numbers`
  std::vector<int64_t> numbers = {};  // constants among `integers`, by entry
  bool last = false;  // this is the last read of the register, which may be moved out
};

/// One step of an exported graph.
struct Step {
  enum class Kind {
    call,      // an operator of LibTorch
    size,      // of a tensor: `detail` is the dimension
    count,     // elements of a tensor
    python,    // a function of Python numbers, whose name is `text`
    check,     // an assertion of the export: fails if the number is 0; `text` is its condition
    grad,      // on or off: `detail`
    autocast,  // on or off: `detail`
    leave      // leaves the latest of these modes
  };
  Kind kind = Kind::call;
  std::optional<c10::OperatorHandle> op;
  std::vector<c10::IValue> arguments;  // constants in place, the others empty
  std::vector<Filling> fillings;
  std::vector<std::vector<int>> results;  // registers per result; several for a list; -1: unused
  std::vector<int> dead;                  // registers to clear after this step
  int64_t detail = 0;
  std::string text;
  c10::DeviceType device = c10::kCPU;                // of autocast
  at::ScalarType dtype = at::ScalarType::Undefined;  // of autocast; undefined: the device's own
};

/// The registers of one run. Registers of the graph's inputs keep their values.
using Registers = std::vector<c10::IValue>;

/// An exported graph as a list of steps: sub-graphs inlined, arguments looked up, values dropped at
/// their last use. Shared by all models of one architecture; a run changes nothing in it.
struct CallList {
  Setting setting;
  std::string file;  // for messages
  std::vector<Step> steps;
  size_t register_count = 0;                           // input i of the graph is register i
  std::vector<std::pair<int, c10::IValue>> constants;  // by register
  std::vector<int> outputs;  // registers; -1: no tensor, comes out as None
  std::set<size_t> written;  // graph inputs that an operator changes in place

  /// New registers, filled with the constants.
  Registers registers() const;
  /// Runs all steps and returns the graph's outputs; None for register -1.
  std::vector<c10::IValue> run(Registers& registers) const;
};

}  // namespace wide::pt2
