#include "data/store/results.h"

#include <bit>
#include <cstring>

namespace wide {
namespace {

static_assert(sizeof(double) == 8);

/// Samples as big-endian words of 8 bytes, which SQLite's shell reads by ieee754_from_blob.
std::vector<uint64_t> packed(const std::vector<double>& samples) {
  std::vector<uint64_t> words(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto bits = std::bit_cast<uint64_t>(samples[i]);
    words[i] = std::endian::native == std::endian::little ? __builtin_bswap64(bits) : bits;
  }
  return words;
}

std::vector<double> unpacked(const SQLite::Column& column) {
  std::vector<uint64_t> words(static_cast<size_t>(column.getBytes()) / 8);
  std::vector<double> samples(words.size());
  if (!words.empty()) std::memcpy(words.data(), column.getBlob(), words.size() * 8);
  for (size_t i = 0; i < words.size(); ++i)
    samples[i] = std::bit_cast<double>(
        std::endian::native == std::endian::little ? __builtin_bswap64(words[i]) : words[i]);
  return samples;
}

}  // namespace

int64_t insert_environment(Connection& connection, Json environment) {
  return insert_row(connection, kEnvironment, {}, environment);
}

Json environment_object(Connection& connection, int64_t id) {
  Query query(connection, select_rows(kEnvironment, "WHERE id = ?"), id);
  return query.step() ? row_object(query, kEnvironment) : Json::object();
}

void drop_environment(Connection& connection, int64_t id) {
  Query(connection,
        "DELETE FROM environment WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM sweep WHERE "
        "environment = ?1) AND NOT EXISTS(SELECT 1 FROM fuse WHERE environment = ?1) AND NOT "
        "EXISTS(SELECT 1 FROM machine WHERE environment = ?1)",
        id)
      .run();
}

void insert_timing(Connection& connection, const std::vector<Key>& keys, Json& json,
                   const std::vector<double>& samples) {
  const int64_t id = insert_row(connection, kTiming, keys, json);
  const std::vector<uint64_t> words = packed(samples);
  Query insert(connection, "INSERT INTO samples(timing, ns) VALUES(?, ?)", id);
  // An empty vector may point nowhere, which SQLite would store as NULL instead of no bytes.
  insert.bind_blob(words.empty() ? "" : static_cast<const void*>(words.data()), words.size() * 8);
  insert.run();
}

std::map<int64_t, std::vector<double>> samples_of(Connection& connection,
                                                  const std::string& of_timing, int64_t value) {
  std::map<int64_t, std::vector<double>> all;
  Query query(connection,
              "SELECT samples.timing, samples.ns FROM timing JOIN samples ON samples.timing = "
              "timing.id WHERE " +
                  of_timing,
              value);
  while (query.step()) all.emplace_hint(all.end(), query.integer(0), unpacked(query.at(1)));
  return all;
}

}  // namespace wide
