#include "data/networks/torchscript_load.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/operator_upgraders/upgraders_entry.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstring>

#include "data/bytes/mapped_file.h"
#include "data/bytes/refuse.h"
#include "data/bytes/zip/zip.h"
#include "data/networks/allowed_operators.h"
#include "data/networks/torchscript_bounds.h"

namespace wide {
namespace {

using caffe2::serialize::PyTorchStreamReader;

constexpr const char* kTrust =
    "export the network without it, or --trust if you know who made the file";

/// Lets LibTorch read the mapped file, so that it reads the same bytes that were checked.
class Adapter : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Adapter(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  size_t size() const override { return file_->bytes().size(); }
  size_t read(uint64_t position, void* to, size_t count, const char*) const override {
    const std::string_view all = file_->bytes();
    const std::string_view part = all.substr(std::min<uint64_t>(position, all.size()), count);
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    return part.size();
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

bool is_custom(const c10::TypePtr& type) {
  const auto named = type->cast<c10::ClassType>();
  return named && named->name() && torch::getCustomClass(named->name()->qualifiedName());
}

/// Checks the functions of the file's classes before any of them runs.
class Reviewer {
 public:
  Reviewer(const torch::jit::CompilationUnit& unit, const std::string& file)
      : unit_(unit), file_(file) {}

  /// Checks the functions that were compiled since the last call.
  void review() {
    const std::vector<torch::jit::Function*> functions = unit_.get_functions();
    for (; done_ < functions.size(); ++done_) {
      torch::jit::Function& function = *functions[done_];
      const auto* graph = torch::jit::tryToGraphFunction(function);
      if (!graph) refuse_call(function.name(), "code that is no TorchScript");
      review(*graph->graph()->block());
    }
  }

  [[noreturn]] void refuse_call(const std::string& what, const std::string& got) const {
    refuse(file_, printable(what), got, "operators that compute on the tensors they are given",
           kTrust);
  }

 private:
  void review(const torch::jit::Block& block) const {
    for (const torch::jit::Node* node : block.nodes()) {
      const c10::FunctionSchema* schema = node->maybeSchema();
      if (!(schema && may_call(*schema)) && !may_call_in_script(node->kind()))
        refuse_call(fmt::format("operator {}", node->kind().toQualString()),
                    "one that files may not call");
      for (const auto values : {node->inputs(), node->outputs()})
        for (const torch::jit::Value* value : values)
          if (is_custom(value->type()))
            refuse_call(fmt::format("object {}", value->type()->annotation_str()),
                        "a class of C++");
      for (const torch::jit::Block* inner : node->blocks()) review(*inner);
    }
  }

  const torch::jit::CompilationUnit& unit_;
  const std::string& file_;
  size_t done_ = 0;
};

/// "__torch__.torch.nn" lies in code/__torch__/torch/nn.py.
std::shared_ptr<torch::jit::Source> source_of(PyTorchStreamReader& reader,
                                              const std::string& qualifier,
                                              const std::string& file) {
  std::string path = "code/" + qualifier + ".py";
  std::replace(path.begin() + 5, path.end() - 3, '.', '/');
  if (!reader.hasRecord(path)) return nullptr;
  const auto [data, size] = reader.getRecord(path);
  const std::string_view text(static_cast<const char*>(data.get()), size);
  check_nesting(text, file, path);
  return std::make_shared<torch::jit::Source>(std::string(text), path, 1, nullptr,
                                              torch::jit::Source::COPIES_STRING);
}

}  // namespace

bool is_torchscript(const std::string& path) {
  const MappedFile file(path);
  if (!zip::probe(file.bytes())) return false;
  try {
    const zip::Index index = zip::parse(file.bytes(), path, zip::Compressed::taken);
    const std::string folder = index.folder();
    return index.find(folder + "constants.pkl") && index.find(folder + "data.pkl");
  } catch (const Error&) {
    return false;
  }
}

torch::jit::Module load_torchscript(const std::string& path, bool trusted) {
  const auto file = std::make_shared<const MappedFile>(path);
  check_torchscript(file->bytes(), path);
  const auto reader = std::make_shared<PyTorchStreamReader>(std::make_shared<Adapter>(file));
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Reviewer reviewer(*unit, path);
  std::vector<c10::IValue> constants;
  torch::jit::populate_upgraders_graph_map();
  const torch::jit::SourceImporter importer(
      unit, &constants,
      [&](const std::string& qualifier) { return source_of(*reader, qualifier, path); },
      reader->version());

  const auto resolve = [&](const c10::QualifiedName& name) {
    if (!trusted && torch::getCustomClass(name.qualifiedName()))
      reviewer.refuse_call("object " + name.qualifiedName(), "a class of C++");
    c10::TypePtr type = importer.loadType(name);
    if (!type)
      refuse(path, "class " + printable(name.qualifiedName()), "no code", "its code", kSaveAgain);
    if (!trusted) reviewer.review();
    return c10::StrongTypePtr(unit, std::move(type));
  };
  const auto read = [&](const std::string& archive) {
    return torch::jit::readArchiveAndTensors(archive, "", "", resolve, torch::jit::ObjLoaderFunc,
                                             c10::Device(c10::kCPU), *reader);
  };
  const c10::IValue table = read("constants");
  if (!table.isTuple()) refuse(path, "constants.pkl", "no tuple", "one", kSaveAgain);
  for (const c10::IValue& constant : table.toTupleRef().elements()) constants.push_back(constant);
  const c10::IValue root = read("data");
  if (!root.isObject()) refuse(path, "data.pkl", "no module", "one", kSaveAgain);
  if (!trusted) reviewer.review();
  return torch::jit::Module(root.toObject());
}

}  // namespace wide
