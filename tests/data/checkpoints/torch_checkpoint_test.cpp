#include <fmt/format.h>

#include <cstring>
#include <map>

#include "data/checkpoints/checkpoint_file.h"
#include "data/tensors.h"
#include "tests/data/python.h"

// Checkpoints as torch.save writes them, against what PyTorch itself reads from them.
namespace wide::torch_checkpoint_test {
namespace {

constexpr const char* kWrite = R"(
import collections, io, json, zipfile
import numpy, torch
from safetensors.torch import save_file
torch.manual_seed(3)
def expect(name, tensors):
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, name + ".safetensors")

base = torch.arange(60.).reshape(5, 12)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn = torch.nn.Linear(7, 3), torch.nn.BatchNorm1d(3)
        self.fc.weight.data = torch.randn(7, 3).t()          # strides that are not dense
net = Net()
state = net.state_dict()                                       # with its _metadata
zoo = collections.OrderedDict(state)
zoo.update(whole=base, row=base[2], column=base[:, 3], flipped=base.t(), part=base[1:4, 2:11:3],
           wide=torch.randn(1).expand(4, 2), scalar=torch.tensor(2.5), empty=torch.zeros(0, 3),
           parameter=torch.nn.Parameter(torch.randn(2, 2)))
for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint8, torch.bool):
    zoo[f"of.{dtype}".replace("torch.", "")] = (torch.randn(3, 5) * 9).to(dtype)
new = dict(zoo, f8=torch.randn(4).to(torch.float8_e5m2), u16=torch.arange(5).to(torch.uint16))
expect("zip", new); torch.save(new, "zip.pt")
for protocol in (3, 4, 5):
    expect(f"protocol{protocol}", new)
    torch.save(new, f"protocol{protocol}.pt", pickle_protocol=protocol)
expect("legacy", zoo); torch.save(zoo, "legacy.pt", _use_new_zipfile_serialization=False)
expect("legacy4", zoo)
torch.save(zoo, "legacy4.pt", _use_new_zipfile_serialization=False, pickle_protocol=4)

tagged = torch.randn(3); tagged.note = "attributes make it go through _rebuild_from_type_v2"
shared = dict(a=tagged)
training = {"epoch": 3, "best": 0.5, "big": 1 << 80, "name": "run", "raw": b"\x00\xff", "none": None,
            "shape": base.shape, "device": torch.device("cpu"), "kind": torch.float16, "z": 1j,
            "seen": {1, 2}, "count": collections.Counter(a=1), "nested": {"model": state},
            "default": collections.defaultdict(list), "milestones": [1, 2.5, (True, False)],
            "optimizer": {"state": {0: {"step": torch.tensor(3.), "exp_avg": torch.randn(3, 7)}},
                          "param_groups": [{"lr": 1e-3, "params": [0, 1]}]}, "tagged": shared}
expected = {"nested.model." + k: v for k, v in state.items()}
expected.update({"optimizer.state.0.step": training["optimizer"]["state"][0]["step"],
                 "optimizer.state.0.exp_avg": training["optimizer"]["state"][0]["exp_avg"],
                 "tagged.a": tagged})
for name, layout in (("training", True), ("training_legacy", False)):
    expect(name, expected)
    torch.save(training, name + ".pt", _use_new_zipfile_serialization=layout)

# As a big-endian machine writes: every number of every storage turned round, and it said.
swapped = dict(zoo, complex=torch.randn(4, dtype=torch.complex64))
expect("big", swapped); torch.save(swapped, "big_before.pt")
with zipfile.ZipFile("big_before.pt") as old, zipfile.ZipFile("big.pt", "w") as turned:
    kinds = {}
    import pickle
    class Kinds(pickle.Unpickler):
        def persistent_load(self, pid):
            kinds[pid[2]] = pid[1]
            return torch.storage.TypedStorage(0, dtype=torch.float32)
        def find_class(self, module, name):
            if "Storage" in name: return name
            if name.startswith("_rebuild"): return lambda *a: None
            return super().find_class(module, name)
    Kinds(io.BytesIO(old.read("big_before/data.pkl"))).load()
    widths = dict(DoubleStorage=8, FloatStorage=4, HalfStorage=2, BFloat16Storage=2, LongStorage=8,
                  IntStorage=4, ShortStorage=2, ComplexFloatStorage=4)
    for record in old.namelist():
        data, key = old.read(record), record.split("/")[-1]
        if record.startswith("big_before/data/"):
            width = widths.get(kinds[key], 1)
            data = numpy.frombuffer(data, f"V{width}").tobytes() if width == 1 else \
                numpy.frombuffer(data, f">u{width}").astype(f"<u{width}").tobytes()
        turned.writestr(record.replace("big_before", "big"), b"big" if key == "byteorder" else data)
)";

