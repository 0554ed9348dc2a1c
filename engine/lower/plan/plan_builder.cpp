#include "engine/lower/plan/plan_builder.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"

namespace wide {

namespace {

/// The operator's argument of this name on the stack, if it has one.
IValue* find_argument(const c10::OperatorHandle& op, Stack& stack, const std::string& name) {
  const std::optional<int> at = op.schema().argumentIndexWithName(name);
  return at ? &stack[static_cast<size_t>(*at)] : nullptr;
}

/// Whether any tensor has pending conjugation or negation.
bool reckons(const Tensors& tensors) {
  return std::ranges::any_of(
      tensors, [](const Tensor& t) { return t.defined() && (t.is_conj() || t.is_neg()); });
}

}  // namespace

PlanBuilder::PlanBuilder(Plan& plan, const Program& program,
                         const std::unordered_map<ValueId, Tensor>& prologue,
                         const PlanOptions& options)
    : plan_(plan),
      program_(program),
      prologue_(prologue),
      options_(options),
      main_(main_of(program)),
      uses_(program, main_) {}

void PlanBuilder::build() {
  place_results();
  make_arena();
  make_steps();
  make_copies();
}

Plan::Memory PlanBuilder::memory() {
  place_results();
  Plan::Memory memory;
  memory.kept_bytes = plan_.kept_bytes_;
  memory.arena_bytes = place(lifetimes_, lent_, placed_).bytes;
  std::vector<Lifetime> fresh;
  for (size_t p = 0; p < main_.size(); ++p) {
    if (forms_[p] || node(p).is_view() || absorbed_[p] != kNone) continue;
    for_each_value(node(p).results, [&](ValueId id) {
      if (value(id).strided)
        fresh.push_back({value(id).bytes(), p, std::max(p, uses_.last_node(id))});
    });
  }
  memory.fresh_bytes = place(fresh).bytes;
  return memory;
}

void PlanBuilder::place_results() {
  find_outside();
  choose_forms();
  absorb_epilogues();
  choose_outputs();
  find_lent();
  share_buffers();
}

void PlanBuilder::find_outside() {
  const size_t count = program_.values.size();
  made_at_.assign(count, -1);
  slots_.resize(count);
  for (size_t p = 0; p < main_.size(); ++p)
    for_each_value(node(p).results, [&](ValueId id) {
      made_at_[static_cast<size_t>(id)] = static_cast<int32_t>(p);
    });
  auto read = [&](ValueId id) {
    if (made_at_[static_cast<size_t>(id)] >= 0 || outside_index_.count(id)) return;
    if (value(id).role == Role::constant) {
      slot(id) = value(id).constant;
      return;
    }
    outside_index_.emplace(id, plan_.outside_.size());
    plan_.outside_.push_back(id);
    if (value(id).strided) {
      plan_.windows_.emplace_back(value(id));
      slot(id) = plan_.windows_.back().tensor();
    } else {
      plan_.windows_.emplace_back();
    }
  };
  for (size_t i : main_) for_each_value(program_.nodes[i].arguments, read);
  for (ValueId id : program_.results()) read(id);
  plan_.kept_.resize(plan_.outside_.size());
}

void PlanBuilder::choose_forms() {
  forms_.resize(main_.size());
  absorbed_.assign(main_.size(), kNone);
  epilogues_.resize(main_.size());
  if (!options_.arena) return;
  for (size_t p = 0; p < main_.size(); ++p) {
    const Node& node = program_.nodes[main_[p]];
    if (node.is_view() || node.op.schema().is_mutable()) continue;
    bool strided = true;
    c10::DeviceType device = c10::kCPU;
    for_each_value(node.results, [&](ValueId id) {
      strided = strided && value(id).strided && dense(value(id));
      device = value(id).device.type();
    });
    if (strided) forms_[p] = find_out_variant(program_, node, device);
  }
}

/// Merges the nodes that follow an operator into its epilogue as far as its kernel can do them, and
/// packs weights where that is faster.
void PlanBuilder::absorb_epilogues() {
  if (!options_.kernels) return;
  for (size_t p = 0; p < main_.size(); ++p) {
    const OperatorTraits& traits = operator_traits(node(p).op);
    if (traits.absorbs.empty() && !traits.pack) continue;
    Epilogue epilogue = epilogue_of(program_, main_, uses_, p, options_.apart);
    if (!forms_[p]) epilogue.pool = epilogue.last = {};  // only out-forms can pool
    if (traits.pack) {
      const auto call = packed(p, epilogue.text);
      if (!call) continue;
      packed_.emplace(p, call);
      forms_[p].reset();
    }
    epilogues_[p] = epilogue;
    epilogue.merge(program_, main_, p, uses_);
    for (const size_t reader : epilogue.readers()) forms_[reader].reset();
    // `made` becomes the reader's result, also through its views.
    const auto absorb = [&](const std::optional<size_t>& reader, ValueId made) {
      if (!reader) return;
      for_each_value(node(*reader).arguments, [&](ValueId id) {
        if (uses_.root(id) == made) absorbed_[*reader] = id;
      });
    };
    const ValueId made = node(p).results[0].values[0];
    absorb(epilogue.sum, made);
    absorb(epilogue.activation, made);
    if (!epilogue.pool) continue;
    const ValueId pooled = node(*epilogue.pool).results[0].values[0];
    absorbed_[*epilogue.pool] = pooled;
    made_at_[static_cast<size_t>(pooled)] = static_cast<int32_t>(p);
    absorb(epilogue.last, pooled);
  }
}

std::vector<ValueId> PlanBuilder::made_by(size_t p) const {
  std::vector<ValueId> made;
  const size_t last = epilogues_[p].pool.value_or(p);
  for_each_value(node(last).results, [&](ValueId id) { made.push_back(id); });
  return made;
}

/// The packed call of a node, if it is faster; its weight must come from the prologue and have no
/// other reader.
std::shared_ptr<const PackedCall> PlanBuilder::packed(size_t p, const std::string& activation) {
  const std::vector<Argument>& arguments = node(p).arguments;
  if (arguments[0].kind != Argument::Kind::value) return nullptr;
  const ValueId weight = arguments[1].values[0];
  const auto outside = outside_index_.find(weight);
  if (outside == outside_index_.end() || !prologue_.count(weight)) return nullptr;
  int readers = 0;
  for (size_t q = 0; q < main_.size(); ++q)
    for_each_value(node(q).arguments, [&](ValueId id) { readers += id == weight; });
  if (readers != 1 || value(weight).role != Role::intermediate) return nullptr;
  Tensor bias;
  if (arguments[2].kind == Argument::Kind::value) {
    const auto known = prologue_.find(arguments[2].values[0]);
    if (known == prologue_.end()) return nullptr;
    bias = known->second;
  }
  const Value& result = value(node(p).results[0].values[0]);
  const auto [choice, fresh] = options_.packing->try_emplace(main_[p]);
  if (fresh) {
    auto measured = operator_traits(node(p).op)
                        .pack({node(p), value(arguments[0].values[0]), result, prologue_.at(weight),
                               bias, activation, options_.serial});
    if (measured && measured->packed_ns < measured->plain_ns)
      choice->second = std::make_shared<const PackedCall>(std::move(*measured));
  }
  if (const auto& call = choice->second) {
    const std::string name = node(p).op.schema().operator_name().name;
    plan_.notes_.push_back(fmt::format("{} {} packed{}: {:.0f} us, plain {:.0f} us",
                                       name.substr(name.find("::") + 2), result.shape_text(),
                                       activation.empty() ? "" : " with " + activation,
                                       call->packed_ns / 1e3, call->plain_ns / 1e3));
    plan_.prepare_[outside->second] = call->pack;
  }
  return choice->second;
}

void PlanBuilder::choose_outputs() {
  output_of_.assign(program_.values.size(), -1);
  const std::vector<ValueId> results = program_.results();
  for (size_t k = 0; k < results.size(); ++k) {
    Value v = value(results[k]);
    plan_.results_.push_back(v);
    const bool as_it_lies = options_.as_they_lie.count(k) > 0 && dense(v);
    if (!as_it_lies) make_contiguous(v);
    plan_.output_windows_.push_back(add_window(v));
    const ValueId r = uses_.root(results[k]);
    const int32_t at = made_at_[static_cast<size_t>(r)];
    if (at < 0 || !forms_[static_cast<size_t>(at)] || output_of_[static_cast<size_t>(r)] >= 0 ||
        !uses_.covers_root(results[k]) ||
        !(as_it_lies ? r == results[k] : value(results[k]).contiguous() && value(r).contiguous()))
      continue;
    output_of_[static_cast<size_t>(r)] = static_cast<int32_t>(k);
  }
}

/// Finds what memory is lent, and where in it the values lie that the plan places.
void PlanBuilder::find_lent() {
  if (options_.lends_results) {
    const std::vector<ValueId> results = program_.results();
    for (size_t k = 0; k < results.size(); ++k) {
      const Value& v = value(results[k]);
      const int32_t made = made_at_[static_cast<size_t>(uses_.root(results[k]))];
      // A range's rows begin at any model's.
      const bool aligned = options_.as_they_lie.count(k) > 0 ||
                           (!v.sizes.empty() && v.bytes() % (64 * v.sizes[0]) == 0);
      lent_.push_back({aligned ? v.bytes() : 0, static_cast<size_t>(std::max(made, 0))});
    }
  }
  for (const ValueId id : options_.placed)
    lifetimes_.push_back({value(id).bytes(), 0, uses_.last(id)});
  const ArenaLayout layout = place(lifetimes_, lent_);
  placed_ = layout.places;
  lent_.resize(program_.results().size());
  for (BufferPlace& p : placed_)
    if (p.lent < 0) p.lent = static_cast<int64_t>(lent_.size());
  if (layout.bytes > 0) lent_.push_back({layout.bytes, main_.size() + 1});
  plan_.placed_ = placed_;
  plan_.kept_bytes_ = layout.bytes;
}

/// Gives each result of an out-form a buffer of the arena, or that of an argument that is not read
/// again where the kernel may write over it.
void PlanBuilder::share_buffers() {
  buffer_.assign(program_.values.size(), kNoBuffer);
  for (size_t p = 0; p < main_.size(); ++p) {
    if (!forms_[p]) continue;
    const Node& node = program_.nodes[main_[p]];
    bool first = true;  // further results are written while arguments are still read
    for (const ValueId id : made_by(p)) {
      const bool may_reuse = forms_[p]->in_place && first;
      first = false;
      if (output_of_[static_cast<size_t>(id)] >= 0) continue;
      int32_t taken = kNoBuffer;
      if (may_reuse) {
        for_each_value(node.arguments, [&](ValueId argument) {
          const ValueId r = uses_.root(argument);
          const int32_t candidate = buffer_[static_cast<size_t>(r)];
          if (taken != kNoBuffer || candidate == kNoBuffer || uses_.last(r) != p ||
              !uses_.covers_root(argument) || !same_layout(value(argument), value(id)))
            return;
          int others = 0;
          for_each_value(node.arguments, [&](ValueId other) {
            others += other != argument && uses_.root(other) == r;
          });
          if (others == 0) taken = candidate;
        });
      }
      if (taken == kNoBuffer) {
        taken = static_cast<int32_t>(lifetimes_.size());
        lifetimes_.push_back({value(id).bytes(), p, p});
      }
      buffer_[static_cast<size_t>(id)] = taken;
      Lifetime& life = lifetimes_[static_cast<size_t>(taken)];
      life.end = std::max({life.end, uses_.last(id), p});
    }
  }
}

void PlanBuilder::make_arena() {
  const ArenaLayout layout = place(lifetimes_, lent_, placed_);
  plan_.arena_bytes_ = layout.bytes;
  c10::Device device = c10::kCPU;
  for (const Value& v : program_.values)
    if (v.role != Role::constant) device = v.device;
  plan_.memory_ = options_.memory ? options_.memory : std::make_shared<ArenaMemory>();
  plan_.memory_->reserve(layout.bytes, device);
  if (!options_.memory) plan_.lease_ = std::make_unique<ArenaLease>(Arenas{plan_.memory_});
  for (size_t i = 0; i < buffer_.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (output_of_[i] >= 0) {
      // Written to the caller's memory; the window has the value's strides.
      const Window& w = plan_.windows_[plan_.output_windows_[static_cast<size_t>(output_of_[i])]];
      slot(id) = w.tensor().view(value(id).sizes);
    } else if (buffer_[i] != kNoBuffer) {
      Window w(value(id));
      const BufferPlace& at = layout.places[static_cast<size_t>(buffer_[i])];
      if (at.lent < 0)
        plan_.in_arena_.emplace_back(w, at.offset);
      else
        plan_.in_lent_.emplace_back(w, at);
      slot(id) = w.tensor();
    }
  }
  // A result that its kernel pools has no memory. Views of it are made, but nothing reads them.
  for (size_t p = 0; p < main_.size(); ++p)
    if (epilogues_[p].pool)
      for_each_value(node(p).results, [&](ValueId id) { slot(id) = Window(value(id)).tensor(); });
}

size_t PlanBuilder::add_window(const Value& v) {
  plan_.windows_.emplace_back(v);
  return plan_.windows_.size() - 1;
}

Tensor PlanBuilder::tensor(ValueId id) {
  WIDE_ASSERT(slot(id).defined() || !value(id).strided, "%{} has no tensor", id);
  return slot(id);
}

void PlanBuilder::make_steps() {
  for (size_t p = 0; p < main_.size(); ++p) {
    const Node& node = program_.nodes[main_[p]];
    if (node.is_view()) {
      Stack stack = make_stack(node.arguments, [&](ValueId id) { return tensor(id); });
      node.op.callBoxed(&stack);
      take_results(node.results, stack, [&](ValueId id, const Tensor& t) { slot(id) = t; });
    } else if (absorbed_[p] != kNone) {
      slot(node.results[0].values[0]) = tensor(absorbed_[p]);
    } else {
      add_step(p);
    }
  }
  plan_.held_.resize(plan_.windows_.size());
}

/// FLOPs and bytes of a step: those of the operator and its epilogue, without the values between
/// them, which stay in registers.
StepWork PlanBuilder::work_of(size_t p) const {
  StepWork work = wide::work_of(program_, node(p));
  for (const size_t reader : epilogues_[p].readers()) {
    const double flops = wide::work_of(program_, node(reader)).flops;
    work.flops += flops;
    if (work.computed_flops > 0) work.computed_flops += flops;
  }
  work.bytes = 0;
  const auto add = [&](ValueId id) { work.bytes += static_cast<double>(value(id).bytes()); };
  for_each_value(node(p).arguments, add);
  if (epilogues_[p].sum) add(epilogues_[p].residual);
  for (const ValueId id : made_by(p)) add(id);
  return work;
}

void PlanBuilder::add_step(size_t p) {
  const Node& node = program_.nodes[main_[p]];
  Step step{node.op, {}, {}, {}, {}, {}, node.origin, {}, node.name()};
  for_each_value(node.results, [&](ValueId id) {
    if (step.shape.empty()) step.shape = value(id).shape_text();
  });
  step.work = work_of(p);
  step.stack = make_stack(node.arguments, [&](ValueId id) { return tensor(id); });
  for (size_t a = 0; a < node.arguments.size(); ++a)
    if (node.arguments[a].kind == Argument::Kind::value) {
      auto it = outside_index_.find(node.arguments[a].values[0]);
      if (it != outside_index_.end() &&
          (!value(it->first).strided || plan_.prepare_.count(it->second)))
        step.patches.emplace_back(a, it->second);
    }
  if (auto packed = packed_.find(p); packed != packed_.end()) {
    Stack stack = packed->second->stack;
    for (size_t a = 0; a < 3; ++a) stack[a] = step.stack[a];
    step.op = packed->second->op;
    step.stack = std::move(stack);
    step.text = step.op.schema().operator_name().name;
  }
  const std::string with = packed_.count(p) > 0 ? "" : add_epilogue(p, step.stack);
  step.text += with;
  if (IValue* stream = find_argument(node.op, step.stack, "stream"))
    *stream = options_.stream_results && output_of_[static_cast<size_t>(made_by(p)[0])] >= 0;
  if (forms_[p]) {
    Tensors out;
    for (const ValueId id : made_by(p)) out.push_back(slot(id));
    step.stack = forms_[p]->adapt(std::move(step.stack));
    step.op = forms_[p]->op;
    const auto& schema = step.op.schema().operator_name();
    step.text =
        schema.name + (schema.overload_name.empty() ? "" : "." + schema.overload_name) + with;
    if (schema.name == "aten::copy_") {
      step.stack.insert(step.stack.begin(), IValue(out[0]));
      step.stack.emplace_back(false);
    } else {
      for (Tensor& t : out) step.stack.emplace_back(t);
    }
  } else {
    for (size_t r = 0; r < node.results.size(); ++r) {
      const Argument& result = node.results[r];
      for (size_t k = 0; k < result.values.size(); ++k) {
        const ValueId id = result.values[k];
        if (id == kNone || !value(id).strided) continue;
        const size_t w = add_window(value(id));
        slot(id) = plan_.windows_[w].tensor();
        step.results.push_back(
            {r, result.kind == Argument::Kind::list ? static_cast<int64_t>(k) : -1, w});
      }
    }
  }
  if (const IValue* code = find_argument(node.op, step.stack, "code"))
    step.text += " " + code->toStringRef();
  for (size_t a = 0; a < step.stack.size(); ++a)
    if (step.stack[a].isTensorList() && reckons(step.stack[a].toTensorVector()))
      step.lists.push_back(a);
  plan_.steps_.push_back(std::move(step));
}

/// Sets the arguments that ask the kernel for the epilogue; returns its text for --explain.
std::string PlanBuilder::add_epilogue(size_t p, Stack& stack) {
  const Epilogue& epilogue = epilogues_[p];
  std::string words;
  if (epilogue.sum) {
    // Both have one memory layout, so one can be viewed as the other.
    const Value& made = value(node(p).results[0].values[0]);
    *find_argument(node(p).op, stack, "residual") =
        tensor(epilogue.residual).as_strided(made.sizes, made.strides);
    words = " with a sum";
  }
  if (epilogue.activation) {
    *find_argument(node(p).op, stack, "activation") = epilogue.text;
    words += (words.empty() ? " with " : " and ") + epilogue.text;
  }
  if (epilogue.pool) {
    const std::string text =
        epilogue.pool_text + (epilogue.last ? " then " + epilogue.last_text : "");
    *find_argument(node(p).op, stack, "pool") = text;
    words += (words.empty() ? " with " : " and ") + text;
  }
  return words;
}

void PlanBuilder::make_copies() {
  std::unordered_map<size_t, size_t> step_of;  // position in main_ -> step
  size_t s = 0;
  for (size_t p = 0; p < main_.size(); ++p)
    if (!node(p).is_view() && absorbed_[p] == kNone) step_of[p] = s++;
  std::unordered_map<ValueId, size_t> fresh;          // root -> the step that makes it
  std::unordered_map<ValueId, FreshResult*> made_as;  // by the same root
  // A result that its operator allocates is held until its last reader has run.
  for (const auto& [p, made] : step_of) {
    size_t next = 0;
    for_each_value(node(p).results, [&](ValueId id) {
      if (!value(id).strided || plan_.steps_[made].results.empty()) return;
      FreshResult& result = plan_.steps_[made].results[next++];
      fresh[id] = made;
      made_as[id] = &result;
      size_t last = std::max(uses_.last_node(id), p);
      while (!step_of.count(last) && last > p) --last;
      plan_.steps_[step_of[last]].releases.push_back(result.window);
    });
  }
  const std::vector<ValueId> results = program_.results();
  plan_.gives_.assign(results.size(), false);
  plan_.given_.resize(results.size());
  for (size_t k = 0; k < results.size(); ++k) {
    const ValueId root = uses_.root(results[k]);
    if (output_of_[static_cast<size_t>(root)] == static_cast<int32_t>(k)) continue;
    const auto made = fresh.find(root);
    if (options_.gives_results && made != fresh.end() && root == results[k] &&
        value(root).contiguous() && made_as[root]->given < 0) {
      made_as[root]->given = static_cast<int64_t>(k);
      plan_.gives_[k] = true;
      continue;
    }
    auto& copies = made == fresh.end() ? plan_.copies_ : plan_.steps_[made->second].copies;
    copies.emplace_back(tensor(results[k]), plan_.windows_[plan_.output_windows_[k]].tensor());
  }
}

}  // namespace wide
