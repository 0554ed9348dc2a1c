#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// The language of `wide::chain`: pointwise instructions, as in
/// "mul x0 0.5; tanh t0; where x1 t1 x0". An operand is input k (`xk`), the result of instruction k
/// (`tk`) or a number; parameters of an instruction are numbers after its operands ("elu x0 1 1
/// 1"). The last result is the chain's. True is 1, false 0.
namespace wide::chains {

enum class Op : uint8_t {
  copy,
  neg,
  abs,
  square,
  sqrt,
  rsqrt,
  reciprocal,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  sigmoid,
  silu,
  relu,
  erf,
  gelu,
  gelu_tanh,
  mish,
  hardsigmoid,
  hardswish,
  gelu_slope,  // derivatives by x
  gelu_tanh_slope,
  silu_slope,
  sin,
  cos,
  floor,
  ceil,
  trunc,
  round,
  sign,
  logical_not,
  elu,         // alpha, scale, input scale
  elu_slope,   // the same numbers
  leaky_relu,  // slope
  softplus,    // beta, threshold
  clamp,       // least, greatest
  threshold,   // limit, replacement of smaller or equal values
  add,
  sub,
  mul,
  div,
  maximum,
  minimum,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  where,  // condition, then, else
};

/// An op's name in the text, its numbers of operands and of parameters, and whether its result is a
/// bool.
struct OpRow {
  const char* name;
  Op op;
  int operands, numbers;
  bool boolean;
};
const std::vector<OpRow>& rows();
/// The row of a name; nullptr if there is none.
const OpRow* find_row(const std::string& name);

/// Operands are slots: the inputs, then the constants, then the registers that instructions write;
/// the last slot is the result.
struct Instruction {
  Op op;
  uint8_t to;
  uint8_t from[3];
  float numbers[3];
};

struct Code {
  std::vector<Instruction> instructions;
  std::vector<float> constants;
  size_t inputs = 0, slots = 0;
  bool boolean = false;  // the result is a bool
};

constexpr size_t kMostInputs = 12, kMostSlots = 64;

/// Throws c10::Error for a text that is no chain of `inputs` inputs.
Code parse(const std::string& text, size_t inputs);

/// `parse`, cached by each thread, which costs less than a lock; lives as long as the thread.
const Code& parsed(const std::string& text, size_t inputs);

}  // namespace wide::chains