TEST(TorchCheckpoint, ReadsWhatTorchWrote) {
  const Scratch scratch;
  python(scratch.path(), kWrite);
  for (const char* name : {"zip", "protocol3", "protocol4", "protocol5", "legacy", "legacy4",
                           "training", "training_legacy", "big"}) {
    SCOPED_TRACE(name);
    const CheckpointFile file(scratch / fmt::format("{}.pt", name));
    std::map<std::string, at::Tensor> expected;
    for (auto& [key, tensor] : load_tensors(scratch / fmt::format("{}.safetensors", name)))
      expected.emplace(key, tensor);
    EXPECT_EQ(file.tensors().size(), expected.size());
    for (size_t i = 0; i < file.tensors().size(); ++i) {
      const StoredTensor& stored = file.tensors()[i];
      ASSERT_TRUE(expected.count(stored.name)) << stored.name;
      const at::Tensor& want = expected.at(stored.name);
      EXPECT_TRUE(same_bits(file.tensor(i), want)) << stored.name;
      const char* bytes = file.plain_bytes(i);
      EXPECT_TRUE(!bytes || !want.numel() ||
                  !std::memcmp(bytes, want.const_data_ptr(), want.nbytes()))
          << stored.name;
    }
  }
  const CheckpointFile file(scratch / "training.pt");
  const auto weight =
      std::find_if(file.tensors().begin(), file.tensors().end(),
                   [](const StoredTensor& t) { return t.name == "nested.model.fc.weight"; });
  ASSERT_NE(weight, file.tensors().end());
  EXPECT_EQ(weight->nested, std::string("nested.model.").size());
}

TEST(TorchCheckpoint, TensorsMayHoldAnyBytes) {
  const Scratch scratch;
  python(scratch.path(), R"(
import torch
text = b"archive/constants.pkl"
torch.save({"w": torch.frombuffer(bytearray(text), dtype=torch.uint8)}, "w.pt")
)");
  const CheckpointFile file(scratch / "w.pt");
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.tensor(0).numel(), 21);
}

TEST(TorchCheckpoint, RunsNothingAndSaysWhatItRefused) {
  const Scratch scratch;
  python(scratch.path(), R"py(
import argparse, os, torch
class Payload:
    def __init__(self, *what): self.what = what
    def __reduce__(self): return self.what
w = torch.ones(2)
for layout in (True, False):
    def save(name, value):
        torch.save(value, name + ("" if layout else "_legacy") + ".pt",
                   _use_new_zipfile_serialization=layout)
    save("system", {"w": w, "x": Payload(os.system, ("touch ran",))})
    save("eval", {"w": w, "x": Payload(eval, ("open('ran', 'w')",))})
    save("getattr", {"w": w, "x": Payload(getattr, (w, "data"))})
    save("namespace", {"w": w, "args": argparse.Namespace(lr=1)})
    save("module", torch.nn.Linear(2, 2))
    save("sparse", {"w": w.to_sparse()})
    save("alone", w)
    save("nothing", {"a": 1})
torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")
)py");
  const auto refused = [&](const std::string& name) {
    const std::string file = scratch / name;
    std::string message = error_of([&] { const CheckpointFile opened(file); });
    if (const size_t at = message.find(file); at != std::string::npos)
      message.replace(at, file.size(), name);
    return message;
  };
  const std::string tail =
      ", expected tensors, OrderedDict and plain containers (nothing in it is run); try to save "
      "model.state_dict() alone";
  const std::string state_dict =
      ", expected a state_dict; try to save its weights with torch.save(model.state_dict(), ...)";
  for (const char* layout : {".pt", "_legacy.pt"}) {
    for (const auto& [file, got] :
         std::map<std::string, std::string>{{"system", "posix.system"},
                                            {"getattr", "__builtin__.getattr"},
                                            {"eval", "__builtin__.eval"},
                                            {"namespace", "argparse.Namespace"},
                                            {"module", "torch.nn.modules.linear.Linear"},
                                            {"sparse", "torch._utils._rebuild_sparse_tensor"}})
      EXPECT_EQ(refused(file + layout),
                fmt::format("[{}{}] pickle: got {}{}", file, layout, got, tail));
    EXPECT_EQ(
        refused(std::string("alone") + layout),
        fmt::format("[alone{}] checkpoint: got a tensor without a name{}", layout, state_dict));
    EXPECT_EQ(
        refused(std::string("nothing") + layout),
        fmt::format("[nothing{}] checkpoint: got a dict without tensors{}", layout, state_dict));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "ran"));
  EXPECT_EQ(refused("script.pt"),
            "[script.pt] checkpoint: got a TorchScript module, expected a state_dict; try to "
            "save its weights with torch.save(model.state_dict(), ...)");
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  write_text(scratch / "old.pt", tar);
  EXPECT_EQ(refused("old.pt"),
            "[old.pt] checkpoint: got a tar archive (PyTorch before 0.2), expected a layout since "
            "then; try to load and save it with PyTorch");
}

TEST(TorchCheckpoint, EveryTruncationAndChangedByteIsAnErrorOrATensor) {
  const Scratch scratch;
  python(scratch.path(), R"(
import torch
state = {"a": torch.ones(2, 3).t(), "b": {"c": torch.zeros(1)}}
torch.save(state, "zip.pt")
torch.save(state, "legacy.pt", _use_new_zipfile_serialization=False)
)");
  for (const char* name : {"zip.pt", "legacy.pt"}) {
    const std::string whole = read_text(scratch / name);
    const auto read = [&](const std::string& bytes) {
      return error_of([&] { checkpoint_format(bytes, "w.pt").parse(bytes, "w.pt"); });
    };
    ASSERT_EQ(read(whole), "");
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_NE(read(whole.substr(0, size)), "") << name << size;
    for (size_t i = 0; i < whole.size(); ++i)
      for (const char flip : {'\1', '\x80', '\xff'}) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ flip);
        EXPECT_EQ(read(changed).find('\n'), std::string::npos);
      }
  }
}

}  // namespace
}  // namespace wide::torch_checkpoint_test
