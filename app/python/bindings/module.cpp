#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>

#include "app/python/bindings/benchmark.h"
#include "app/python/bindings/carried.h"
#include "app/python/bindings/core.h"
#include "app/python/bindings/losses.h"
#include "app/python/bindings/optimizer.h"
#include "engine/cuda/open.h"
#include "engine/error.h"
#include "engine/widen/target.h"

namespace nwide {
namespace {

using namespace py::literals;

py::list coverage(Core& core) {
  const auto items = core.with([](wide::WideModel& m) { return m.coverage().items; });
  py::list out;
  for (const wide::CoverageItem& item : items)
    out.append(py::dict("node"_a = item.node, "nodes"_a = item.nodes, "operator"_a = item.op,
                        "primitive"_a = item.primitive, "strategy"_a = item.strategy,
                        "way"_a = wide::to_string(item.way), "reason"_a = item.reason,
                        "module"_a = item.module));
  return out;
}

py::list explain(Core& core) {
  const auto steps = core.with([](wide::WideModel& m) { return m.explain(); });
  py::list out;
  for (const wide::StepCost& step : steps)
    out.append(py::dict("operator"_a = step.op, "module"_a = step.module,
                        "primitive"_a = step.primitive, "strategy"_a = step.strategy,
                        "shape"_a = step.shape, "median_ns"_a = step.median_ns,
                        "share"_a = step.share));
  return out;
}

py::dict validate(Core& core, double rtol) {
  const wide::Correctness c = core.with([&](wide::WideModel& m) { return m.validate(rtol); });
  return py::dict("max_rel"_a = c.max_rel, "eager_max_rel"_a = c.eager_max_rel,
                  "tolerance"_a = c.tolerance, "isolated"_a = c.isolated, "ordered"_a = c.ordered,
                  "passed"_a = c.pass, "note"_a = c.note, "failure"_a = c.failure);
}

/// Every registered target, with the strategies that its own ones force on a program's calls.
py::list targets() {
  py::list out;
  for (const wide::Target* target : wide::targets()) {
    std::map<std::string, std::map<std::string, std::string>> forced = target->parts;
    std::vector<std::string> names;
    for (const wide::Strategy& s : target->strategies) {
      names.push_back(s.name);
      forced[s.name] = {{target->name, s.name}};
    }
    for (const auto& [name, unused] : target->parts) names.push_back(name);
    out.append(py::dict("name"_a = target->name, "kind"_a = to_string(target->kind),
                        "summary"_a = target->summary, "formula"_a = target->formula,
                        "source"_a = target->source, "strategies"_a = names, "forced"_a = forced));
  }
  return out;
}

void bind_options(py::module_& m) {
  py::class_<wide::Options>(m, "Options")
      .def(py::init<>())
      .def_property(
          "mode",
          [](const wide::Options& o) {
            return o.mode ? std::optional<std::string>(to_string(*o.mode)) : std::nullopt;
          },
          [](wide::Options& o, const std::optional<std::string>& name) {
            o.mode = name ? std::optional(wide::parse_mode(*name)) : std::nullopt;
          })
      .def_readwrite("threads", &wide::Options::threads)
      .def_readwrite("tune", &wide::Options::tune)
      .def_readwrite("autotune_s", &wide::Options::autotune_s)
      .def_readwrite("strategies", &wide::Options::strategies)
      .def_readwrite("strict", &wide::Options::strict)
      .def_readwrite("passes_off", &wide::Options::passes_off)
      .def_readwrite("verify", &wide::Options::verify)
      .def_readwrite("verbose", &wide::Options::verbose)
      .def_readwrite("validate", &wide::Options::validate)
      .def_readwrite("rtol", &wide::Options::rtol)
      .def_readwrite("shared_inputs", &wide::Options::shared_inputs)
      .def_readwrite("input_names", &wide::Options::input_names)
      .def_readwrite("signatures", &wide::Options::signatures)
      .def_readwrite("frozen", &wide::Options::frozen);
}

void bind_core(py::module_& m) {
  py::class_<Core>(m, "Core")
      .def(py::init<py::object, py::object, const wide::NamedTensors&, const wide::NamedTensors&,
                    wide::Tensors, std::vector<bool>, int64_t, wide::Options>())
      .def("run", &Core::run)
      .def("prepare",
           [](Core& c, const wide::Tensors& inputs) {
             const c10::InferenceMode ordinary(false);
             c.with([&](wide::WideModel& wide) { wide.prepare(inputs); });
           })
      .def("coverage", &coverage)
      .def("explain", &explain)
      .def("benchmark", &benchmark, py::arg("budget_s"), py::arg("seed"), py::arg("baselines"),
           py::arg("progress"))
      .def("validate", &validate, py::arg("rtol") = 0.0)
      .def("plan",
           [](Core& c) { return c.with([](wide::WideModel& wide) { return wide.plan(); }); })
      .def("program",
           [](Core& c) {
             return c.with([](wide::WideModel& wide) { return wide.program().text(); });
           })
      .def("bytes",
           [](Core& c) { return c.with([](wide::WideModel& wide) { return wide.bytes(); }); })
      .def("signatures",
           [](Core& c) { return c.with([](wide::WideModel& wide) { return wide.signatures(); }); })
      .def("kept",
           [](Core& c) {
             const auto kept = c.with([](wide::WideModel& wide) { return wide.kept(); });
             return std::make_tuple(kept.programs, kept.bytes, kept.compiled);
           })
      .def("export", [](Core& c, const std::string& path) {
        c.with([&](wide::WideModel& wide) { wide.export_to(path); });
      });
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "What nwide stands on; use nwide itself.";
  // nw.Error: one line for the user, with the command line's exit code as an attribute.
  static py::exception<wide::Error> error(m, "Error", PyExc_RuntimeError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const wide::Error& e) {
      py::set_error(error, e.what());
    } catch (python_error& e) {  // raised by a hook that autograd called
      e.restore();
    }
  });
  py::class_<Recorded>(m, "Recorded")
      .def_readonly("program", &Recorded::program)
      .def_readonly("constants", &Recorded::constants)
      .def_readonly("updates", &Recorded::updates)
      .def_readonly("random", &Recorded::random);
  m.def("record", &record);
  m.def("recorded_are_held", &wide::recorded_are_held);
  // Returns why there is no CUDA device then, or "".
  m.def("open_cuda", [](const std::string& folder) {
    wide::open_cuda(folder);
    return wide::why_none(c10::kCUDA);
  });
  // `target` has the values of `source`, or some models' of them.
  m.def("carry", [](const wide::Tensor& source, const wide::Tensor& target) {
    carried().set(target, carried().holds(source));
  });
  m.def("targets", &targets);
  m.def("optimizers", &optimizer_table);
  m.def("cross_entropy", &cross_entropy);
  m.def("mse_loss", &mse_loss);
  m.def("optimizer_step", &optimizer_step);
  bind_options(m);
  bind_core(m);
}

}  // namespace nwide
