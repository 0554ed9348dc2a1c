#include "engine/widen/widen.h"

#include <ATen/ATen.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/passes/pass.h"
#include "engine/program/written_over.h"
#include "engine/record/process_switch.h"
#include "engine/record/record.h"
#include "engine/record/recorded_constant.h"
#include "engine/widen/items.h"

namespace wide {

namespace ft = at::functorch;

const char* to_string(Way way) {
  constexpr const char* kNames[] = {"strategy", "vmap", "shared", "per_model"};
  return kNames[static_cast<size_t>(way)];
}

std::map<Way, int64_t> Coverage::counts() const {
  std::map<Way, int64_t> out{
      {Way::strategy, 0}, {Way::vmap, 0}, {Way::shared, 0}, {Way::per_model, 0}};
  for (const CoverageItem& item : items) out[item.way] += item.nodes;
  return out;
}

namespace {

struct VmapLayer {
  int64_t level;
  explicit VmapLayer(int64_t n)
      : level(ft::initAndPushDynamicLayer(ft::TransformType::Vmap, c10::SymInt(n),
                                          ft::RandomnessType::Different)) {}
  ~VmapLayer() { ft::popDynamicLayerAndDeleteMetadata(); }
};

/// One line on why vmap refused a call that works for one model.
std::string refusal_of_vmap(const std::string& op, const c10::Error& error) {
  const std::string message = error.what_without_backtrace();
  for (const char* phrase :
       {"hit the vmap fallback which is currently disabled", "Batching rule not implemented for",
        "does not yet have a batching rule",
        "This boxed batching rule does not currently support ops that return non-tensor values"})
    if (message.find(phrase) != std::string::npos) return op + " has no batching rule";
  return fmt::format("{}: {}", op, message.substr(0, message.find('\n')));
}

/// Views that work on one model's tensor may need a copy on the wide one, whose strides differ, so
/// they are called as reshape. Rows: the recorded operator and its replacement.
struct Relaxed {
  const char* op;
  const char* instead;
  size_t arguments;  // how many of the leading arguments it takes
};
constexpr Relaxed kRelaxed[] = {
    {"aten::view", "aten::reshape", 2},
    {"aten::_unsafe_view", "aten::reshape", 2},
    {"aten::_reshape_alias", "aten::reshape", 2},
};

/// Calls the operator of `node`, or the one that replaces it (above).
void call_relaxed(const Node& node, Stack& stack) {
  for (const Relaxed& row : kRelaxed)
    if (node.name() == row.op) {
      stack.resize(row.arguments);
      c10::Dispatcher::singleton().findSchemaOrThrow(row.instead, "").callBoxed(&stack);
      return;
    }
  node.op.callBoxed(&stack);
}

class Evaluator {
 public:
  Evaluator(const Program& program, int64_t n, const WidenOptions& options, Coverage* coverage)
      : program_(program),
        n_(n),
        options_(options),
        coverage_(coverage),
        env_(program.values.size()),
        uses_(program.uses()),
        left_(uses_) {}

  std::vector<WideValue> run(const std::vector<WideValue>& bound) {
    WIDE_ASSERT(bound.size() == program_.bound.size(), "{} values for {} bound", bound.size(),
                program_.bound.size());
    for (size_t i = 0; i < bound.size(); ++i) at(program_.bound[i]) = bound[i];
    for (ValueId id = 0; id < env_.size(); ++id)
      if (program_.value(id).role == Role::constant)
        at(id) = {recorded_constant(program_.value(id).constant), false};
    const VmapFallbackOff no_fallback;
    const bool grad = at::GradMode::is_enabled();
    items_ = find_items(program_, options_);
    for (size_t k = 0; k < items_.size(); ++k) {
      const Item& item = items_[k];
      const at::AutoGradMode mode(grad && program_.nodes[item.begin].grad);
      OriginScope origin({program_.nodes[item.begin].origin.module,
                          item.rule ? item.rule->name : "", "", static_cast<int32_t>(item.begin)});
      const Item* last = &item;
      if (const Item* second = foldable(k); second && try_fold(item, *second)) {
        last = second;
        ++k;
      } else {
        compute(item);
      }
      if (grad && item.count() == 1) keep_history(program_.nodes[item.begin]);
      if (options_.no_history) forget_history(*last);
      release(item);
    }
    std::vector<WideValue> out;
    for (const ValueId id : program_.results()) out.push_back(at(id));
    return out;
  }

