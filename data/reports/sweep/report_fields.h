#pragma once
#include "data/reports/fields.h"
#include "data/reports/sweep/report.h"

// The fields of every result, in the order of the JSON reports. A new field is one line here, and a
// migration of the store (data/store/schema.cpp) where it has a column.
namespace wide {

void describe(Fields& fields, Timing& timing);
void describe(Fields& fields, Correctness& correctness);
void describe(Fields& fields, MemoryLevel& level);
void describe(Fields& fields, GpuState& state);
void describe(Fields& fields, Environment& environment);

void describe(Fields& fields, Speedup& speedup);
void describe(Fields& fields, Trial& trial);
/// The fields that are not of its timing, which has its own table.
void describe_own(Fields& fields, Trial& trial);
void describe(Fields& fields, CaseSeconds& seconds);
void describe(Fields& fields, MissingBaseline& missing);
void describe(Fields& fields, FormWork& work);
void describe(Fields& fields, Case& result);
void describe(Fields& fields, Crossover& crossover);
void describe(Fields& fields, SweepReport& report);

void describe(Fields& fields, Fallback& fallback);
void describe(Fields& fields, PassRecord& pass);
void describe(Fields& fields, StepCost& step);
void describe(Fields& fields, TimelineItem& item);
void describe(Fields& fields, TimelineCall& call);
void describe(Fields& fields, FuseResult& result);
void describe(Fields& fields, WeightsLoaded& weights);
void describe(Fields& fields, AlongN& along);
/// The fields that are the same for every N.
void describe_own(Fields& fields, FuseReport& report);
void describe(Fields& fields, FuseReport& report);

}  // namespace wide
