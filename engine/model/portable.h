#pragma once
#include <string>
#include <vector>

#include "engine/model/dynamic_batch.h"
#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// A wide program that runs without this project: ATen operators alone, no mutation, weights
/// beside it. Weights keep the names they have in one model and are stacked `[N, ...]` (shared
/// ones as they are); nothing is folded or packed ahead, so that they stay the user's own.
struct Portable {
  std::string name;
  Program program;
  Tensors bound;                         // by `program.bound`; undefined for inputs
  Tensors sample;                        // the inputs it was made with, in order
  std::vector<std::string> input_names;  // Python identifiers, one for each input in order
  Coverage coverage;
  /// How the program depends on the batch size; nullopt: it is for the sizes of `sample` alone.
  std::optional<DynamicBatch> batch;
  /// Why `batch` is nullopt although the network takes batches of other sizes.
  std::string fixed_because;
};

/// The ensemble with every tensor that a call changes (`single.updates`) kept for each model.
/// Throws Error for an input that all models share and change in place.
Ensemble own_state(const Network& network, const Program& single, Ensemble ensemble);

/// The portable program of N models, from Program(1). A buffer that a call changes is kept for each
/// model, also where the ensemble shares it. Throws Error for what it cannot hold: operators
/// outside ATen, an in-place change of an input that all models share.
Portable make_portable(const Network& network, const Program& single, const Ensemble& ensemble,
                       WidenOptions options);

/// Program(1) as it was recorded on the tensors of one model, in their order: what torch.export
/// would write of that model. Buffers that a call changes are results after the outputs. Throws
/// Error for operators outside ATen.
Portable portable_single(const Network& network, const Program& single, const Tensors& model);

/// The inputs and results of `portable` on new inputs, run through the dispatcher: outputs, then
/// updates. Inputs in the order of the network's inputs.
Tensors run(const Portable& portable, const Tensors& inputs);

/// A kind of file that holds portable programs. Registers itself at static initialisation.
struct ExportFormat {
  std::string name;       // "torch.export archive"
  std::string extension;  // ".pt2"
  std::function<void(const Portable&, const std::string& path)> write;
};
bool add_export_format(ExportFormat format);

/// The format for a path, by its extension. Throws Error naming those that there are.
const ExportFormat& export_format(const std::string& path);

/// A name that Python takes for a variable: `batch.image` becomes `batch_image`, `class` `class_`.
std::string identifier(const std::string& name);

}  // namespace wide
