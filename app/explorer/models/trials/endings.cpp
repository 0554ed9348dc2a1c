#include "app/explorer/models/trials/endings.h"

namespace wide {

Ending ending_of(Status status) {
  switch (status) {
    case Status::ok:
      return Ending::right;
    case Status::incorrect:
      return Ending::incorrect;
    case Status::timeout:
    case Status::crashed:
      return Ending::failed;
    case Status::unsupported:
    case Status::oom:
    case Status::skipped:
      return Ending::left_out;
    case Status::cancelled:
    case Status::interrupted:
      break;
  }
  return Ending::not_finished;
}

Ending ending_of(const std::string& status) {
  for (const Status known :
       {Status::ok, Status::incorrect, Status::unsupported, Status::oom, Status::timeout,
        Status::crashed, Status::cancelled, Status::interrupted, Status::skipped})
    if (status == to_string(known)) return ending_of(known);
  return Ending::failed;
}

}  // namespace wide