 private:
  WideValue& at(ValueId id) { return env_[id]; }

  /// Keeps a result in the dtype that one model's call gives it. Norms of bfloat16 with float32
  /// weights, computed as products and sums, would be promoted to float32.
  void keep(ValueId id, const Tensor& t, bool wide) {
    const at::ScalarType dtype = program_.value(id).dtype;
    at(id) = {t.defined() && t.scalar_type() != dtype ? t.to(dtype) : t, wide};
  }

  /// An in-place change unseen by autograd keeps the history of the changed tensor.
  void keep_history(const Node& node) {
    if (!is_untracked_write(node.op, node.grad)) return;
    const ValueId self = node.arguments[0].values[0];
    if (!at(self).tensor.requires_grad()) return;
    WideValue& written = at(node.results[0].values[0]);
    written.tensor = written_over(written.wide ? widened(self) : at(self).tensor, written.tensor);
  }

  void forget_history(const Item& item) {
    item.for_each_node([&](size_t i) {
      for_each_value(program_.nodes[i].results, [&](ValueId id) {
        Tensor& t = at(id).tensor;
        if (t.defined() && t.requires_grad()) t = t.detach().requires_grad_();
      });
    });
  }

  std::string forced(const Rule& rule) const { return forced_strategy(options_, rule); }

  WideCall wide_call(const Item& item) {
    WideCall call;
    call.n = n_;
    for (ValueId id : item.claimed.inputs) {
      if (id == kNone) {
        call.inputs.emplace_back();
        call.shared.push_back(false);
        continue;
      }
      call.shared.push_back(!at(id).wide);
      call.inputs.push_back(widened(id));
    }
    return call;
  }

  bool any_wide(const Item& item) {
    bool wide = false;
    const auto look = [&](ValueId id) { wide |= id != kNone && at(id).wide; };
    if (item.group.empty()) {
      for_each_value(*item.arguments, look);
    } else {
      for (ValueId id : item.claimed.inputs) look(id);
    }
    return wide;
  }

  bool random(const Item& item) const {
    bool random = false;
    item.for_each_node([&](size_t i) { random |= program_.nodes[i].is_random(); });
    return random;
  }

  static bool shares_parameters(const Rule& rule, const WideCall& call) {
    for (size_t i = 0; i < call.inputs.size() && i < rule.parameter_inputs.size(); ++i)
      if (rule.parameter_inputs[i] && call.shared[i] && call.inputs[i].defined()) return true;
    return false;
  }

  /// The next item when a registered fold joins it to item k.
  const Item* foldable(size_t k) {
    if (!options_.fold || k + 1 >= items_.size() || !items_[k].rule) return nullptr;
    const Item &first = items_[k], &second = items_[k + 1];
    if (!second.rule || second.claimed.inputs.empty() || first.results->empty()) return nullptr;
    const auto& made = (*first.results)[0].values;
    if (made.size() != 1 || second.claimed.inputs[0] != made[0]) return nullptr;
    if (uses_[made[0]] != reads(second, made[0])) return nullptr;
    return &second;
  }

  int32_t reads(const Item& item, ValueId value) const {
    int32_t count = 0;
    item.for_each_node([&](size_t i) {
      for_each_value(program_.nodes[i].arguments, [&](ValueId id) { count += id == value; });
    });
    return count;
  }

