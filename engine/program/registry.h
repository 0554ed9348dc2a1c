#pragma once
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace wide {

/// All entries of one type that files have registered. Only the file that defines `add_...` for the
/// type calls this: a plugin that did would see a list of its own.
template <class T>
std::vector<T>& registry() {
  static std::vector<T> all;
  return all;
}

/// Registers an entry, sorted by `key`, such as `&T::name`: the order of static initialisers is the
/// linker's, and no message or list may depend on it. Returns true.
template <class T, class Key>
bool enter(T entry, Key key) {
  std::vector<T>& all = registry<T>();
  const auto place = std::ranges::upper_bound(all, std::invoke(key, std::as_const(entry)), {}, key);
  all.insert(place, std::move(entry));
  return true;
}

/// Registers an entry behind all others. Returns true.
template <class T>
bool enter(T entry) {
  registry<T>().push_back(std::move(entry));
  return true;
}

}  // namespace wide
