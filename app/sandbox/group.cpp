#include "app/sandbox/group.h"

namespace wide {
namespace {

std::unique_ptr<RankGroup> own_rank_group;

}  // namespace

RankGroup* rank_group() { return own_rank_group.get(); }

void set_rank_group(std::unique_ptr<RankGroup> group) { own_rank_group = std::move(group); }

}  // namespace wide
