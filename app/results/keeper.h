#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace wide {

class Store;

/// Where trial fusions are kept, and what tuning found on the way.
class Keeper {
 public:
  Keeper();
  virtual ~Keeper();
  /// From now on in the store at `db`. Throws Error as the store does.
  virtual void open(const std::string& db);
  /// `fusion` as `fuse_document` makes it.
  virtual void add(const nlohmann::ordered_json& fusion);

 private:
  std::unique_ptr<Store> store_;
};

/// Of this process: the store itself, unless it may open none and has to ask.
Keeper& keeper();
void set_keeper(std::unique_ptr<Keeper> keeper);

}  // namespace wide
