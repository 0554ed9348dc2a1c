#include "data/networks/network_format.h"

#include <filesystem>

#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
namespace {

/// Reports LibTorch's exceptions as errors of the file.
std::unique_ptr<NetworkFile> load(const NetworkFormat& format, const std::string& path,
                                  const NetworkOptions& options) {
  try {
    return format.load(path, options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    if (is_out_of_memory(e))
      throw Error(fmt::format("[{}] memory: got {}, expected less; try it on a larger machine",
                              printable(path), one_line(e)),
                  5);
    fail("[{}] {}: got {}, expected a network; try to export it again", printable(path),
         format.name, one_line(e));
  }
}

}  // namespace

bool add_network_format(NetworkFormat format) {
  return enter(std::move(format), &NetworkFormat::name);
}
const std::vector<NetworkFormat>& network_formats() { return registry<NetworkFormat>(); }

std::unique_ptr<NetworkFile> open_network(const std::string& path, const NetworkOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    fail("[{}] file: got {}, expected a network; try another path", printable(path),
         std::filesystem::exists(path, error) ? "something else" : "none");
  for (const NetworkFormat& format : network_formats())
    if (format.probe(path)) return load(format, path, options);
  std::vector<std::string> known;
  for (const NetworkFormat& format : network_formats())
    known.push_back(format.name + " (" + listing(format.extensions) + ")");
  fail(
      "[{}] network: got a file of an unknown kind, expected {}; try "
      "torch.export.save(torch.export.export(model, args), path)",
      printable(path), listing(known, 9));
}

}  // namespace wide
