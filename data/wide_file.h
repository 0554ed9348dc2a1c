#pragma once
#include "engine/wide.h"

namespace wide {

/// A network from a file (torch.export archive or TorchScript) with one checkpoint for each model:
/// files, folders or globs of them. `sample`: one model's inputs in the order of forward's, named
/// by `Options::input_names` if the file has no names ("batch.image"). Throws Error naming the file
/// and the tensor that cannot be read or does not fit.
/// The network may call what the reviewed list has (data/networks/allowed_operators.h) and nothing
/// else, `__setstate__` of TorchScript included: it opens no file, starts no process, and reads and
/// writes its own tensors. It runs in this process all the same: a bug in a kernel of LibTorch,
/// much memory or an endless loop are the caller's to bound.
WideModel load(const std::string& network, const std::vector<std::string>& checkpoints,
               const Tensors& sample, const Options& options = {});

/// N copies of the network with the weights that its file holds.
WideModel load(const std::string& network, int64_t n, const Tensors& sample,
               const Options& options = {});

}  // namespace wide
