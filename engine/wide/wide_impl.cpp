#include "engine/wide/wide_impl.h"

#include <malloc.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/SavedTensorHooks.h>

#include <algorithm>
#include <iostream>

#include "engine/check/check_detail.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/model/portable.h"
#include "engine/widen/items.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

std::string signature(const Tensors& inputs) {
  std::string text;
  for (const Tensor& t : inputs)
    text += describe(t).shape_text() + " " + c10::str(t.device()) + ";";
  return text;
}

/// Whether `signature` is the same for both.
bool alike(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() && x.device() == y.device();
  });
}

/// Whether a number that the programs hold was changed since they were recorded.
bool numbers_changed(const Signature& s) {
  return std::ranges::any_of(
      s.numbers, [](const auto& number) { return number.first._version() != number.second; });
}

double tolerance_for(at::ScalarType dtype) { return Target{}.tolerance_for(dtype); }

/// By input, then by weight: its index among a network's tensors.
std::vector<size_t> places_of(const Network& network) {
  std::vector<size_t> places = network.indices(true);
  const std::vector<size_t> weights = network.indices(false);
  places.insert(places.end(), weights.begin(), weights.end());
  return places;
}

/// Whether both make the same calls with the same constants.
bool computes_the_same(const Program& a, const Program& b) {
  if (a.text() != b.text()) return false;
  for (size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    const Tensor &own = a.values[i].constant, &other = b.values[i].constant;
    if (own.defined() != other.defined()) return false;
    if (own.defined() && !detail::same_bits(own, other)) return false;
  }
  return true;
}

/// While it exists, compiling for `inputs` does not affect the caller's program: random states are
/// kept, the caller's saved-tensor hooks are off, and operators use the model's number of threads
/// (0: the caller's).
class Apart {
 public:
  Apart(int threads, const Tensors& inputs)
      : random_(inputs.empty() ? c10::Device(c10::kCPU) : inputs.front().device()),
        hooks_(at::SavedTensorDefaultHooks::get_tls_state()),
        threads_(at::get_num_threads()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
    if (threads > 0 && threads != threads_) at::set_num_threads(threads);
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
  ~Apart() {
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
    at::SavedTensorDefaultHooks::set_tls_state(hooks_);
  }

 private:
  const KeptRandomState random_;
  at::impl::SavedTensorDefaultHooksTLS hooks_;
  int threads_;
};

/// Returns memory of tuning's attempts to the system, which malloc would keep.
void give_back_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void check_values(const Tensor& t, const std::function<std::string()>& name) {
  if (!t.defined()) fail("[run] {}: got nothing, expected a tensor; try at::zeros", name());
  const bool strided = t.layout() == c10::kStrided;
  const bool held = !strided || !t.has_storage() || t.numel() == 0 || t.storage().nbytes() > 0;
  if (strided && !t.is_meta() && held) return;
  if (!strided)
    fail("[run] {}: got the layout {}, expected strided; try to_dense()", name(),
         c10::str(t.layout()));
  fail("[run] {}: got {}, expected a tensor with values; try one on the CPU", name(),
       t.is_meta() ? "a meta tensor" : "memory that was freed");
}

size_t WideModel::Impl::weight_at(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t k = 0; k < specs.size(); ++k) {
    if (specs[k].name == name) return k;
    names.push_back(specs[k].name);
  }
  fail("[set_weights] name: got {}, expected one of {}; try a name of state()", name,
       fmt::join(names, ", "));
}

void WideModel::Impl::say(const std::string& line) const {
  if (!options.verbose) return;
  if (options.log)
    options.log(line);
  else
    std::clog << line << '\n';
}

bool WideModel::Impl::shares_input(size_t k, const std::string& name) const {
  return options.shared_inputs.count(name) ||
         (options.input_names.empty() && options.shared_inputs.count(fmt::format("x{}", k)));
}

std::string WideModel::Impl::input_name(size_t k) const {
  return k < options.input_names.size() ? options.input_names[k] : fmt::format("x{}", k);
}

Mode WideModel::Impl::mode(c10::Device device) const {
  std::string note;
  const Mode mode = mode_on(device, options.mode.value_or(Mode::reduce_overhead), &note);
  if (options.mode && !note.empty()) say("note: " + note);
  return mode;
}

