#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/error.h"
#include "engine/record/record.h"
#include "engine/widen/target.h"
#include "engine/widen/widen.h"

namespace wide::testing {

/// What the properties are tried on: one target at one shape.
struct Subject {
  const Target* target = nullptr;
  Shape shape;
  Network network() const { return target->network(shape); }
  std::string text() const { return target->name + " " + shape.text(); }
};

/// The target's ci shapes, and odd ones: primes, one of everything, every option of the layer.
std::vector<Subject> subjects(const std::string& target);

/// Program(1) of `network`, recorded on the tensors of one model.
Program record_one(const Network& network, const Tensors& model);

/// What the N separate models compute, called as ordinary functions without the engine: outputs,
/// then changed buffers in the order of `single.updates`, stacked.
Tensors separate_models(const Network& network, const Program& single, const Ensemble& ensemble);

/// The same through the wide program (not compiled), outputs then updates.
Tensors wide_models(const Program& single, const Ensemble& ensemble,
                    const std::map<std::string, std::string>& force, Coverage* coverage = nullptr);

/// The strategies to force for a target: its own, and the two of the engine.
std::vector<std::string> strategy_names(const Target& target);

/// Worst over outputs and models of max|a - b| / max|b|; infinite where shapes differ or a is NaN.
double relative_error(const Tensors& a, const Tensors& b);

}  // namespace wide::testing
