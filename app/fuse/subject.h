#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "data/checkpoints/checkpoint.h"
#include "engine/compile.h"
#include "engine/model/dynamic_batch.h"
#include "engine/widen/target.h"

namespace wide {

class NetworkFile;

/// The registered target of this name; nullptr if `model` is the path of a file.
const Target* registered_name(const std::string& model);

/// The user's choice of N models and their inputs.
struct SubjectOptions {
  std::string model;  // a file or a registered name
  std::vector<std::string> weights;
  std::string inputs;                      // a safetensors file
  std::vector<std::string> shared_inputs;  // names
  std::vector<std::string> random_inputs;  // texts of --input
  std::string n;
  bool share_weights = false;
  bool trusted = false;  // --trust: the network's file may call any operator of LibTorch
  std::string dtype, device = "cpu";
  uint64_t seed = 0;
};

/// A network, and ensembles of it for any N that its weights and inputs allow. Model i is the same
/// in every ensemble, whatever N.
class Subject {
 public:
  explicit Subject(const SubjectOptions& options);

  const Network& network() const { return network_; }
  const std::vector<int64_t>& ns() const { return ns_; }
  at::ScalarType dtype() const { return dtype_; }
  c10::Device device() const { return device_; }
  double tolerance() const { return tolerance_; }
  const std::vector<std::string>& notes() const { return notes_; }

  Ensemble ensemble(int64_t n) const;

  /// The batch size of the inputs; 0 if the network's file does not name a batch dimension.
  int64_t batch() const { return batch_; }
  /// The batch sizes that the network accepts; nullopt if only `batch()`, or unknown.
  std::optional<BatchRange> batches() const;
  /// The network for another batch size that it accepts.
  Network network_at(int64_t batch) const;
  /// The models of `ensemble(n)` for that network; its inputs repeat the same rows to fill the
  /// batch.
  Ensemble ensemble_at(const Network& network, int64_t n) const;

  /// Program(1), recorded once on model 0.
  const Program& single();
  /// The most models that fit into the device's memory, by estimate.
  int64_t largest_n() const { return largest_n_; }
  /// The loaded weights; without tensors if none were given.
  const LoadedWeights& loaded() const { return loaded_; }

 private:
  void read_inputs(const SubjectOptions& options);
  void use_samples();
  /// The network for these inputs, which get the dtypes that its file declares.
  void read_network();
  /// A file without dtypes of inputs takes given ones as they are. If one model refuses them, as
  /// float64 beside float32 weights, they are converted to the run's dtype.
  void convert_refused();
  std::vector<std::string> find_weights(const SubjectOptions& options);
  /// Throws Error with exit code 5 if the largest N does not fit into memory, where weights of
  /// `shared_bytes` are stored once for all models.
  void check_memory(int64_t shared_bytes);
  bool has_weights() const { return !loaded_.tensors.empty(); }
  Ensemble first_model() const;
  Program record_first() const;
  void note_unread();
  Tensor own_weight(size_t index, size_t k) const;
  void choose_ns(const SubjectOptions& options);
  Tensor input(size_t index, int64_t n) const;
  Tensor weight(size_t index, size_t k, int64_t n) const;

  Network network_;
  std::vector<int64_t> ns_;
  at::ScalarType dtype_ = at::kFloat;
  c10::Device device_;
  double tolerance_ = 0;
  uint64_t seed_ = 0;
  std::vector<std::string> notes_;

  /// Inputs in the network's order: given ones hold a tensor, the others are random.
  struct Input {
    TensorSpec spec;
    Tensor given;
    int64_t low = 0;
    bool shared = false;
  };
  std::vector<Input> inputs_;
  LoadedWeights loaded_;
  int64_t checkpoints_ = 0, largest_n_ = 0, free_bytes_ = 0;
  std::optional<Program> single_;

  const Target* target_ = nullptr;  // set for a registered network, else file_ is
  std::shared_ptr<const NetworkFile> file_;
  int64_t batch_ = 0;
};

/// The shape `fuse`, `trace` and `list` use for a registered name: the first of its quick sweep.
Shape default_shape(const Target& target);

}  // namespace wide