Ensemble WideModel::Impl::ensemble(const Network& network, const Tensors& inputs) const {
  Ensemble e;
  e.n = n;
  e.tensors.resize(network.tensors.size());
  e.shared.assign(network.tensors.size(), false);
  size_t input = 0, weight = 0;
  for (size_t i = 0; i < network.tensors.size(); ++i) {
    const bool is_input = network.tensors[i].role == Role::input;
    e.tensors[i] = is_input ? inputs.at(input) : weights.at(weight);
    e.shared[i] = is_input ? shares_input(input, network.tensors[i].name) : shared.at(weight);
    is_input ? ++input : ++weight;
  }
  return e;
}

CompileOptions WideModel::Impl::compile_options(c10::Device device) const {
  CompileOptions o;
  o.mode = mode(device);
  o.threads = options.threads;
  o.ranges = options.ranges;
  o.tune = options.tune;
  o.autotune_s = options.autotune_s;
  o.passes_off = options.passes_off;
  o.verify = options.verify;
  o.keep_text = options.verbose;
  o.widen.force = options.strategies;
  o.widen.strict = options.strict;
  return o;
}

Signature& WideModel::Impl::known(const Tensors& inputs) {
  if (!compiled.empty() && inputs.size() != compiled.front().inputs.size())
    fail("[run] inputs: got {}, expected {}; try one tensor for each input of forward",
         inputs.size(), compiled.front().inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    check_values(inputs[k], [&] { return "input " + input_name(k); });
  std::erase_if(compiled, numbers_changed);
  if (!compiled.empty() && alike(inputs, compiled.front().inputs)) return compiled.front();
  const std::string key = signature(inputs);
  for (auto it = compiled.begin(); it != compiled.end(); ++it)
    if (it->key == key) {
      compiled.splice(compiled.begin(), compiled, it);
      return compiled.front();
    }
  const Apart apart(options.threads, inputs);
  Signature made = make(key, inputs);
  compiled.push_front(std::move(made));
  while (compiled.size() > std::max<size_t>(options.signatures, 1)) compiled.pop_back();
  return compiled.front();
}

Signature& WideModel::Impl::at(const Tensors& inputs) {
  Signature& s = known(inputs);
  if (s.model) return bring_up_to_date(s);
  const Apart apart(options.threads, inputs);
  try {
    compile_model(s);
    if (options.validate) check_now(s);
  } catch (...) {
    compiled.pop_front();
    throw;
  }
  return s;
}

Signature WideModel::Impl::make(const std::string& key, const Tensors& inputs) {
  Signature s;
  s.key = key;
  for (const Tensor& t : inputs) s.inputs.push_back(t.detach());
  std::vector<TensorSpec> sizes;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::string name = input_name(k);
    const bool one = shares_input(k, name);
    if (!one && (inputs[k].dim() == 0 || inputs[k].size(0) != n))
      fail("[run] input {}: got {}, expected [{}, ...] for {} models; try shared_inputs", name,
           describe(inputs[k]).shape_text(), n, n);
    const at::ScalarType type = inputs[k].scalar_type();
    sizes.push_back({name, Role::input, inputs[k].sizes().slice(one ? 0 : 1).vec(),
                     at::isFloatingType(type) ? at::kFloat : type, Fill::normal, 1.0});
  }
  s.network = source(sizes);
  Ensemble e = ensemble(s.network, inputs);
  s.casts = CastState::current();
  s.single = record_single(s.network, e);
  s.network.training = s.network.training || !s.single.updates.empty();
  for (const Value& v : s.single.values)
    if (v.role == Role::constant && v.numel() == 1 && !v.constant.is_inference())
      s.numbers.emplace_back(v.constant, v.constant._version());
  for (const Node& node : s.single.nodes) s.network.random |= node.is_random();
  if (!primitive.empty()) check_primitive(s.single);
  e = own_state(s.network, s.single, e);
  for (const Update& u : s.single.updates) s.changed.push_back(s.single.bound_at(u.target));
  for (size_t i = 0; i < s.network.tensors.size(); ++i)
    s.live.push_back(s.network.tensors[i].role != Role::input &&
                     (!options.frozen || std::ranges::find(s.changed, i) != s.changed.end()));
  take(s, e);
  return s;
}

void WideModel::Impl::expect_alike(const Source& last_model) {
  const Signature& s = compiled.front();
  const Apart apart(options.threads, s.inputs);
  const CastStateGuard casts(s.casts);
  std::vector<TensorSpec> inputs;
  for (const size_t i : s.network.indices(true)) inputs.push_back(s.network.tensors[i]);
  const Network network = last_model(inputs);
  if (!computes_the_same(s.single, record_single(network, ensemble(network, s.inputs))))
    fail(
        "[compile] model {}: got another computation than model 0's, expected one architecture; "
        "try to compile each apart",
        n - 1);
}