  bool try_fold(const Item& first, const Item& second) {
    for (const Fold& fold : folds()) {
      if (fold.first != first.rule->name || fold.second != second.rule->name) continue;
      if (!any_wide(first) || forced(*first.rule) == "per_model" ||
          forced(*second.rule) == "per_model")
        continue;
      const WideCall a = wide_call(first);
      WideCall b;  // its first input, the first call's result, is not computed
      b.n = n_;
      for (size_t i = 0; i < second.claimed.inputs.size(); ++i) {
        const ValueId id = second.claimed.inputs[i];
        b.inputs.push_back(i == 0 || id == kNone ? Tensor() : widened(id));
        b.shared.push_back(i > 0 && id != kNone && !at(id).wide);
      }
      if (shares_parameters(*first.rule, a) || shares_parameters(*second.rule, b)) continue;
      auto inputs = fold.rewrite(first.claimed.config, a, second.claimed.config, b);
      if (!inputs) continue;
      WideCall folded = a;
      folded.inputs = *inputs;
      folded.shared.resize(folded.inputs.size(), false);
      std::string why;
      if (run_best(first, folded, &second, &why)) return true;
    }
    return false;
  }

  Tensor widened(ValueId id) {
    const WideValue& v = at(id);
    return v.wide ? v.tensor : expanded(n_, v.tensor);
  }

  void compute(const Item& item) {
    if (!any_wide(item) && !random(item)) {
      compute_shared(item);
      return;
    }
    std::string why;
    if (item.rule) {
      const WideCall call = wide_call(item);
      if (forced(*item.rule) == "per_model") {
        if (item.group.empty()) {
          compute_per_model(item, "asked for");
        } else {
          for (size_t i : item.group) compute_per_model(plain_item(program_, i), "asked for");
        }
        return;
      }
      if (run_best(item, call, nullptr, &why)) return;
    }
    item.for_each_node([&](size_t i) { compute_node(i, why); });
  }

  /// The strategy for a call among those not `refused` (name to reason), or the reason for none.
  std::pair<const Strategy*, std::string> choose(
      const Item& item, const WideCall& call, const std::map<std::string, std::string>& refused) {
    const Rule& rule = *item.rule;
    const std::any& config = item.claimed.config;
    const std::string wanted = forced(rule);
    std::vector<std::string> applicable;
    std::string why;
    for (const Strategy& s : rule.strategies) {
      if (const auto no = refused.find(s.name); no != refused.end()) {
        if (why.empty() || s.name == wanted) why = no->second;
        if (s.name == wanted && options_.strict) throw Unsupported(no->second);
        continue;
      }
      if (shares_parameters(rule, call)) {  // vmap handles parameters that all models share
        if (s.name == wanted && options_.strict)
          throw Unsupported(reason(rule.name + "/" + s.name, "parameters", "one for all models",
                                   "one for each model", "vmap"));
        continue;
      }
      if (auto no = rule.applies(s, config, call)) {
        if (why.empty() || s.name == wanted) why = *no;
        if (s.name == wanted && options_.strict) throw Unsupported(*no);
        continue;
      }
      if (s.name == wanted) return {&s, ""};
      if (s.only_when_asked || options_.never.count(rule.name + "/" + s.name)) continue;
      applicable.push_back(s.name);
    }
    if (!wanted.empty() && options_.strict && options_.force.count(rule.name))
      throw Unsupported(fmt::format("[{}] strategy: got {}, expected one of {}; try `list`",
                                    rule.name, wanted, fmt::join(applicable, ", ")));
    if (applicable.empty()) return {nullptr, why};
    const ClaimedCall claimed{static_cast<int32_t>(item.first()), rule, config, call, applicable};
    const std::string name = options_.choose ? options_.choose(claimed) : applicable.front();
    return {rule.strategy(name), why};
  }

