#include "app/python/bindings/gradients.h"

#include <ATen/LegacyBatchedTensorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <string_view>

#include "app/python/bindings/carried.h"
#include "engine/error.h"
#include "engine/lower/gradient_model.h"

namespace nwide {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Throws an error through autograd's engine that becomes nw.Error in Python.
[[noreturn]] void throw_to_python(const std::string& text) {
  const py::gil_scoped_acquire gil;
  PyErr_SetString(py::module_::import("nwide._core").attr("Error").ptr(), text.c_str());
  python_error thrown;
  thrown.persist();
  throw thrown;
}

/// A node of autograd that throws when a gradient reaches it.
struct RefuseGradients : Node {
  explicit RefuseGradients(std::string why) : why_(std::move(why)) {}
  variable_list apply(variable_list&&) override { throw_to_python(why_); }

 private:
  std::string why_;
};

void hang(wide::Tensors& outputs, const std::shared_ptr<Node>& node,
          const std::vector<bool>* differentiable = nullptr) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool has = torch::autograd::isDifferentiableType(outputs[k].scalar_type()) &&
                     (!differentiable || (*differentiable)[k]);
    if (has)
      torch::autograd::set_history(outputs[k], node);
    else
      node->add_input_metadata(Node::undefined_input());
  }
}

void refuse(wide::Tensors& outputs, const wide::Tensors& of, const std::string& why) {
  const std::shared_ptr<Node> node(new RefuseGradients(why), torch::autograd::deleteNode);
  for (const wide::Tensor& t : of)
    if (t.defined() && t.requires_grad())
      node->add_next_edge(torch::autograd::impl::gradient_edge(t));
  hang(outputs, node);
}

/// Turns the search for anomalies off, which would read values while gradients are recorded.
/// Autograd's engine still looks at the gradients that the node returns.
class NoAnomalyMode {
 public:
  NoAnomalyMode() { Mode::set_enabled(false, checks_); }
  ~NoAnomalyMode() { Mode::set_enabled(on_, checks_); }
  NoAnomalyMode(const NoAnomalyMode&) = delete;
  NoAnomalyMode& operator=(const NoAnomalyMode&) = delete;

 private:
  using Mode = torch::autograd::AnomalyMode;
  const bool on_ = Mode::is_enabled(), checks_ = Mode::should_check_nan();
};

/// The node of autograd that computes a call's backward pass.
struct WideBackward : Node {
  std::shared_ptr<CoreState> core;
  std::shared_ptr<wide::GradientModel> model;  // null: made by the first backward pass
  std::vector<bool> of;                        // by input, then by weight
  std::vector<size_t> places;  // positions of these among the program's bound tensors
  size_t inputs = 0;
  std::vector<SavedVariable> bound;  // in this order
  std::vector<bool> read;            // by `bound`: the model reads it
  bool repeatable = false;           // another forward pass on the same tensors computes the same
  std::vector<SavedVariable> outputs;
  std::vector<SavedVariable> saved;
  bool released = false;

  std::string name() const override { return "WideBackward"; }

  void will_release_variables() override {
    const std::lock_guard lock(mutex_);
    last_ = true;
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    bound.clear();
    outputs.clear();
    saved.clear();
    released = true;
  }

  variable_list apply(variable_list&& cotangents) override {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    std::vector<bool> used;
    for (const wide::Tensor& t : cotangents) {
      used.push_back(t.defined());
      if (at::isBatchedTensor(t))
        throw_to_python(
            "[backward] cotangents: got a batch of them at once, as with vectorize=True or "
            "is_grads_batched=True, expected one for each output; try vectorize=False");
    }
    if (std::ranges::find(used, true) == used.end())
      return variable_list(static_cast<size_t>(std::ranges::count(of, true)));
    const bool again = repeatable && !made_for(used);
    wide::Tensors given, made;
    for (size_t k = 0; k < bound.size(); ++k)
      given.push_back(read[k] || again ? bound[k].unpack() : wide::Tensor());
    for (const SavedVariable& t : outputs) made.push_back(t.unpack(shared_from_this()));
    variable_list gradients = computed(given, made, cotangents, again, used);
    if (at::GradMode::is_enabled()) {
      wide::Tensors all = given;
      all.insert(all.end(), cotangents.begin(), cotangents.end());
      refuse_second(gradients, all);
    }
    return gradients;
  }

 private:
  /// Whether the model was made for just these cotangents.
  bool made_for(const std::vector<bool>& used) const {
    for (size_t k = 0; model && k < used.size(); ++k)
      if (model->takes(k) != used[k] && model->differentiable()[k]) return false;
    return true;
  }

  /// `again`: the forward pass is run again, by a model for the cotangents that are `used`.
  wide::Tensors computed(const wide::Tensors& given, const wide::Tensors& made,
                         const wide::Tensors& cotangents, bool again,
                         const std::vector<bool>& used) {
    const NoAnomalyMode recorded_as_it_is;
    try {
      wide::Tensors at_place(places.size()), kept = made;
      for (size_t k = 0; k < places.size(); ++k) at_place[places[k]] = given[k];
      wide::Tensors kept_for_it;
      std::shared_ptr<wide::GradientModel> gradients = model;
      if (gradients && !again) {
        for (SavedVariable& t : saved) {
          kept_for_it.push_back(t.unpack());
          if (last_) t.reset_data();  // its memory becomes the gradients'
        }
        released = last_;
      } else {
        const wide::Tensors in(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(inputs));
        {
          const std::lock_guard lock(core->mutex);
          gradients = core->model.gradients(in, of, used);
          core->differentiated = true;
          core->used = used;
        }
        wide::GradientModel::Forward forward = gradients->forward(at_place);
        kept_for_it = std::move(forward.saved);
        kept = std::move(forward.outputs);
      }
      return gradients->backward(at_place, kept, std::move(kept_for_it), cotangents);
    } catch (const wide::Error& e) {
      throw_to_python(e.what());
    }
  }