const Signature* WideModel::Impl::like(const Signature& s, bool gradients) const {
  constexpr int64_t kFar = 4;  // ratio of the numbers of elements
  const auto numbers = [](const Signature& some) {
    int64_t sum = 1;
    for (const Tensor& t : some.inputs) sum += t.numel();
    return sum;
  };
  const auto same = [](const Node& a, const Node& b) {
    return a.op.schema().operator_name() == b.op.schema().operator_name();
  };
  for (const Signature& other : compiled) {
    if (&other == &s || (gradients ? other.gradients.empty() : !other.model)) continue;
    if (numbers(s) > kFar * numbers(other) || numbers(other) > kFar * numbers(s)) continue;
    if (std::equal(s.single.nodes.begin(), s.single.nodes.end(), other.single.nodes.begin(),
                   other.single.nodes.end(), same))
      return &other;
  }
  return nullptr;
}

void WideModel::Impl::compile_model(Signature& s) {
  const CastStateGuard casts(s.casts);
  auto [network, single] = with_live_inputs(s);
  const Ensemble e = ensemble(s.network, s.inputs);
  CompileOptions o = compile_options(e.device());
  if (const Signature* other = like(s, false)) o.like = other->model->size_choices();
  s.model = compile(network, e, o, std::move(single));
  give_back_memory();
  ++programs_compiled;
  s.weights = version;
  report(s);
}

void WideModel::Impl::take(const Signature& s, const Ensemble& e) {
  size_t weight = 0;
  for (size_t i = 0; i < s.network.tensors.size(); ++i) {
    if (s.network.tensors[i].role == Role::input) continue;
    weights[weight] = e.tensors[i];
    shared[weight++] = e.shared[i];
  }
}

std::pair<Network, Program> WideModel::Impl::with_live_inputs(const Signature& s) {
  // Weights that come with every call become inputs, so that nothing is precomputed from them.
  std::pair<Network, Program> all{s.network, s.single};
  for (size_t i = 0; i < s.live.size(); ++i)
    if (s.live[i]) {
      all.first.tensors[i].role = Role::input;
      all.second.value(all.second.bound[i]).role = Role::input;
    }
  return all;
}

Signature& WideModel::Impl::bring_up_to_date(Signature& s) {
  if (s.weights == version) return s;
  Tensors now;
  size_t weight = 0;
  for (size_t i = 0; i < s.network.tensors.size(); ++i) {
    if (s.network.tensors[i].role == Role::input) continue;
    if (!s.live[i]) now.push_back(weights[weight]);
    ++weight;
  }
  s.model->set_weights(now);
  s.weights = version;
  return s;
}

Tensors WideModel::Impl::arguments(const Signature& s, const Tensors& inputs) const {
  Tensors all;
  size_t input = 0, weight = 0;
  for (size_t i = 0; i < s.network.tensors.size(); ++i) {
    if (s.network.tensors[i].role == Role::input) {
      all.push_back(inputs[input++]);
      continue;
    }
    if (s.live[i]) all.push_back(weights[weight]);
    ++weight;
  }
  return all;
}

bool WideModel::Impl::reads(const Signature& s, size_t weight) const {
  const Program& program = s.for_gradients ? *s.for_gradients : s.single;
  return program.uses()[program.bound[s.network.indices(false)[weight]]] > 0;
}

Tensors WideModel::Impl::run(const Tensors& inputs,
                             std::vector<std::pair<size_t, Tensor>>* changed) {
  const at::NoGradGuard no_grad;
  Signature& s = at(inputs);
  Tensors results = s.model->run(arguments(s, inputs));
  const size_t outputs = s.single.outputs.size();
  if (!s.changed.empty())
    keep_updates(s, s.single,
                 Tensors(results.begin() + static_cast<std::ptrdiff_t>(outputs), results.end()),
                 changed);
  results.resize(outputs);
  return results;
}

void WideModel::Impl::keep_updates(const Signature& s, const Program& single,
                                   const Tensors& updates,
                                   std::vector<std::pair<size_t, Tensor>>* changed) {
  for (size_t k = 0; k < updates.size(); ++k) {
    const size_t at = single.bound_at(single.updates[k].target);
    if (s.network.tensors[at].role == Role::input) continue;
    size_t weight = 0;
    for (size_t i = 0; i < at; ++i) weight += s.network.tensors[i].role != Role::input;
    weights[weight] = updates[k];
    if (changed) changed->emplace_back(weight, weights[weight]);
  }
}

