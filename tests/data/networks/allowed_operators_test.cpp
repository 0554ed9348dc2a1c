#include "data/networks/allowed_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <set>

namespace wide::allowed_operators_test {
namespace {

const c10::FunctionSchema& schema(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
}

TEST(AllowedOperators, ComputeOnTensors) {
  for (const auto& [name, overload] :
       std::initializer_list<std::pair<const char*, const char*>>{{"aten::add", "Tensor"},
                                                                  {"aten::add_", "Tensor"},
                                                                  {"aten::__iand__", "Tensor"},
                                                                  {"aten::as_strided", ""},
                                                                  {"aten::_to_copy", ""},
                                                                  {"aten::lstm", "input"},
                                                                  {"aten::index_put_", ""}})
    EXPECT_TRUE(may_call(schema(name, overload))) << name;
}

TEST(AllowedOperators, ReachNothingElse) {
  for (const auto& [name, overload] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aten::from_file", ""},
           {"aten::set_", "source_Storage"},
           {"aten::set_", "source_Tensor"},
           {"aten::resize_", ""},
           {"aten::_reshape_alias", ""},
           {"aten::_print", ""},
           {"aten::add", "out"},
           {"aten::record_stream", ""},
           {"aten::_index_put_impl_", ""},
           {"aten::pin_memory", ""},
           {"aten::mkldnn_rnn_layer", ""},
           {"aten::segment_reduce", ""},
           {"inductor::_reinterpret_tensor", ""},
           {"quantized::linear", ""}})
    EXPECT_FALSE(may_call(schema(name, overload))) << name;
}

// Whatever a later LibTorch adds under a name of the list: none that is given memory, a file or
// another device to work on.
TEST(AllowedOperators, NoneOfThemIsGivenMemoryOrAFile) {
  const std::set<std::string> kinds = {"Storage", "Stream", "Quantizer", "PyObject"};
  int64_t allowed = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !may_call(op->schema())) continue;
    ++allowed;
    for (const char* part : {"file", "resize", "sparse", "mkldnn", "cudnn", "miopen", "backward",
                             "quantized", "fbgemm", "foreach", "unsafe_tensor"})
      EXPECT_EQ(name.name.find(part), std::string::npos) << name.name;
    for (const c10::Argument& a : op->schema().arguments()) {
      EXPECT_EQ(kinds.count(a.type()->str()), 0u) << name.name << " " << a.name();
      EXPECT_NE(a.name(), "filename") << name.name;
      EXPECT_NE(a.name(), "unsafe") << name.name;
    }
  }
  EXPECT_GT(allowed, 1000);
}

TEST(AllowedOperators, OfScriptsTheLanguageAlone) {
  for (const char* name : {"prim::If", "prim::ListConstruct", "aten::append", "aten::__getitem__"})
    EXPECT_TRUE(may_call_in_script(c10::Symbol::fromQualString(name))) << name;
  for (const char* name : {"prim::Print", "prim::fork", "prim::PythonOp", "prim::rpc_async",
                           "aten::save", "aten::wait", "aten::manual_seed", "cuda::set_stream"})
    EXPECT_FALSE(may_call_in_script(c10::Symbol::fromQualString(name))) << name;
}

}  // namespace
}  // namespace wide::allowed_operators_test
