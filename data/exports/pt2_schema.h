#pragma once
#include <nlohmann/json.hpp>

#include "engine/model/dynamic_batch.h"

namespace wide {

// The parts of a program in the JSON of torch.export archives, schema 8.17; pt2_graph.cpp makes the
// whole of them.

/// An argument that is no tensor. dtypes, layouts and memory formats are numbered as in the schema,
/// not as in c10. Throws Error naming operator and argument if the schema cannot express it.
nlohmann::ordered_json pt2_constant(const c10::Argument& declared, const IValue& value,
                                    const std::string& op);
/// JSON has no infinities; PyTorch writes "Infinity", "-Infinity" and "NaN".
nlohmann::ordered_json pt2_number(double x);
/// The symbol of the batch size in a program with a dynamic batch.
inline constexpr const char* kBatchSymbol = "s0";
/// A number that depends on the batch size; `hint`: its value for the example inputs.
nlohmann::ordered_json pt2_expression(const BatchFormula& formula, int64_t hint);
/// `{"dtype": 7, "sizes": [{"as_int": 4}], ...}`. `formulas`: how sizes and strides depend on the
/// batch size; null if they do not. Throws Error for a dtype that the schema lacks.
nlohmann::ordered_json pt2_tensor_meta(const Value& value, bool requires_grad,
                                       const ValueFormulas* formulas = nullptr);
/// Whether an argument has the default value of its declaration, so that it may be left out.
bool pt2_is_default(const c10::Argument& declared, const Argument& given);

}  // namespace wide
