#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// The language of `wide::chain`: pointwise instructions, as in
/// "mul x0 0.5; tanh t0; where x1 t1 x0". An operand is input k (`xk`), the result of instruction k
/// (`tk`) or a number; parameters of an instruction are numbers after its operands ("elu x0 1 1
/// 1"). The last result is the chain's. True is 1, false 0.
namespace wide::chains {

/// The instructions: name, number of operands, number of parameters, whether the result is a bool.
#define WIDE_CHAIN_OPS(ROW)                                                        \
  ROW(copy, 1, 0, false)                                                           \
  ROW(neg, 1, 0, false)                                                            \
  ROW(abs, 1, 0, false)                                                            \
  ROW(square, 1, 0, false)                                                         \
  ROW(sqrt, 1, 0, false)                                                           \
  ROW(rsqrt, 1, 0, false)                                                          \
  ROW(reciprocal, 1, 0, false)                                                     \
  ROW(exp, 1, 0, false)                                                            \
  ROW(expm1, 1, 0, false)                                                          \
  ROW(log, 1, 0, false)                                                            \
  ROW(log1p, 1, 0, false)                                                          \
  ROW(tanh, 1, 0, false)                                                           \
  ROW(sigmoid, 1, 0, false)                                                        \
  ROW(silu, 1, 0, false)                                                           \
  ROW(relu, 1, 0, false)                                                           \
  ROW(erf, 1, 0, false)                                                            \
  ROW(gelu, 1, 0, false)                                                           \
  ROW(gelu_tanh, 1, 0, false)                                                      \
  ROW(mish, 1, 0, false)                                                           \
  ROW(hardsigmoid, 1, 0, false)                                                    \
  ROW(hardswish, 1, 0, false)                                                      \
  ROW(gelu_slope, 1, 0, false) /* derivatives by x */                              \
  ROW(gelu_tanh_slope, 1, 0, false)                                                \
  ROW(silu_slope, 1, 0, false)                                                     \
  ROW(sin, 1, 0, false)                                                            \
  ROW(cos, 1, 0, false)                                                            \
  ROW(floor, 1, 0, false)                                                          \
  ROW(ceil, 1, 0, false)                                                           \
  ROW(trunc, 1, 0, false)                                                          \
  ROW(round, 1, 0, false)                                                          \
  ROW(sign, 1, 0, false)                                                           \
  ROW(logical_not, 1, 0, true)                                                     \
  ROW(elu, 1, 3, false)        /* alpha, scale, input scale */                     \
  ROW(elu_slope, 1, 3, false)  /* the same numbers */                              \
  ROW(leaky_relu, 1, 1, false) /* slope */                                         \
  ROW(softplus, 1, 2, false)   /* beta, threshold */                               \
  ROW(clamp, 1, 2, false)      /* least, greatest */                               \
  ROW(threshold, 1, 2, false)  /* limit, replacement of smaller or equal values */ \
  ROW(add, 2, 0, false)                                                            \
  ROW(sub, 2, 0, false)                                                            \
  ROW(mul, 2, 0, false)                                                            \
  ROW(div, 2, 0, false)                                                            \
  ROW(maximum, 2, 0, false)                                                        \
  ROW(minimum, 2, 0, false)                                                        \
  ROW(eq, 2, 0, true)                                                              \
  ROW(ne, 2, 0, true)                                                              \
  ROW(lt, 2, 0, true)                                                              \
  ROW(le, 2, 0, true)                                                              \
  ROW(gt, 2, 0, true)                                                              \
  ROW(ge, 2, 0, true)                                                              \
  ROW(logical_and, 2, 0, true)                                                     \
  ROW(logical_or, 2, 0, true)                                                      \
  ROW(where, 3, 0, false) /* condition, then, else */

#define WIDE_NAME(NAME, ...) NAME,
enum class Op : uint8_t { WIDE_CHAIN_OPS(WIDE_NAME) };
#undef WIDE_NAME

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
