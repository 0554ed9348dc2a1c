#include "data/checkpoints/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "data/checkpoints/checkpoint_file.h"
#include "data/checkpoints/checkpoint_match.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"
#include "engine/machine/large_pages.h"

namespace wide {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;

/// Bytes to copy to a place, or to compare with the bytes there.
struct Chunk {
  char* to = nullptr;
  const char* from = nullptr;
  size_t bytes = 0;
  size_t weight = 0;
};

void cut(std::vector<Chunk>* chunks, char* to, const char* from, int64_t bytes, size_t weight) {
  for (int64_t at = 0; at < bytes; at += kChunkBytes)
    chunks->push_back(
        {to + at, from + at, static_cast<size_t>(std::min(kChunkBytes, bytes - at)), weight});
}

template <class Work>
void for_chunks(const std::vector<Chunk>& chunks, Work work) {
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(chunks[static_cast<size_t>(i)]);
  });
}

/// Packs model after model. A weight that is equal in all models so far is stored once, so that a
/// shared weight never takes N times its memory.
class Packer {
 public:
  Packer(const std::vector<TensorSpec>& specs, int64_t n, at::ScalarType dtype)
      : n_(n), equal_(specs.size(), true) {
    for (const TensorSpec& spec : specs) {
      tensors_.push_back(empty_to_keep(wide_sizes(n, spec.sizes), spec.dtype_in(dtype)));
    }
  }

  /// `bytes` is null if dtype or layout differ from the weight's: then `make` converts.
  struct Source {
    const char* bytes = nullptr;
    std::function<Tensor()> make;
  };

  void add(int64_t model, const std::vector<Source>& sources) {
    std::vector<Tensor> made(sources.size());  // kept until they are copied
    std::vector<Chunk> chunks;
    std::vector<const char*> from(sources.size());
    for (size_t k = 0; k < sources.size(); ++k) {
      from[k] = sources[k].bytes;
      if (!from[k]) {
        made[k] = sources[k].make().to(tensors_[k].scalar_type()).contiguous();
        from[k] = static_cast<const char*>(made[k].const_data_ptr());
      }
      if (model && equal_[k]) cut(&chunks, slot(k, 0), from[k], slot_bytes(k), k);
    }
    std::vector<std::atomic<bool>> differs(sources.size());
    for_chunks(chunks, [&](const Chunk& c) {
      if (!differs[c.weight] && std::memcmp(c.to, c.from, c.bytes)) differs[c.weight] = true;
    });
    chunks.clear();
    for (size_t k = 0; k < sources.size(); ++k) {
      if (model && equal_[k] && !differs[k]) continue;
      if (model && equal_[k])
        for (int64_t i = 1; i < model; ++i) cut(&chunks, slot(k, i), slot(k, 0), slot_bytes(k), k);
      if (model) equal_[k] = false;
      cut(&chunks, slot(k, model), from[k], slot_bytes(k), k);
    }
    copy(chunks);
  }

  /// The packed weights. With `share`, equal ones stay stored once; else they are repeated.
  Tensors take(bool share) {
    std::vector<Chunk> chunks;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      if (!equal_[k]) continue;
      if (share)
        tensors_[k] = tensors_[k].select(0, 0).clone();
      else
        for (int64_t i = 1; i < n_; ++i) cut(&chunks, slot(k, i), slot(k, 0), slot_bytes(k), k);
    }
    copy(chunks);
    return std::move(tensors_);
  }

  bool equal(size_t k) const { return equal_[k]; }
  /// Of one model's weights, those that are equal in all models so far.
  int64_t equal_bytes() const {
    int64_t bytes = 0;
    for (size_t k = 0; k < equal_.size(); ++k) bytes += equal_[k] ? slot_bytes(k) : 0;
    return bytes;
  }
  int64_t slot_bytes(size_t k) const { return static_cast<int64_t>(tensors_[k].nbytes()) / n_; }
  at::ScalarType dtype(size_t k) const { return tensors_[k].scalar_type(); }

 private:
  char* slot(size_t k, int64_t model) const {
    return static_cast<char*>(tensors_[k].mutable_data_ptr()) + model * slot_bytes(k);
  }
  static void copy(const std::vector<Chunk>& chunks) {
    for_chunks(chunks, [](const Chunk& c) { std::memcpy(c.to, c.from, c.bytes); });
  }

  int64_t n_;
  Tensors tensors_;
  std::vector<bool> equal_;
};

