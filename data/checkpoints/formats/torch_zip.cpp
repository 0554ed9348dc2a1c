#include <map>

#include "data/bytes/refuse.h"
#include "data/bytes/zip/zip.h"
#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/torch_pickle.h"

// Files of torch.save since PyTorch 1.6: a zip archive of a pickle and one record for every
// storage.
namespace wide::torch_zip_checkpoint {
namespace {

/// Whether the archive is a TorchScript module, whose code is compressed.
bool is_script(std::string_view bytes, const std::string& file) {
  const zip::Index index = zip::parse(bytes, file, zip::Compressed::taken);
  return index.find(index.folder() + "constants.pkl") != nullptr;
}

CheckpointIndex parse(std::string_view bytes, const std::string& file) {
  if (is_script(bytes, file))
    refuse(file, "checkpoint", "a TorchScript module", "a state_dict",
           "save its weights with torch.save(model.state_dict(), ...)");
  const zip::Index index = zip::parse(bytes, file);
  const std::string folder = index.folder();
  const zip::Entry* pickled = index.find(folder + "data.pkl");
  if (!pickled)
    refuse(file, "checkpoint", "a zip archive without data.pkl", "what torch.save writes",
           "save its weights with torch.save(model.state_dict(), ...)");
  zip::check_crc(bytes, *pickled, file);

  bool big_endian = false;
  if (const zip::Entry* order = index.find(folder + "byteorder")) {
    const std::string_view said = zip::bytes_of(bytes, *order);
    if (said != "little" && said != "big")
      refuse(file, "byteorder", printable(said, 20), "little or big");
    big_endian = said == "big";
  }
  std::map<std::string, ByteRange> places;
  const std::string data = folder + "data/";
  for (const zip::Entry& entry : index.entries)
    if (entry.name.starts_with(data))
      places[entry.name.substr(data.size())] = {entry.begin, entry.end};

  torch_pickle::Meaning meaning;
  pickle::Values values(file);
  const pickle::Read read = pickle::load(zip::bytes_of(bytes, *pickled), values, meaning);
  return {meaning.tensors(values, read.root, places, big_endian), {}};
}

const bool registered = add_checkpoint_format(
    {"PyTorch state_dict", {".pt", ".pth", ".bin", ".ckpt"}, 2, zip::probe, parse});

}  // namespace
}  // namespace wide::torch_zip_checkpoint
