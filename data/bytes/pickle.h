#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

// Reads Python's pickles without running code. The result is plain values; a `Meaning` says what
// the names of classes and functions in a pickle stand for. Knows no LibTorch; safe for any bytes:
// nothing recurses, and memory is bounded by the bytes read and by `kMostValues`.
namespace wide::pickle {

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  big,  // an integer beyond 64 bits: `text` holds its bytes, little-endian
  real,
  text,
  bytes,
  list,
  tuple,
  set,
  dict,
  name,     // of a Python function or class, "collections.OrderedDict"
  storage,  // made by a Meaning, as is a tensor; `number` is the Meaning's own id for it
  tensor
};
const char* to_string(Kind kind);

using Id = uint32_t;
constexpr size_t kMostValues = 1 << 22;

struct Value {
  Kind kind = Kind::none;
  union {
    int64_t number = 0;
    double real;
  };
  std::string_view text = {};
  std::vector<Id> items = {};  // of containers; of a dict: key, value, key, value, ...
};

/// All values of one or several pickles. Texts point into the bytes that were read.
class Values {
 public:
  explicit Values(const std::string& file) : file_(file) {}

  const Value& operator[](Id id) const { return values_[id]; }
  Value& operator[](Id id) { return values_[id]; }
  /// Throws Error beyond `kMostValues`.
  Id add(Value value);
  Id add(Kind kind, std::vector<Id> items = {});
  /// Stores a text that is not contained in the bytes as it is.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  const std::string& file() const { return file_; }

 private:
  std::string file_;  // for messages
  std::vector<Value> values_;
  std::deque<std::string> kept_;
};

/// Interprets the names in a pickle. All functions may throw Error.
class Meaning {
 public:
  virtual ~Meaning() = default;
  /// Whether the name may occur in a pickle.
  virtual bool knows(std::string_view name) const = 0;
  /// The result of calling `name` with the tuple `arguments`.
  virtual Id call(Values& values, std::string_view name, Id arguments) = 0;
  /// Sets an object's attributes (BUILD). Those of an OrderedDict or parameter are not needed.
  virtual void build(Values&, Id /*object*/, Id /*state*/) {}
  /// The value of a persistent id: a storage.
  virtual Id persistent(Values& values, Id id) = 0;
};

struct Read {
  Id root = 0;
  size_t end = 0;  // bytes read
};

/// Reads one pickle (protocols 0 to 5) from the start of `bytes`, which must outlive `values`.
/// Throws Error for names that `meaning` does not know, opcodes that could run code or reach
/// outside, and broken pickles.
Read load(std::string_view bytes, Values& values, Meaning& meaning);

}  // namespace wide::pickle