  /// Computes a claimed call by its chosen strategy, or by the next one if that used an operator
  /// which `only` forbids. False, with the reason, if none is left.
  bool run_best(const Item& item, const WideCall& call, const Item* folded, std::string* why) {
    const Rule& rule = *item.rule;
    for (std::map<std::string, std::string> refused;;) {
      const auto [chosen, no] = choose(item, call, refused);
      *why = no;
      if (!chosen) return false;
      const size_t before = recorded_nodes();
      std::string other;
      try {
        run_strategy(item, *chosen, call, folded);
        if (options_.only) other = first_recorded(before, options_.only->other);
      } catch (const Unsupported& e) {
        if (!options_.only) throw;
        other = e.what();  // the operator refuses before anything is recorded
      }
      if (other.empty()) {
        note(item, Way::strategy, chosen->name, *why);
        if (folded) note(*folded, Way::strategy, "folded into " + rule.name, "");
        return true;
      }
      roll_back(before);
      refused[chosen->name] = reason(rule.name + "/" + chosen->name, "operator", other,
                                     options_.only->which, "another strategy");
    }
  }

  void run_strategy(const Item& item, const Strategy& s, const WideCall& call, const Item* folded) {
    OriginScope origin({program_.nodes[item.begin].origin.module, item.rule->name, s.name,
                        static_cast<int32_t>(item.begin)});
    const Tensors made = s.run(item.claimed.config, call);
    const std::vector<Argument>& results = folded ? *folded->results : *item.results;
    const std::vector<int>& map = folded ? folded->claimed.results : item.claimed.results;
    for (size_t i = 0; i < results.size(); ++i) {
      const int from = i < map.size() ? map[i] : static_cast<int>(i);
      if (from < 0 || static_cast<size_t>(from) >= made.size()) continue;
      for (ValueId id : results[i].values)
        if (id != kNone) keep(id, made[static_cast<size_t>(from)], true);
    }
  }

  void compute_shared(const Item& item) {
    OriginScope origin({program_.nodes[item.begin].origin.module, item.rule ? item.rule->name : "",
                        "shared", static_cast<int32_t>(item.begin)});
    item.for_each_node([&](size_t i) {
      const Node& node = program_.nodes[i];
      Stack stack = make_stack(node.arguments, [&](ValueId id) { return at(id).tensor; });
      call_operator(node.op, stack);
      take_results(node.results, stack, [&](ValueId id, const Tensor& t) { at(id) = {t, false}; });
    });
    note(item, Way::shared, "shared", "");
  }

  void compute_node(size_t i, const std::string& why_not_strategy) {
    const Node& node = program_.nodes[i];
    Item item = plain_item(program_, i);
    item.name = node.name();
    if (!any_wide(item) && !node.is_random()) {
      compute_shared(item);
      return;
    }
    const std::string force = options_.force.count("*") ? options_.force.at("*") : "";
    if (force == "per_model") {
      compute_per_model(item, "asked for");
      return;
    }
    const size_t before = recorded_nodes();
    std::string no_rule;
    try {
      OriginScope origin({node.origin.module, "", "vmap", static_cast<int32_t>(i)});
      VmapLayer layer(n_);
      Stack stack = make_stack(node.arguments, [&](ValueId id) {
        const WideValue& v = at(id);
        return v.wide ? ft::addBatchDim(v.tensor, 0, layer.level) : v.tensor;
      });
      call_relaxed(node, stack);
      take_results(node.results, stack, [&](ValueId id, const Tensor& t) {
        auto* batched = ft::maybeGetBatchedImpl(t);
        if (batched == nullptr || batched->level() != layer.level) {
          keep(id, t, false);
        } else {
          keep(id, batched->value().movedim(batched->bdim(), 0), true);
        }
      });
    } catch (const c10::Error& e) {
      no_rule = refusal_of_vmap(node.name(), e);
    }
    if (no_rule.empty()) {
      note(item, Way::vmap, "vmap", why_not_strategy);
      return;
    }
    roll_back(before);
    compute_per_model(item, no_rule);
  }