  static void refuse_second(variable_list& gradients, const wide::Tensors& of) {
    wide::Tensors defined;
    for (const wide::Tensor& t : gradients)
      if (t.defined()) defined.push_back(t);
    refuse(defined, of,
           "[backward] second derivative: got one through a wide module, expected first "
           "derivatives; try create_graph=False, or torch.autograd.grad inside of forward, under "
           "torch.enable_grad()");
  }

  bool last_ = false;  // no other backward pass follows
};

bool save_at_once(const CoreState& core) {
  // Checkpointing counts the saved tensors: a second forward pass must save as many.
  return core.differentiated || !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

/// Has a backward pass of this call refused if the call reads one of the buffers `held`, which an
/// earlier call wrote together with their gradient history; notes those that this call writes.
void refuse_carried(const wide::WideModel& model, const wide::Tensors& weights,
                    const std::vector<size_t>& held, wide::Differentiable* made) {
  carried().keep(weights, held);
  for (const size_t k : held)
    if (made->refusal.empty() && model.reads(k))
      made->refusal = fmt::format(
          "[backward] {}: got a value of an earlier call with its gradient, expected one without, "
          "as gradients do not pass from call to call; try detach() where forward assigns it, or "
          "an input and an output",
          model.weight_names()[k]);
  for (const auto& [k, value] : made->changed)
    if (k < weights.size())
      carried().set(weights[k], std::ranges::find(made->attached, k) != made->attached.end());
}

}  // namespace

wide::Tensors run_for_gradients(const std::shared_ptr<CoreState>& core, const wide::Tensors& inputs,
                                const wide::Tensors& weights, Changed* changed) {
  wide::Tensors all = inputs;
  all.insert(all.end(), weights.begin(), weights.end());
  std::vector<bool> of;
  const std::vector<size_t> held = carried().among(weights);
  bool inference = false;
  for (const wide::Tensor& t : all) {
    of.push_back(t.requires_grad());
    inference = inference || t.is_inference();
  }
  wide::Differentiable made;
  {
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(core->mutex);
    if (inference) {
      made.outputs = core->model.run(inputs, weights, &made.changed);
      made.refusal =
          "[backward] tensor: got one made in inference mode, expected an ordinary one; try a "
          "clone of it outside";
    } else {
      const NoAnomalyMode recorded_as_it_is;
      made = core->model.run_for_gradients(inputs, weights, of, core->used, save_at_once(*core));
      refuse_carried(core->model, weights, held, &made);
    }
  }
  *changed = std::move(made.changed);
  wide::Tensors outputs;
  for (const wide::Tensor& t : made.outputs) outputs.push_back(t.variable_data());
  if (!made.refusal.empty()) {
    constexpr std::string_view kClass = "Error: ";  // how the texts of Python's nw.Error begin
    const bool of_python = made.refusal.rfind(kClass, 0) == 0;
    refuse(outputs, all, of_python ? made.refusal.substr(kClass.size()) : made.refusal);
    return outputs;
  }
  const std::shared_ptr<WideBackward> node(new WideBackward, torch::autograd::deleteNode);
  for (size_t k = 0; k < all.size(); ++k)
    if (of[k]) node->add_next_edge(torch::autograd::impl::gradient_edge(all[k]));
  hang(outputs, node, made.differentiable.empty() ? nullptr : &made.differentiable);
  node->core = core;
  node->of = std::move(of);
  node->places = std::move(made.places);
  node->of.resize(node->places.size(), false);
  if (weights.empty()) all.insert(all.end(), made.weights.begin(), made.weights.end());
  node->inputs = inputs.size();
  node->model = made.gradients;
  const auto differentiable =
      std::ranges::count_if(outputs, [](const wide::Tensor& t) { return t.requires_grad(); });
  // Which of several outputs a loss uses is known only then, and the model may have been made for
  // others: all has to be there for another pass.
  bool for_it = node->model != nullptr;
  for (size_t k = 0; for_it && k < outputs.size(); ++k)
    for_it = !outputs[k].requires_grad() || node->model->takes(k);
  node->repeatable = made.repeatable && (!for_it || differentiable > 1);
  std::vector<bool> replaced(all.size(),
                             false);  // which tensors the caller replaces after this call
  for (const auto& [weight, value] : *changed) replaced[inputs.size() + weight] = true;
  for (size_t k = 0; k < all.size(); ++k) {
    const bool read = !node->model || node->model->reads()[node->places[k]];
    const bool copy = read && replaced[k];
    node->read.push_back(read);
    node->bound.push_back(read || node->repeatable
                              ? SavedVariable(copy ? all[k].detach().clone() : all[k], false)
                              : SavedVariable());
  }
  if (node->model) {
    for (size_t k = 0; k < outputs.size(); ++k)
      node->outputs.push_back(node->model->reads_output()[k] ? SavedVariable(outputs[k], true)
                                                             : SavedVariable());
    for (wide::Tensor& t : made.saved) node->saved.emplace_back(std::move(t), false);
  }
  return outputs;
}

}  // namespace nwide
