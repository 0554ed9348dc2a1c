#include "data/networks/torchscript_bounds.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "data/bytes/pickle.h"
#include "data/bytes/refuse.h"
#include "data/bytes/zip/zip.h"

namespace wide {
namespace {

constexpr uint64_t kMostCode = 64 << 20;  // bytes of source
constexpr size_t kDeepestBrackets = 200, kDeepestIndent = 400, kMostBranches = 500;
constexpr size_t kLongestTerm = 1000;  // tokens between two commas
constexpr size_t kDeepestValue = 1000;

/// Reads a pickle for its nesting only: what a name stands for does not matter.
class Shape : public pickle::Meaning {
 public:
  bool knows(std::string_view) const override { return true; }

  pickle::Id call(pickle::Values& values, std::string_view name, pickle::Id arguments) override {
    const auto& items = values[arguments].items;
    if (name.ends_with("restore_type_tag") && items.size() == 2 &&
        values[items[1]].kind == pickle::Kind::text)
      check_nesting(values[items[1]].text, values.file(), "type");
    return values.add(pickle::Kind::dict, {arguments});
  }

  void build(pickle::Values& values, pickle::Id object, pickle::Id state) override {
    values[object].items.push_back(state);
  }

  pickle::Id persistent(pickle::Values& values, pickle::Id id) override {
    return values.add(pickle::Kind::tuple, {id});
  }
};

/// Refuses values so deep that recursive destructors and copies would overflow the stack.
void check_depth(const pickle::Values& values, pickle::Id root, const std::string& file) {
  enum : uint8_t { unseen, open, done };
  struct Place {
    pickle::Id id;
    size_t next = 0;
  };
  std::vector<uint8_t> state;
  std::vector<uint32_t> height;
  std::vector<Place> path{{root}};
  const auto grow = [&](pickle::Id id) {
    if (id >= state.size()) state.resize(id + 1, unseen), height.resize(id + 1, 0);
  };
  const auto rise = [&](pickle::Id holder, pickle::Id item) {
    height[holder] = std::max(height[holder], height[item] + 1);
    if (height[holder] > kDeepestValue)
      refuse(file, "data.pkl", "values deeper in one another",
             fmt::format("at most {}", kDeepestValue), kSaveAgain);
  };
  grow(root);
  state[root] = open;
  while (!path.empty()) {
    Place& here = path.back();
    const auto& items = values[here.id].items;
    if (here.next == items.size()) {
      const pickle::Id id = here.id;
      state[id] = done;
      path.pop_back();
      if (!path.empty()) rise(path.back().id, id);
      continue;
    }
    const pickle::Id item = items[here.next++];
    grow(item);
    if (state[item] == open)
      refuse(file, "data.pkl", "a value that contains itself", "none", kSaveAgain);
    if (state[item] == done) {
      rise(here.id, item);
      continue;
    }
    state[item] = open;
    path.push_back({item});
  }
}

/// Finds how deeply code nests, with only as much lexing as that needs.
class Nesting {
 public:
  Nesting(std::string_view code, const std::string& file, const std::string& what)
      : code_(code), file_(file), what_(what) {}

  void check() {
    while (at_ < code_.size()) {
      const char c = code_[at_];
      if (c == '\n' && terms_.size() == 1)
        indent();
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        ++at_;
      else if (c == '"' || c == '\'')
        text(c);
      else if (c == '#' && !code_.substr(at_).starts_with("# type:"))
        at_ = std::min(code_.find('\n', at_), code_.size());
      else
        token(c);
    }
  }

 private:
  [[noreturn]] void deep(const char* what, size_t most) const {
    refuse(file_, printable(what_), fmt::format("{} at byte {}", what, at_),
           fmt::format("at most {}", most), kSaveAgain);
  }

  void indent() {
    const size_t begin = ++at_;
    while (at_ < code_.size() && (code_[at_] == ' ' || code_[at_] == '\t')) ++at_;
    if (at_ - begin > kDeepestIndent) deep("blocks deeper in one another", kDeepestIndent);
    words_ -= terms_.back();
    terms_.back() = 0;
  }

  void text(char quote) {
    const std::string three(3, quote);
    const std::string_view end =
        code_.substr(at_, 3) == three ? std::string_view(three) : std::string_view(three).substr(2);
    at_ += end.size();
    while (at_ < code_.size() && code_.substr(at_, end.size()) != end)
      at_ += 1 + (code_[at_] == '\\');
    at_ = std::min(at_ + end.size(), code_.size());
    word();
  }

  void word() {
    ++terms_.back();
    if (++words_ > kLongestTerm) deep("a longer expression", kLongestTerm);
  }

  void token(char c) {
    if (c == '(' || c == '[' || c == '{') {
      ++at_;
      terms_.push_back(0);
      if (terms_.size() > kDeepestBrackets)
        deep("brackets deeper in one another", kDeepestBrackets);
    } else if (c == ')' || c == ']' || c == '}') {
      ++at_;
      if (terms_.size() > 1) {
        words_ -= terms_.back();
        terms_.pop_back();
      }
      word();
    } else if (c == ',') {
      ++at_;
      words_ -= terms_.back();
      terms_.back() = 0;
    } else {
      const size_t begin = at_++;
      const auto part = [](char d) {
        return std::isalnum(static_cast<unsigned char>(d)) || d == '_';
      };
      while (part(c) && at_ < code_.size() && part(code_[at_])) ++at_;
      if (code_.substr(begin, at_ - begin) == "elif" && ++branches_ > kMostBranches)
        deep("more branches", kMostBranches);
      word();
    }
  }

  std::string_view code_;
  const std::string& file_;
  const std::string& what_;
  size_t at_ = 0, words_ = 0, branches_ = 0;
  std::vector<size_t> terms_ = {0};  // words since the last comma, by open bracket
};

}  // namespace

void check_nesting(std::string_view code, const std::string& file, const std::string& what) {
  Nesting(code, file, what).check();
}

void check_torchscript(std::string_view archive, const std::string& file) {
  const zip::Index index = zip::parse(archive, file, zip::Compressed::taken);
  const std::string folder = index.folder();
  if (index.find(folder + "model.json"))
    refuse(file, "TorchScript", "the form of PyTorch before 1.4 (model.json)", "a later one",
           kSaveAgain);
  uint64_t code = 0;
  for (const zip::Entry& entry : index.entries) {
    const std::string_view name = std::string_view(entry.name).substr(folder.size());
    if (entry.compressed && !name.starts_with("code/"))
      refuse(file, "zip record " + printable(name), "it compressed", "it stored as it is",
             kSaveAgain);
    if (!name.starts_with("code/") || !name.ends_with(".py")) continue;
    code = entry.size > kMostCode ? entry.size : code + entry.size;
    if (code > kMostCode)
      refuse(file, "code", "more bytes", fmt::format("at most {}", kMostCode), kSaveAgain);
  }
  for (const char* name : {"constants.pkl", "data.pkl"}) {
    const zip::Entry* entry = index.find(folder + name);
    if (!entry) refuse(file, name, "none", "one in the archive", kSaveAgain);
    pickle::Values values(file);
    Shape shape;
    const pickle::Read read = pickle::load(zip::bytes_of(archive, *entry), values, shape);
    check_depth(values, read.root, file);
  }
}

}  // namespace wide
