#pragma once

namespace wide {

/// The script that another Python runs: `peer.py FOLDER`. The folder holds `case` (JSON), `one.pt2`
/// (one model's network) and a file for every tensor of all models. It answers in lines that begin
/// with PEER and hold a JSON object: {} as a heartbeat; one for "loop" and one for "vmap" with
/// `absent`, or with the samples and the sizes of the results, which it writes to FOLDER/NAME.K;
/// {"done": true}.
extern const char* const kPeerScript;

}  // namespace wide
