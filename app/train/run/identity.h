#pragma once
#include <string>
#include <vector>

namespace wide {

struct NetworkFingerprint;
struct Prepared;
struct TrainOptions;

/// The identity of a run apart from its data, as JSON: digests of the network, of the split and of
/// the settings of all parts' models, and the build of the program that recorded the network.
std::string identity_text(const Prepared& run);

/// Compares `run` with `saved`, the identity of the run that is resumed. Throws Error if they
/// differ, since a file was replaced. Returns a note if another build recorded the network, so that
/// the network cannot be compared.
std::vector<std::string> check_identity(const std::string& saved, const Prepared& run);

/// The same for the network alone: its digests now are `network`, its files those of `options`.
/// Returns a note, or "".
std::string check_network(const std::string& saved, const NetworkFingerprint& network,
                          const TrainOptions& options);

/// Names what differs between two identities; "" if they are equal.
std::string identity_difference(const std::string& one, const std::string& other);

}  // namespace wide
