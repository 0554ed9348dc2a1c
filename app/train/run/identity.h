#pragma once
#include <string>
#include <vector>

namespace wide {

struct Prepared;

/// What a run is besides its data, as JSON: digests of the network, of which rows are whose and of
/// the models' settings (those of all parts), and the build of the program that recorded the
/// network.
std::string identity_text(const Prepared& run);

/// Throws Error where `run` is another than `saved`, the identity of the run that goes on: a file
/// was replaced. Returns a note where another build recorded the network, so that it cannot be
/// compared.
std::vector<std::string> check_identity(const std::string& saved, const Prepared& run);

/// The same of the network alone, whose digest is `network` now and whose file is `file`; "" for no
/// note.
std::string check_network(const std::string& saved, const std::string& network,
                          const std::string& file);

/// In words, what two identities differ in; "" where nothing does.
std::string identity_difference(const std::string& one, const std::string& other);

}  // namespace wide
