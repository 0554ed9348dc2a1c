#pragma once
#include <string>
#include <vector>

#include "engine/model/dynamic_batch.h"
#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// A wide program that runs without this project: only ATen operators, no mutation, weights stored
/// separately. Weights have their names in one model and are stacked `[N, ...]` (shared ones
/// without N); nothing is folded or packed into them.
struct Portable {
  std::string name;
  Program program;
  Tensors bound;                         // by `program.bound`; undefined for inputs
  Tensors sample;                        // the inputs of the recording, in order
  std::vector<std::string> input_names;  // Python identifiers, one for each input in order
  Coverage coverage;
  /// How the program depends on the batch size; nullopt: only for the sizes of `sample`.
  std::optional<DynamicBatch> batch;
  /// Why `batch` is nullopt although the network accepts other batch sizes.
  std::string fixed_because;
};

/// The ensemble, with every tensor that a call changes (`single.updates`) stored for each model.
/// Throws Error for an input that all models share and change in place.
Ensemble own_state(const Network& network, const Program& single, Ensemble ensemble);

/// The portable program of N models, from Program(1). A buffer that a call changes is stored for
/// each model, also if the ensemble shares it. Throws Error for operators other than ATen's and
/// in-place changes of a shared input.
Portable make_portable(const Network& network, const Program& single, const Ensemble& ensemble,
                       WidenOptions options);

/// Program(1) as it was recorded on the tensors of one model, in their order, like a torch.export
/// of that model. Buffers that a call changes are results after the outputs. Throws Error for
/// operators other than ATen's.
Portable portable_single(const Network& network, const Program& single, const Tensors& model);

/// Runs `portable` on new inputs through the dispatcher; returns outputs, then updates. Inputs in
/// the order of the network's inputs.
Tensors run(const Portable& portable, const Tensors& inputs);

/// A kind of file that holds portable programs. Registers itself at static initialisation.
struct ExportFormat {
  std::string name;       // "torch.export archive"
  std::string extension;  // ".pt2"
  std::function<void(const Portable&, const std::string& path)> write;
};
bool add_export_format(ExportFormat format);

/// The format for a path, by its extension. Throws Error naming the known ones.
const ExportFormat& export_format(const std::string& path);

/// The name as a valid Python variable: `batch.image` becomes `batch_image`, `class` `class_`.
std::string identifier(const std::string& name);

}  // namespace wide
