#pragma once
#include <memory>
#include <string>

#include "engine/compile.h"

namespace wide {

/// Reduces the outputs of all N models to one, elementwise: the mean; the standard deviation (with
/// N - 1, as torch.std); the class with most votes, where a model votes for the first largest value
/// along the last dimension, and ties go to the first class.
enum class Reduce { none, mean, std, vote };
const char* to_string(Reduce reduce);
/// Throws Error for an unknown name.
Reduce parse_reduce(const std::string& name);

/// Throws Error naming an output that cannot be reduced, or an N that is too small.
void check_reduce(Reduce reduce, const Program& single, int64_t n);

/// Outputs `[N, ...]` reduced to ones without N (votes: int64, also without the last dimension).
/// ATen operators only.
Tensors reduce_models(Reduce reduce, const Tensors& outputs);

/// Appends the reduction to Program(N), whose outputs become the reduced ones.
void append_reduce(Program& wide, Reduce reduce);

/// `model` with its outputs reduced; buffer updates stay per model.
std::unique_ptr<CompiledModel> reduced(std::unique_ptr<CompiledModel> model, Reduce reduce);

/// The error of reduced outputs against the reduction of `expected` (`[N, ...]`, float64), relative
/// to the largest expected value before reduction. For votes 0 or 1; a vote is not compared if a
/// model's best two classes differ by at most twice `tolerance`, relative to that value.
double reduced_error(Reduce reduce, const Tensors& got, const Tensors& expected, double tolerance);

}  // namespace wide
