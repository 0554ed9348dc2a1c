#include "engine/record/substitution.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>

#include "engine/error.h"

namespace wide {

namespace {

using StandIns = std::unordered_map<const c10::TensorImpl*, Tensor>;

/// Tensors that replace those in running code, by the TensorImpl of the replaced ones.
thread_local const StandIns* stand_ins = nullptr;
thread_local bool literals_wanted = false;

}  // namespace

struct Substitution::State {
  StandIns instead;
  c10::impl::IncludeDispatchKeyGuard above{c10::DispatchKey::DeferredInit};
};

Substitution::Substitution(const Tensors& own, const Tensors& instead)
    : state_(std::make_unique<State>()) {
  WIDE_ASSERT(stand_ins == nullptr, "substitutions do not nest");
  for (size_t i = 0; i < own.size(); ++i)
    state_->instead.emplace(own[i].unsafeGetTensorImpl(), instead.at(i));
  stand_ins = &state_->instead;
}

Substitution::~Substitution() { stand_ins = nullptr; }

bool Substitution::active() { return stand_ins != nullptr; }

const Tensor* Substitution::stand_in(const Tensor& own) {
  const auto found = stand_ins->find(own.unsafeGetTensorImpl());
  return found == stand_ins->end() ? nullptr : &found->second;
}

LiteralScope::LiteralScope() { literals_wanted = true; }
LiteralScope::~LiteralScope() { literals_wanted = false; }
bool LiteralScope::active() { return literals_wanted; }

}  // namespace wide
