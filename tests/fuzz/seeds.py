"""Writes the seeds of the corpus, small files of real writers: python seeds.py tests/fuzz/fixtures/corpus"""
import argparse
import collections
import io
import json
import os
import sys
import zipfile

import numpy
import torch
from safetensors.torch import save


def main(corpus):
    def put(target, name, data):
        os.makedirs(os.path.join(corpus, target), exist_ok=True)
        with open(os.path.join(corpus, target, name), "wb") as file:
            file.write(data)

    def torch_bytes(value, **more):
        buffer = io.BytesIO()
        torch.save(value, buffer, **more)
        return buffer.getvalue()

    base = torch.arange(12.0).reshape(3, 4)
    tagged = torch.ones(2)
    tagged.note = "attribute"
    state = collections.OrderedDict(a=base, t=base.t(), h=torch.ones(2, dtype=torch.float16),
                                    p=torch.nn.Parameter(torch.ones(1)), tagged=tagged)
    training = {"epoch": 3, "lr": 0.5, "big": 1 << 80, "raw": b"\0", "shape": base.shape, "z": 1j,
                "seen": {1}, "kind": torch.float16, "model": state, "steps": [1, (2, None, True)]}
    refused = {"a": base, "args": argparse.Namespace(lr=1)}
    for name, value in (("state", state), ("training", training), ("refused", refused)):
        for protocol in (2, 4, 5):
            data = torch_bytes(value, pickle_protocol=protocol)
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                put("pickle", f"{name}{protocol}", archive.read("archive/data.pkl"))
        put("checkpoint", f"{name}.zip", torch_bytes(value))
        put("checkpoint", f"{name}.legacy",
            torch_bytes(value, _use_new_zipfile_serialization=False))
    tensors = {"w": base.contiguous(), "n": torch.tensor(3), "e": torch.zeros(0, 2)}
    for target in ("safetensors", "checkpoint"):
        put(target, "plain.safetensors", save(tensors))
        put(target, "noted.safetensors", save({"w": base.half()}, metadata={"format": "pt"}))
        put(target, "empty.safetensors", save({}))
    put("checkpoint", "index.json", json.dumps({
        "metadata": {"total_size": 1}, "weight_map": {"a": "1-of-2.safetensors", "b": "2-of-2.safetensors"}}).encode())

    def archive(name, records, **more):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", **more) as out:
            for record, data in records.items():
                out.writestr(record, data)
            out.comment = b"a comment" if name == "plain" else b""
        put("zip", name, buffer.getvalue())
    archive("plain", {"a/b": b"12", "a/c": b""})
    archive("packed", {"a": bytes(500)}, compression=zipfile.ZIP_DEFLATED)
    archive("outside", {"../a": b"1", "/b": b"2"})
    put("zip", "torch", torch_bytes({"a": torch.ones(1)}))
    for name, array in (("f32", numpy.arange(6, dtype="f4").reshape(2, 3)), ("columns", numpy.asfortranarray(numpy.ones((2, 3)))),
                        ("empty", numpy.zeros((0, 4), dtype="u1")), ("number", numpy.array(True)),
                        ("objects", numpy.array([None], dtype=object)), ("big_endian", numpy.ones(2, dtype=">i8"))):
        buffer = io.BytesIO()
        numpy.save(buffer, array)
        put("npy", name, buffer.getvalue())
    for name, text in (("plain", "a,y\n1,2\n3.5e-1,nan\n"), ("quoted", 'a,"b, ""c"""\r\n"1",2\r\n"x\ny",\r\n'),
                       ("short", "a,b\n1\n"), ("twice", "a,a\n1,2\n"), ("open", 'a\n"1\n')):
        put("csv", name, text.encode())
    presets = os.path.join(os.path.dirname(corpus), "..", "..", "..", "presets")
    for file in sorted(os.listdir(presets))[:6]:
        if file.endswith(".json"):
            with open(os.path.join(presets, file), "rb") as text:
                put("preset", file, text.read())
    archives = os.path.join(os.path.dirname(corpus), "..", "..", "data", "networks", "pt2")
    for file in ("torch-2.6.pt2", "torch-2.9-decomposed.pt2", "torch-2.11.pt2"):
        with open(os.path.join(archives, file), "rb") as data:
            put("pt2", file, data.read())
        with zipfile.ZipFile(os.path.join(archives, file)) as archived:
            for name in archived.namelist():
                if name.endswith(("models/model.json", "serialized_exported_program.json")):
                    put("pt2_model", file.removesuffix(".pt2") + ".json", archived.read(name))
    put("preset", "wrong.json", b'{"schema": 1, "targets": [[[1]]], "n": {"a": null}, "n": []}')


if __name__ == "__main__":
    main(sys.argv[1])
