#pragma once
#include "app/train/inputs/network.h"

namespace wide {

/// Throws Error if an embedding of `form` would look up a row that its table lacks, for any row of
/// `parts`: PyTorch's own error names neither column nor row. Only networks that take whole numbers
/// are checked. Indices that depend on parameters or random numbers are not; those that depend on
/// buffers only with `known_buffers`, where the models have the network's own.
void check_embeddings(const TrainNetwork& network, const Network& form, const DataParts& parts,
                      bool known_buffers);

}  // namespace wide
