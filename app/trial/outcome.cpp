#include "app/trial/outcome.h"

#include <c10/util/Exception.h>

#include <new>

#include "app/cancel.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide {

std::string out_of_memory_text(const std::string& thing, const std::string& got,
                               const MemoryNeed& memory) {
  return fmt::format(
      "[{}] memory: got {}, expected enough ({} needed by estimate, {} available); try fewer "
      "models",
      thing.empty() ? "case" : thing, got, bytes_text(static_cast<double>(memory.needed)),
      bytes_text(static_cast<double>(memory.available)));
}

Outcome outcome_of(const std::exception_ptr& thrown, const std::string& name,
                   const MemoryNeed& memory) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Cancelled&) {
    throw;
  } catch (const BrokenDevice&) {
    throw;
  } catch (const std::bad_alloc&) {
    return {Status::oom, out_of_memory_text(name, "an allocation refused", memory)};
  } catch (const Error& e) {
    // Exit code 5 stands for memory; any other Error says what is not supported.
    return {e.exit_code() == 5 ? Status::oom : Status::unsupported, printable(e.what(), 300)};
  } catch (const c10::Error& e) {
    const std::string text = one_line(e);
    if (!speaks_of_memory(text))
      return {dynamic_cast<const NotCaptured*>(&e) ? Status::unsupported : Status::crashed, text};
    return {Status::oom, out_of_memory_text(name, printable(text, 120), memory)};
  } catch (const std::exception& e) {
    return {Status::crashed, one_line(e)};
  }
}

}  // namespace wide
