#include "tests/fuzz/targets.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "data/bytes/csv.h"
#include "data/bytes/npy.h"
#include "data/bytes/safetensors.h"
#include "data/bytes/zip/zip.h"
#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/torch_pickle.h"
#include "data/networks/pt2/archive.h"
#include "data/preset.h"
#include "engine/error.h"

namespace wide::fuzz {
namespace {

/// Every promise that whoever makes tensors of these relies on.
void check(const CheckpointIndex& index, std::string_view bytes) {
  for (const StoredTensor& t : index.tensors) {
    const auto fits = [&](bool good) {
      if (!good) std::abort();
    };
    fits(t.range.begin <= t.range.end && t.range.end <= bytes.size());
    fits(t.sizes.size() == t.strides.size() && t.nested <= t.name.size());
    const int64_t count = count_elements(t.sizes);
    fits(count >= 0);
    if (count == 0) continue;
    uint64_t last = 0;
    for (size_t i = 0; i < t.sizes.size(); ++i)
      last += static_cast<uint64_t>(t.sizes[i] - 1) * static_cast<uint64_t>(t.strides[i]);
    fits((last + 1) * static_cast<uint64_t>(dtype_bits(t.dtype)) / 8 <=
         t.range.end - t.range.begin);
  }
}

void checkpoint(std::string_view bytes) {
  check(checkpoint_format(bytes, "w.pt").parse(bytes, "w.pt"), bytes);
}

void safetensors_file(std::string_view bytes) {
  const safetensors::Index index = safetensors::parse(bytes, "w.safetensors");
  for (const safetensors::Entry& e : index.entries)
    if (e.begin > e.end || e.end > bytes.size()) std::abort();
}

/// The pickle alone, every storage that it names being the bytes themselves.
void pickle_stream(std::string_view bytes) {
  torch_pickle::Meaning meaning;
  pickle::Values values("w.pt");
  const pickle::Read read = pickle::load(bytes, values, meaning);
  std::map<std::string, ByteRange> places;
  for (const auto& storage : meaning.storages()) places[storage.key] = {0, bytes.size()};
  check({meaning.tensors(values, read.root, places, false), {}}, bytes);
}

void zip_archive(std::string_view bytes) {
  const zip::Index index = zip::parse(bytes, "w.zip");
  for (const zip::Entry& e : index.entries) {
    if (e.begin > e.end || e.end > bytes.size()) std::abort();
    try {
      zip::check_crc(bytes, e, "w.zip");
    } catch (const Error&) {
    }
  }
}

void pt2_archive(std::string_view bytes) {
  const pt2::Archive archive = pt2::parse_archive(bytes, "net.pt2");
  for (const auto* list : {&archive.weights, &archive.constants})
    for (const pt2::Stored& t : *list)
      if (t.begin > t.end || t.end > bytes.size()) std::abort();
}

/// The JSON of an archive alone: its checksum keeps changed ones from being read in it.
void pt2_model(std::string_view bytes) {
  pt2::parse_program(bytes, "net.pt2", "models/model.json");
}

void npy_array(std::string_view bytes) {
  const npy::Array array = npy::parse(bytes, "x.npy");
  const int64_t count = count_elements(array.shape);
  const bool fits =
      count >= 0 && array.begin <= array.end && array.end <= bytes.size() &&
      array.end - array.begin ==
          static_cast<uint64_t>(count) * static_cast<uint64_t>(dtype_bits(array.dtype)) / 8;
  if (!fits) std::abort();
}

/// As many cells in every row as there are names, all within the bytes or unquoted from them.
void csv_table(std::string_view bytes) {
  CsvReader reader(bytes, "x.csv");
  std::vector<std::string_view> cells;
  while (reader.next(&cells)) {
    if (cells.size() != reader.names().size() || reader.line() < 2) std::abort();
    double number = 0;
    for (const std::string_view cell : cells) parse_number(cell, &number);
  }
}

void preset(std::string_view bytes) { parse_preset(std::string(bytes), "preset.json"); }

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"checkpoint", checkpoint}, {"csv", csv_table},
      {"npy", npy_array},         {"pickle", pickle_stream},
      {"preset", preset},         {"pt2", pt2_archive},
      {"pt2_model", pt2_model},   {"safetensors", safetensors_file},
      {"zip", zip_archive}};
  return list;
}

void run(const Target& target, std::string_view bytes) {
  try {
    target.read(bytes);
  } catch (const Error& e) {
    const std::string text = e.what();
    if (text.find('\n') == std::string::npos && !text.empty()) return;
    fmt::print(stderr, "{}: an error of several lines: {}\n", target.name, text);
    std::abort();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: another exception than Error: {}\n", target.name, e.what());
    std::abort();
  }
}

}  // namespace wide::fuzz
