#pragma once

namespace wide {

/// What another Python runs: `peer.py FOLDER`. The folder holds `case` (JSON), `one.pt2` (one
/// model's network) and a file for every tensor of all models. Lines that begin with PEER are its
/// answers, JSON objects: {} as a sign of life; one for "loop" and one for "vmap" with `absent` or
/// the samples and the sizes of the results, which it leaves in FOLDER/NAME.K; {"done": true}.
extern const char* const kPeerScript;

}  // namespace wide