  void compute_per_model(const Item& item, const std::string& why) {
    OriginScope origin({program_.nodes[item.begin].origin.module, item.rule ? item.rule->name : "",
                        "per_model", static_cast<int32_t>(item.begin)});
    // oneDNN's LSTM layer cannot be differentiated for only one of its results.
    std::optional<OneDnnOff> one_dnn_off;
    if (at::GradMode::is_enabled()) one_dnn_off.emplace();
    std::vector<Stack> each;
    for (int64_t i = 0; i < n_; ++i) {
      Stack stack = make_stack(*item.arguments, [&](ValueId id) {
        const WideValue& v = at(id);
        return v.wide ? v.tensor.select(0, i) : v.tensor;
      });
      call_operator(item.op, stack);
      each.push_back(std::move(stack));
    }
    for (size_t r = 0; r < item.results->size(); ++r) {
      const Argument& result = (*item.results)[r];
      for (size_t k = 0; k < result.values.size(); ++k) {
        if (result.values[k] == kNone) continue;
        Tensors parts;
        for (const Stack& s : each)
          parts.push_back(result.kind == Argument::Kind::value ? s[r].toTensor()
                                                               : s[r].toTensorList().get(k));
        at(result.values[k]) = {at::stack(parts), true};
      }
    }
    note(item, Way::per_model, "per_model", why);
  }

  void note(const Item& item, Way way, const std::string& strategy, const std::string& why) {
    if (!coverage_) return;
    coverage_->items.push_back({static_cast<int32_t>(item.first()),
                                static_cast<int32_t>(item.count()), item.name,
                                item.rule ? item.rule->name : "", strategy, way, why,
                                program_.nodes[item.begin].origin.module});
  }

  /// Frees values after their last use.
  void release(const Item& item) {
    item.for_each_node([&](size_t i) {
      for_each_value(program_.nodes[i].arguments, [&](ValueId id) {
        if (--left_[id] == 0) at(id).tensor.reset();
      });
    });
  }

  const Program& program_;
  int64_t n_;
  const WidenOptions& options_;
  Coverage* coverage_;
  ByValue<WideValue> env_;
  ByValue<int32_t> uses_, left_;
  std::vector<Item> items_;
};

}  // namespace

std::vector<WideValue> evaluate_wide(const Program& program, int64_t n,
                                     const std::vector<WideValue>& bound,
                                     const WidenOptions& options, Coverage* coverage) {
  return Evaluator(program, n, options, coverage).run(bound);
}

WideProgram widen(const Program& program, int64_t n, const std::vector<WideValue>& bound,
                  const WidenOptions& options, const EvaluateWide& evaluate) {
  std::vector<Binding> bindings;
  for (size_t i = 0; i < bound.size(); ++i) {
    const Value& v = program.value(program.bound[i]);
    bindings.push_back({v.name, v.role, bound[i].tensor, bound[i].wide});
  }
  WideProgram result;
  Coverage& coverage = result.coverage;
  result.program = record(
      bindings,
      [&](const Tensors& tensors) {
        std::vector<WideValue> values;
        for (size_t i = 0; i < tensors.size(); ++i) values.push_back({tensors[i], bound[i].wide});
        Tensors out;
        for (const WideValue& v : evaluate(program, n, values, options, &coverage))
          out.push_back(v.wide ? v.tensor : expanded(n, v.tensor));
        return out;
      },
      n);
  // The recording has updates of Program(1) as extra outputs: restore their targets.
  Program& wide_program = result.program;
  const size_t outputs = program.outputs.size();
  for (size_t k = 0; k < program.updates.size(); ++k)
    wide_program.updates.push_back({wide_program.bound[program.bound_at(program.updates[k].target)],
                                    wide_program.outputs[outputs + k]});
  wide_program.outputs.resize(outputs);
  return result;
}

[[maybe_unused]] const bool fold_registered = add_pass(
    {"fold", "joins two calls in a row where weights allow it, as batch norm into convolution",
     Stage::widening, 10});

int64_t estimate_bytes(const Program& program, int64_t n) { return n * program.peak_bytes(); }

}  // namespace wide
