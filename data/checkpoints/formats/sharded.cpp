#include <nlohmann/json.hpp>
#include <set>

#include "data/bytes/refuse.h"
#include "data/checkpoints/checkpoint_format.h"

// The index of a checkpoint in several files, as transformers writes it:
// {"metadata": {...}, "weight_map": {"fc.weight": "model-00001-of-00002.safetensors", ...}}
namespace wide::sharded_checkpoint {
namespace {

constexpr size_t kDeepest = 8;
constexpr size_t kMostTensors = 1 << 20;

/// Reads the JSON event by event, to notice deep nesting and duplicate keys.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  CheckpointIndex take() {
    if (!found_) refuse(file_, "weight_map", "none", "an object of names and files");
    return std::move(index_);
  }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a truth value"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary"); }

  bool string(string_t& text) override {
    if (!in_map_) return value("a text");
    if (text.empty() || text == "." || text == ".." || text.find_first_of("/\\") != text.npos ||
        text.find('\0') != text.npos)
      refuse(file_, "file of " + printable(key_), "'" + printable(text, 60) + "'",
             "the name of a file beside it");
    if (++count_ > kMostTensors)
      refuse(file_, "weight_map", "more tensors", fmt::format("at most {}", kMostTensors));
    index_.parts[text].push_back(key_);
    return true;
  }

  bool start_object(size_t) override {
    if (in_map_ || (depth_ == 1 && key_ == "weight_map" && found_)) return value("an object");
    deeper();
    if (depth_ == 2 && key_ == "weight_map") in_map_ = found_ = true;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ <= 2 && !seen_[depth_ - 1].insert(text).second)
      refuse(file_, "key " + printable(text), "it twice", "every key once");
    key_ = text;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2) seen_[1].clear();
    if (depth_-- == 2) in_map_ = false;
    return true;
  }
  bool start_array(size_t) override {
    if (in_map_ || depth_ == 0) return value("an array");
    deeper();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    refuse(file_, "index", fmt::format("bad JSON at byte {}", at), "a JSON object in UTF-8");
  }

 private:
  void deeper() {
    if (++depth_ > kDeepest)
      refuse(file_, "index", "deeper nesting", fmt::format("at most {} levels", kDeepest));
  }
  bool value(const char* got) {
    if (depth_ == 0 || in_map_ || (depth_ == 1 && key_ == "weight_map"))
      refuse(file_, in_map_ ? "file of " + printable(key_) : "index", got,
             in_map_ ? "the name of a file" : "an object with a weight_map");
    return true;
  }

  const std::string& file_;
  CheckpointIndex index_;
  size_t depth_ = 0, count_ = 0;
  bool in_map_ = false, found_ = false;
  std::string key_;
  std::set<std::string> seen_[2];
};

/// Whether an object is first after white space: no other checkpoint format begins like that.
bool probe(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{' &&
         bytes.find("\"weight_map\"") != std::string_view::npos;
}

CheckpointIndex parse(std::string_view bytes, const std::string& file) {
  Reader reader(file);
  nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &reader);
  return reader.take();
}

const bool registered = add_checkpoint_format(
    {"sharded index", {".safetensors.index.json", ".bin.index.json"}, 0, probe, parse});

}  // namespace
}  // namespace wide::sharded_checkpoint
