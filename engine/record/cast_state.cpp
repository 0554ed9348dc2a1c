#include "engine/record/cast_state.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>

namespace wide {
namespace {

void set(const CastState& state) {
  for (size_t k = 0; k < CastState::kDevices.size(); ++k) {
    at::autocast::set_autocast_enabled(CastState::kDevices[k], state.enabled[k]);
    at::autocast::set_autocast_dtype(CastState::kDevices[k], state.dtype[k]);
  }
  // The default dtype is the whole process's: left alone where nothing changes.
  if (state.default_dtype != c10::get_default_dtype_as_scalartype())
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(state.default_dtype));
}

}  // namespace

CastState CastState::current() {
  CastState state;
  for (size_t k = 0; k < kDevices.size(); ++k) {
    state.enabled[k] = at::autocast::is_autocast_enabled(kDevices[k]);
    state.dtype[k] = at::autocast::get_autocast_dtype(kDevices[k]);
  }
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  return state;
}

CastStateGuard::CastStateGuard(const CastState& state)
    : before_(CastState::current()), cache_(at::autocast::is_autocast_cache_enabled()) {
  // Cast weights would stay in the cache: it is emptied at the end of `with` blocks alone.
  if (!(state == before_)) at::autocast::set_autocast_cache_enabled(false);
  set(state);
}

CastStateGuard::~CastStateGuard() {
  set(before_);
  at::autocast::set_autocast_cache_enabled(cache_);
}

}  // namespace wide