void WideModel::Impl::record_for_gradients(Signature& s, const Ensemble& e) {
  if (s.for_gradients) return;
  s.for_gradients = record_single(s.network, e, /*grad=*/true);
}

bool WideModel::Impl::branches_on_gradients(Signature& s) {
  if (s.branches) return *s.branches;
  bool branches = false;
  try {
    const Apart apart(options.threads, s.inputs);
    const CastStateGuard casts(s.casts);
    record_for_gradients(s, ensemble(s.network, s.inputs));
    branches = !computes_the_same(*s.for_gradients, s.single);
  } catch (const std::exception&) {  // a backward pass says why there are no gradients
  }
  if (s.for_gradients)
    for (const Update& u : s.for_gradients->updates)
      if (std::ranges::find(s.changed, s.for_gradients->bound_at(u.target)) == s.changed.end())
        fail(
            "[forward] {}: got a change in grad mode alone, expected the same in both modes; try a "
            "branch on self.training",
            s.for_gradients->value(u.target).name);
  s.branches = branches;
  return branches;
}

std::vector<bool> WideModel::Impl::differentiable(Signature& s, const std::vector<bool>& of) const {
  if (!s.for_gradients) return {};
  if (s.differentiable.first != of) {
    const std::vector<size_t> places = places_of(s.network);
    std::vector<size_t> wanted;
    for (size_t k = 0; k < of.size(); ++k)
      if (of[k]) wanted.push_back(places[k]);
    std::vector<bool> any;
    for (const std::vector<bool>& own : dependences(*s.for_gradients, wanted))
      any.push_back(std::ranges::find(own, true) != own.end());
    s.differentiable = {of, any};
  }
  return s.differentiable.second;
}

std::shared_ptr<GradientModel> WideModel::Impl::gradients_of(Signature& s,
                                                             const std::vector<bool>& of,
                                                             const std::vector<bool>& outputs) {
  const bool all = std::ranges::find(outputs, false) == outputs.end();
  const auto key = std::make_pair(of, all ? std::vector<bool>() : outputs);
  if (const auto known = s.gradients.find(key); known != s.gradients.end()) return known->second;
  const Apart apart(options.threads, s.inputs);
  const CastStateGuard casts(s.casts);
  Ensemble e = ensemble(s.network, s.inputs);
  const std::vector<size_t> places = places_of(s.network);
  std::vector<size_t> wanted;
  for (size_t k = 0; k < of.size(); ++k)
    if (of[k]) wanted.push_back(places[k]);
  record_for_gradients(s, e);
  CompileOptions o = compile_options(e.device());
  if (const Signature* other = like(s, true)) o.like = other->gradients.begin()->second->choices;
  ++programs_compiled;
  const std::shared_ptr<GradientModel> made =
      compile_gradients(s.network, e, wanted, *s.for_gradients, o, key.second);
  s.gradients[key] = made;
  give_back_memory();
  return made;
}

std::shared_ptr<GradientModel> WideModel::Impl::gradients(const Tensors& inputs,
                                                          const std::vector<bool>& of,
                                                          const std::vector<bool>& outputs) {
  const at::NoGradGuard no_grad;
  Signature& s = known(inputs);
  hold(s, inputs);
  return gradients_of(s, of, outputs);
}

void WideModel::Impl::hold(Signature& s, const Tensors& inputs) {
  for (size_t k = 0; k < inputs.size(); ++k) s.inputs[k] = inputs[k].detach();
  if (s.model) s.model->hold(arguments(s, s.inputs));
}

