#include "data/exports/pt2_sample.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <map>

namespace wide {
namespace {

/// The classes of module `torch` by which torch.save names the dtype of a tensor's memory.
const std::map<at::ScalarType, std::string>& storage_classes() {
  static const std::map<at::ScalarType, std::string> names{
      {at::kFloat, "FloatStorage"}, {at::kDouble, "DoubleStorage"},
      {at::kHalf, "HalfStorage"},   {at::kBFloat16, "BFloat16Storage"},
      {at::kLong, "LongStorage"},   {at::kInt, "IntStorage"},
      {at::kShort, "ShortStorage"}, {at::kChar, "CharStorage"},
      {at::kByte, "ByteStorage"},   {at::kBool, "BoolStorage"}};
  return names;
}

/// Opcodes of pickle's protocol 2, as far as tuples of tensors need them.
class Pickle {
 public:
  Pickle() { raw("\x80\x02"); }

  void mark() { raw("("); }
  void tuple() { raw("t"); }  // of the items after the last mark
  void empty_dict() { raw("}"); }
  void stop() { raw("."); }

  void tensor(const Tensor& t, const std::string& key) {
    global("torch._utils", "_rebuild_tensor_v2");
    mark();
    mark();
    text("storage");
    global("torch", storage_classes().at(t.scalar_type()));
    text(key);
    text("cpu");
    number(t.numel());
    tuple();
    raw("Q");   // loads the storage that the tuple names, from the record data/KEY
    number(0);  // storage offset
    numbers(t.sizes());
    numbers(t.strides());
    raw("\x89");  // requires_grad = False
    global("collections", "OrderedDict");
    raw(")R");
    tuple();
    raw("R");
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void raw(std::string_view part) { bytes_ += part; }

  void little_endian(uint64_t x, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(x >> (8 * i) & 0xff);
  }
  void global(const std::string& module, const std::string& name) {
    raw("c" + module + "\n" + name + "\n");
  }
  void text(const std::string& s) {
    raw("X");  // a string of UTF-8
    little_endian(s.size(), 4);
    raw(s);
  }
  void number(int64_t x) {
    raw("\x8a\x08");  // an integer of 8 bytes
    little_endian(static_cast<uint64_t>(x), 8);
  }
  void numbers(at::IntArrayRef all) {
    mark();
    for (const int64_t x : all) number(x);
    tuple();
  }

  std::string bytes_;
};

}  // namespace

std::string pt2_sample_inputs(const Tensors& inputs) {
  for (const Tensor& t : inputs)
    if (!storage_classes().count(t.scalar_type())) return "";
  std::string file;
  caffe2::serialize::PyTorchStreamWriter zip([&file](const void* data, size_t size) {
    file.append(static_cast<const char*>(data), size);
    return size;
  });
  Pickle pickle;
  pickle.mark();
  pickle.mark();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor here = inputs[i].detach().to(at::kCPU).contiguous();
    pickle.tensor(here, std::to_string(i));
    zip.writeRecord(fmt::format("data/{}", i), here.const_data_ptr(), here.nbytes());
  }
  pickle.tuple();
  pickle.empty_dict();
  pickle.tuple();
  pickle.stop();
  zip.writeRecord("data.pkl", pickle.bytes().data(), pickle.bytes().size());
  zip.writeEndOfFile();
  return file;
}

}  // namespace wide
