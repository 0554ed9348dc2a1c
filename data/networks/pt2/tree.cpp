#include "data/networks/pt2/tree.h"

#include "data/bytes/refuse.h"
#include "data/networks/pt2/json.h"

namespace wide::pt2 {
namespace {

constexpr size_t kLongestName = 4096;

/// A pytree as PyTorch writes it: {"type", "context", "children_spec"}; leaves have type null.
struct Branch {
  std::string type, context;
  std::vector<Branch> children;
  bool leaf = false;
};

Branch read_node(Json& json) {
  Branch node;
  json.parts(part("type", [&] { node.leaf = !json.optional([&] { node.type = json.string(); }); }),
             part("context",
                  [&] {
                    if (json.peek() == Json::Kind::string)
                      node.context = json.string();
                    else
                      json.skip();  // null too
                  }),
             part("children_spec",
                  [&] { json.array([&] { node.children.push_back(read_node(json)); }); }));
  return node;
}

/// Keys that a context holds: a list of texts or numbers, itself or first in a list (dataclasses
/// and defaultdicts store more). Empty when it is something else.
std::vector<std::string> keys_of(const std::string& context, const std::string& file) {
  std::vector<std::string> keys;
  if (context.empty() || (context.front() != '[' && context.front() != '{')) return keys;
  Json json(context, file, "context of an input");
  const auto key = [&] {
    if (json.peek() == Json::Kind::string)
      keys.push_back(json.string());
    else if (json.peek() == Json::Kind::number)
      keys.push_back(fmt::format("{}", json.integer()));
    else
      json.skip();
  };
  if (json.peek() == Json::Kind::object) {
    json.parts(part("dict_context", [&] {
      if (json.peek() == Json::Kind::array)
        json.array(key);
      else
        json.skip();
    }));
    return keys;
  }
  bool first = true, nested = false;
  json.array([&] {
    if (first && json.peek() == Json::Kind::array) {
      nested = true;
      json.array(key);
    } else if (nested) {
      json.skip();
    } else {
      key();
    }
    first = false;
  });
  return keys;
}

/// Reads [protocol, tree].
Branch read_tree(const std::string& text, const std::string& file, const std::string& where) {
  Json json(text, file, where);
  Branch root;
  int64_t position = 0;
  json.array([&] {
    if (position++ == 1)
      root = read_node(json);
    else
      json.skip();
  });
  json.end();
  return root;
}

size_t leaves_of(const Branch& node) {
  if (node.leaf) return 1;
  size_t count = 0;
  for (const Branch& child : node.children) count += leaves_of(child);
  return count;
}

class Walk {
 public:
  Walk(const Program& program, const std::string& file) : program_(program), file_(file) {}

  void visit(const Branch& node, const std::string& name, const std::string& other) {
    if (name.size() > kLongestName)
      refuse(file_, "in_spec", fmt::format("an input's name of {} bytes", name.size()),
             fmt::format("at most {}", kLongestName), "export it again with torch.export.save");
    if (node.leaf) {
      leaves.push_back({name, other == name ? "" : other});
      return;
    }
    std::vector<std::string> keys = keys_of(node.context, file_);
    bool named_tuple = false;
    for (const auto& [type, fields] : program_.named_tuples)
      if (node.context.find(type) != std::string::npos) keys = fields, named_tuple = true;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const std::string number = fmt::format("{}", i);
      const std::string& key = keys.size() == node.children.size() ? keys[i] : number;
      visit(node.children[i], name + "." + key, other + "." + (named_tuple ? number : key));
    }
  }

  std::vector<Leaf> leaves;

 private:
  const Program& program_;
  const std::string& file_;
};

}  // namespace

std::vector<Leaf> input_leaves(const Program& program, const std::vector<std::string>& names,
                               const std::string& file) {
  std::vector<Leaf> plain;
  for (const std::string& name : names) plain.push_back({name, ""});
  if (program.in_spec.empty()) return plain;

  const Branch root = read_tree(program.in_spec, file, "in_spec");

  // Counts the leaves before naming any: names may be far longer than the file.
  size_t count = 0;
  if (root.children.size() == 2)
    for (const Branch& group : root.children) count += leaves_of(group);
  if (count != names.size())
    refuse(file, "in_spec", fmt::format("{} leaves", count),
           fmt::format("{} as the graph has inputs", names.size()),
           "export it again with torch.export.save");
  Walk walk(program, file);
  // The root is the tuple (positional arguments, keyword arguments) of a call of forward.
  size_t argument = 0;
  if (root.children.size() == 2)
    for (const Branch& group : root.children) {
      const std::vector<std::string> keys = keys_of(group.context, file);
      for (size_t i = 0; i < group.children.size(); ++i, ++argument) {
        std::string name = fmt::format("arg_{}", argument);
        if (argument < program.argument_names.size())
          name = program.argument_names[argument];
        else if (keys.size() == group.children.size())
          name = keys[i];
        walk.visit(group.children[i], name, name);
      }
    }
  return walk.leaves;
}

std::vector<std::string> output_leaves(const Program& program, size_t count,
                                       const std::string& file) {
  if (program.out_spec.empty()) return {};
  const Branch root = read_tree(program.out_spec, file, "out_spec");
  if (root.leaf || leaves_of(root) != count) return {};
  Walk walk(program, file);
  walk.visit(root, "", "");
  std::vector<std::string> names;
  for (const Leaf& leaf : walk.leaves) names.push_back(leaf.name.substr(1));
  return names;
}

}  // namespace wide::pt2
