#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// The form of a network: dropout and batch norm act as in the file, or are switched to training or
/// evaluation.
enum class Form { as_exported, train, evaluate };

/// Numbers of calls whose flag can be switched.
struct FormCalls {
  int64_t all = 0, on = 0;  // `on`: those that are set to training in the file
};

/// What is known about the two forms of a file's network.
struct FormFlags {
  bool exported_for_training = false;  // some flag is set to training in the file
  FormCalls dropout, batch_norm;
  /// A call, as text, that depends on the mode of the export and cannot be switched; "" if there is
  /// none.
  std::string bound;
  /// How many flags of this form differ from the file's.
  int64_t switched(Form form, const FormCalls& calls) const {
    if (form == Form::evaluate) return calls.on;
    return form == Form::train && !exported_for_training ? calls.all : 0;
  }
};

/// A network from a file, before the sizes of its inputs are known.
class NetworkFile {
 public:
  virtual ~NetworkFile() = default;
  /// Forward's arguments for messages: "x: Tensor, mask: Tensor?".
  virtual std::string wanted() const = 0;
  /// Names of the inputs, if forward takes only tensors: a file or option must use these names.
  virtual std::vector<std::string> input_names() const = 0;
  /// Names and sizes of the inputs that the file was exported with; empty if it does not state
  /// them.
  virtual std::vector<TensorSpec> sample_inputs() const { return {}; }
  /// Names of forward's results, flattened, as paths: "logits", "aux.0". Empty if the file does not
  /// name them, or forward returns one tensor.
  virtual std::vector<std::string> output_names() const { return {}; }
  /// `inputs` for another batch size, if the file marks sizes as dependent on the batch (a dynamic
  /// first dimension of an input); else nullopt.
  virtual std::optional<std::vector<TensorSpec>> with_batch(
      const std::vector<TensorSpec>& /*inputs*/, int64_t /*batch*/) const {
    return std::nullopt;
  }
  /// Dtype of the file's own floating weights.
  virtual at::ScalarType dtype() const = 0;
  /// The network for inputs of these names and sizes (of one model). Throws Error naming an input
  /// that is missing, unknown or not a tensor. The network keeps all that it needs of the file.
  /// `form` training: in a file exported for training, calls that were frozen stay so; otherwise
  /// all calls are switched.
  virtual Network network(const std::vector<TensorSpec>& inputs,
                          Form form = Form::as_exported) const = 0;
  virtual FormFlags forms() const = 0;
};

/// Options for opening a network's file.
struct NetworkOptions {
  /// The caller trusts the file: it may call every operator of LibTorch, also those that write
  /// files. Otherwise only those of a reviewed list (allowed_operators.h), which is checked before
  /// anything in the file runs.
  bool trusted = false;
};

/// A kind of file that holds networks. Registers itself at static initialisation.
struct NetworkFormat {
  std::string name;                     // "TorchScript"
  std::vector<std::string> extensions;  // ".ts", what people usually call such files
  std::function<bool(const std::string& path)> probe;
  std::function<std::unique_ptr<NetworkFile>(const std::string& path, const NetworkOptions&)> load;
};
bool add_network_format(NetworkFormat format);
const std::vector<NetworkFormat>& network_formats();

/// Opens a network; the format is recognised by the contents, not by the name. Throws Error.
std::unique_ptr<NetworkFile> open_network(const std::string& path,
                                          const NetworkOptions& options = {});

}  // namespace wide
