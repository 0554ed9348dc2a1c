#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// How dropout and batch norm act: as in the file, or switched.
enum class Form { as_exported, train, evaluate };

/// Calls whose flag can be switched.
struct FormCalls {
  int64_t all = 0, on = 0;  // the latter: of these in the file
};

/// What a file says of its two forms.
struct FormFlags {
  bool exported_for_training = false;  // some flag is on in the file
  FormCalls dropout, batch_norm;
  /// A call, in words, whose meaning depends on the mode that it was exported in and cannot be
  /// switched; "": none.
  std::string bound;
  /// How many flags this form has otherwise than the file.
  int64_t switched(Form form, const FormCalls& calls) const {
    if (form == Form::evaluate) return calls.on;
    return form == Form::train && !exported_for_training ? calls.all : 0;
  }
};

/// One architecture as a file holds it, before the sizes of its inputs are known.
class NetworkFile {
 public:
  virtual ~NetworkFile() = default;
  /// What forward takes, in words for people: "x: Tensor, mask: Tensor?".
  virtual std::string wanted() const = 0;
  /// Names of the plain tensor inputs when forward takes nothing else: how many there are and
  /// what a file or an option must call them.
  virtual std::vector<std::string> input_names() const = 0;
  /// The inputs that the file was exported with, where it says so; else empty.
  virtual std::vector<TensorSpec> sample_inputs() const { return {}; }
  /// Names of forward's results, flattened, by the path that leads to each: "logits", "aux.0".
  /// Empty where the file does not say, and for one that has none.
  virtual std::vector<std::string> output_names() const { return {}; }
  /// `inputs` with batches of another size, where the file says which sizes belong to the batch
  /// (the first dimension of an input that has a dynamic one); nullopt where none does or it says
  /// nothing.
  virtual std::optional<std::vector<TensorSpec>> with_batch(
      const std::vector<TensorSpec>& /*inputs*/, int64_t /*batch*/) const {
    return std::nullopt;
  }
  /// Dtype of the file's own floating weights.
  virtual at::ScalarType dtype() const = 0;
  /// The network for inputs of these names and sizes (of one model). Throws Error naming an input
  /// that is missing, too many or not a tensor. The file must outlive nothing: the network keeps
  /// what it needs.
  /// `form`: in training exported nets keep what was frozen; the others switch all on.
  virtual Network network(const std::vector<TensorSpec>& inputs,
                          Form form = Form::as_exported) const = 0;
  virtual FormFlags forms() const = 0;
};

/// What a caller decides about a file that it opens.
struct NetworkOptions {
  /// The caller knows who made the file: it may call every operator that LibTorch has, also those
  /// that write files. Else a reviewed list of them (allowed_operators.h), checked before anything
  /// of the file runs.
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

/// Opens a network by what the file holds, not by what it is called. Throws Error.
std::unique_ptr<NetworkFile> open_network(const std::string& path,
                                          const NetworkOptions& options = {});

}  // namespace wide