Differentiable WideModel::Impl::run_for_gradients(const Tensors& inputs, std::vector<bool> of,
                                                  const std::vector<bool>& outputs, bool at_once) {
  const at::NoGradGuard no_grad;
  Signature& s = known(inputs);
  hold(s, inputs);
  Differentiable made;
  made.places = places_of(s.network);
  made.weights = weights;
  of.resize(made.places.size(), false);
  made.repeatable = !branches_on_gradients(s) && !s.network.random && s.changed.empty();
  if (!at_once && made.repeatable) {
    made.differentiable = differentiable(s, of);
    made.outputs = run(inputs, &made.changed);
    return made;
  }
  try {
    made.gradients = gradients_of(s, of, made.repeatable ? outputs : std::vector<bool>());
  } catch (const std::exception& e) {
    made.refusal = first_line(e);
    made.outputs = run(inputs, &made.changed);
    return made;
  }
  Tensors bound(made.places.size());
  for (size_t k = 0; k < made.places.size(); ++k)
    bound[made.places[k]] = k < inputs.size() ? inputs[k] : weights[k - inputs.size()];
  GradientModel::Forward forward = made.gradients->forward(bound);
  made.outputs = std::move(forward.outputs);
  made.saved = std::move(forward.saved);
  made.differentiable = made.gradients->differentiable();
  for (size_t k = 0; k < s.for_gradients->updates.size(); ++k) {
    if (!made.gradients->attached()[k]) continue;
    const size_t at = s.for_gradients->bound_at(s.for_gradients->updates[k].target);
    const auto place = std::ranges::find(made.places, at) - made.places.begin();
    if (static_cast<size_t>(place) >= inputs.size())
      made.attached.push_back(static_cast<size_t>(place) - inputs.size());
  }
  keep_updates(s, *s.for_gradients, forward.updates, &made.changed);
  return made;
}

Correctness WideModel::Impl::check_against_double(Signature& s, double rtol) {
  const CastStateGuard casts(s.casts);
  Ensemble e = ensemble(s.network, s.inputs);
  const KeptRandomState random(e.device());  // the check seeds
  // Cloned, as the check writes to tensors that are not shared, such as the caller's inputs.
  for (size_t k = 0; k < e.tensors.size(); ++k)
    if (!e.shared[k]) e.tensors[k] = e.tensors[k].clone();
  double tolerance = rtol > 0 ? rtol : 0;
  if (tolerance == 0)
    for (const Tensor& t : e.tensors)
      if (at::isFloatingType(t.scalar_type()))
        tolerance = std::max(tolerance, tolerance_for(t.scalar_type()));
  const auto [network, single] = with_live_inputs(s);
  const Correctness c = check(network, single, e, as_function(*s.model, network), tolerance);
  ++version;  // the check set other weights
  bring_up_to_date(s);
  return c;
}

void WideModel::Impl::check_now(Signature& s) {
  const Correctness c = check_against_double(s, options.rtol);
  say(fmt::format("validated: relative error {:.2g}, separate models' own {:.2g}", c.max_rel,
                  c.eager_max_rel));
  if (!c.pass)
    throw Error(fmt::format("[{}] correctness: got {}, expected the answers of the separate "
                            "models; try strategy(\"*\", \"vmap\")",
                            s.network.name, c.failure),
                4);
}

void WideModel::Impl::check_primitive(const Program& single) const {
  WidenOptions widen;
  widen.force = options.strategies;
  // Calls that are forced to vmap or per_model would not be claimed.
  widen.force.erase(primitive);
  for (const Item& item : find_items(single, widen)) {
    const bool view = !item.rule && single.nodes[item.begin].is_view();  // of a weight, mostly
    if (!view && (!item.rule || item.rule->name != primitive))
      fail("[{}] modules: got {}{}, expected this primitive alone; try wide::compile", primitive,
           item.name, item.rule ? " of " + item.rule->name : "");
  }
}

void WideModel::Impl::report(const Signature& s) const {
  if (!options.verbose) return;
  say(fmt::format("[{}] compiled for {} models, inputs {}", s.network.name, n, s.key));
  for (const PassRecord& pass : s.model->passes())
    say(fmt::format("pass {}: {} ({:.2f} ms, {} -> {} nodes)", pass.name, pass.summary,
                    pass.milliseconds, pass.nodes_before, pass.nodes_after));
  for (const CoverageItem& item : s.model->coverage().items)
    say(fmt::format("{} {}: {}{}{}", item.module, item.op, item.primitive,
                    item.primitive.empty() ? "" : "/",
                    item.strategy + (item.reason.empty() ? "" : ", " + item.reason)));
  say(s.model->program().text());
  for (const std::string& line : s.model->differences()) say(line);
}

Signature& WideModel::Impl::last() {
  if (compiled.empty())
    fail("[{}] program: got no call yet, expected one; try run or a sample", "wide");
  const at::NoGradGuard no_grad;
  Signature& s = compiled.front();
  for (size_t k = 0; k < s.inputs.size(); ++k)  // its caller may have freed them
    check_values(s.inputs[k], [&] { return "input " + input_name(k); });
  if (!s.model) compile_model(s);
  return s;
}

}  // namespace wide