/// Adds notes on weights that checkpoints lack, one for each weight.
void note_absent(const std::vector<TensorSpec>& specs, const std::vector<int64_t>& absent,
                 int64_t n, std::set<std::string>* notes) {
  std::map<int64_t, std::vector<std::string>> by_count;
  for (size_t k = 0; k < specs.size(); ++k)
    if (absent[k]) by_count[absent[k]].push_back(specs[k].name);
  for (const auto& [count, names] : by_count)
    notes->insert(
        fmt::format("{} missing in {}: the network's own {} kept",
                    listing(names) + (names.size() == 1 ? " is" : " are"),
                    count == n ? "all checkpoints" : fmt::format("{} of {} checkpoints", count, n),
                    names.size() == 1 ? "value is" : "values are"));
}

}  // namespace

int64_t packed_bytes(const Network& network, int64_t n, at::ScalarType dtype) {
  int64_t bytes = 0;
  for (const size_t i : network.indices(false)) {
    const TensorSpec& spec = network.tensors[i];
    const auto size = static_cast<int64_t>(c10::elementSize(spec.dtype_in(dtype)));
    bytes += n * c10::multiply_integers(spec.sizes) * size;
  }
  return bytes;
}

LoadedWeights load_checkpoints(const Network& network, const std::vector<std::string>& files,
                               at::ScalarType dtype, bool share,
                               const std::function<void(int64_t equal_bytes)>& watch) {
  const double start = now_s();
  const WantedWeights wanted(network);
  const auto& specs = wanted.specs();
  const auto n = static_cast<int64_t>(files.size());
  Packer packer(specs, n, dtype);

  LoadedWeights loaded;
  std::set<std::string> notes;
  std::vector<int64_t> absent(specs.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    const CheckpointFile file(files[static_cast<size_t>(i)]);
    const CheckpointMatch match = match_checkpoint(file, wanted);
    notes.insert(match.notes.begin(), match.notes.end());
    loaded.file_bytes += file.bytes();
    std::vector<Packer::Source> sources(specs.size());
    for (size_t k = 0; k < specs.size(); ++k) {
      const size_t at = match.tensors[k];
      if (at == kAbsent) {
        ++absent[k];
        sources[k].make = [&network, k] { return network.initial[k]; };
      } else {
        if (file.dtype(at) == packer.dtype(k)) sources[k].bytes = file.plain_bytes(at);
        sources[k].make = [&file, at] { return file.tensor(at); };
      }
    }
    packer.add(i, sources);
    if (watch) watch(packer.equal_bytes());
  }
  loaded.equal_bytes = (n - 1) * packer.equal_bytes();
  note_absent(specs, absent, n, &notes);

  int64_t count = 0;
  loaded.shared.assign(specs.size(), false);
  for (size_t k = 0; k < specs.size(); ++k) {
    loaded.given.push_back(absent[k] < n);
    if (!packer.equal(k)) continue;
    ++count;
    loaded.shared[k] = share;
  }
  loaded.tensors = packer.take(share);
  for (const Tensor& t : loaded.tensors) loaded.packed_bytes += static_cast<int64_t>(t.nbytes());
  if (share)
    loaded.equal_note = fmt::format("{} of {} weights are equal in all checkpoints and shared",
                                    count, specs.size());
  else if (loaded.equal_bytes)
    loaded.equal_note =
        fmt::format("{} of {} weights are equal in all checkpoints: --share-weights would save {}",
                    count, specs.size(), bytes_text(static_cast<double>(loaded.equal_bytes)));
  if (!loaded.equal_note.empty()) notes.insert(loaded.equal_note);
  loaded.notes.assign(notes.begin(), notes.end());
  loaded.seconds = now_s() - start;
  return loaded;
}

}  // namespace wide
