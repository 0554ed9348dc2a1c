"""Tensors by name as safetensors files, which `workbench` reads and writes."""

import ctypes
import json
import struct

import torch

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def save(path, tensors):
    """Writes named tensors, the widest dtypes first, so that all values are aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {}, 0
    for name in order:
        begin, end = end, end + tensors[name].numel() * tensors[name].element_size()
        header[name] = {"dtype": NAMES[tensors[name].dtype], "shape": list(tensors[name].shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            values = tensors[name].detach().cpu().contiguous()
            if values.numel():
                file.write((ctypes.c_char * values.nbytes).from_address(values.data_ptr()))


def load(path):
    """All tensors of a file by name."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        found = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            file.seek(8 + length + begin)
            values = bytearray(file.read(end - begin))
            dtype = DTYPES[entry["dtype"]]
            flat = torch.frombuffer(values, dtype=dtype) if values else torch.empty(0, dtype=dtype)
            found[name] = flat.reshape(entry["shape"])
    return found
