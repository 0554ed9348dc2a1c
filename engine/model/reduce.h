#pragma once
#include <memory>
#include <string>

#include "engine/compile.h"

namespace wide {

/// One answer of all N models, element by element: their mean; their standard deviation (with
/// N - 1, as torch.std); the class of most votes, a vote being the index of the largest value along
/// the last dimension (first of equals), and of classes with equally many the first.
enum class Reduce { none, mean, std, vote };
const char* to_string(Reduce reduce);
/// Throws Error for an unknown name.
Reduce parse_reduce(const std::string& name);

/// Throws Error naming the output that this cannot be taken of, or the N that is too small.
void check_reduce(Reduce reduce, const Program& single, int64_t n);

/// `[N, ...]` each to the reduced one without N (of votes also without the last dimension, int64).
/// ATen operators only.
Tensors reduce_models(Reduce reduce, const Tensors& outputs);

/// Puts the reduction at the end of Program(N): its outputs become the reduced ones.
void append_reduce(Program& wide, Reduce reduce);

/// `model` with its outputs reduced; buffer updates stay every model's own.
std::unique_ptr<CompiledModel> reduced(std::unique_ptr<CompiledModel> model, Reduce reduce);

/// How far reduced outputs are from the reduction of `expected` (`[N, ...]`, float64), relative to
/// the largest expected value before reduction. Votes are 0 or 1 off; where one model's best two
/// classes lie within `tolerance` of that value, the vote is its rounding's and not compared.
double reduced_error(Reduce reduce, const Tensors& got, const Tensors& expected, double tolerance);

}  // namespace wide
