"""Mutants of files that people open. usage: mutants.py KIND SEED COUNT, in the folder that gets them.

KIND is pt2, ts, preset, report or store. Archives are taken apart, one record is changed, and they are put together
again, so that the change is not stopped by a checksum; JSON is changed value by value.
"""

import copy
import io
import json
import random
import sqlite3
import sys
import zipfile

ODD = [0, -1, 1, 2, 7, 2**31, 2**63 - 1, -2**63, 2**64, 10**30, 0.5, -0.0, 1e308, "", "x", "../x", "/etc/passwd", "\x1b[2J",
       "a" * 5000, None, True, False, [], {}, [[]], {"": 0}, [0] * 1000]


def paths(value, at=()):
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*at, key))


def odd(draw):
    """One of ODD, of which a later change changes nothing."""
    return copy.deepcopy(draw.choice(ODD))


def holder(value, at):
    for key in at[:-1]:
        value = value[key]
    return value


def change_json(text, draw):
    value = json.loads(text)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        all_paths = [at for at in paths(value) if at]
        if not all_paths:
            break
        at, other = draw.choice(all_paths), draw.choice(all_paths)
        own, there = holder(value, at), holder(value, other)
        kind = draw.random()
        if kind < 0.5:
            own[at[-1]] = odd(draw)
        elif kind < 0.7:
            own[at[-1]] = json.loads(json.dumps(there[other[-1]]))
        elif kind < 0.85:
            del own[at[-1]]
        elif isinstance(own, list):
            own.insert(draw.randrange(len(own) + 1), odd(draw))
        else:
            own[draw.choice(["", "x", str(other[-1])])] = odd(draw)
    return json.dumps(value)


def change_bytes(data, draw):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        if not data:
            break
        at = draw.randrange(len(data))
        kind = draw.random()
        if kind < 0.4:
            data[at] ^= 1 << draw.randrange(8)
        elif kind < 0.6:
            data[at:at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80"])
        elif kind < 0.75:
            del data[at:at + draw.choice([1, 4, 100])]
        elif kind < 0.9:
            begin = draw.randrange(len(data))
            data[at:at] = data[begin:begin + draw.choice([1, 4, 100])]
        else:
            del data[at:]
    return bytes(data)


def change_archive(data, draw):
    if draw.random() < 0.15:
        return change_bytes(data, draw)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    told = [i for i, (name, _) in enumerate(records) if name.endswith((".json", ".py", ".pkl"))]
    at = draw.choice(told) if draw.random() < 0.85 else draw.randrange(len(records))
    name, content = records[at]
    kind = draw.random()
    if kind < 0.05:
        del records[at]
    elif kind < 0.1:
        records.append((name, content))
    elif name.endswith(".json") and kind < 0.9:
        records[at] = name, change_json(content, draw).encode()
    else:
        records[at] = name, change_bytes(content, draw)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, content in records:
            archive.writestr(name, content)
    return out.getvalue()


def network():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)
            self.out = torch.nn.Linear(3, 2)
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x):
            y = torch.relu(self.norm(self.conv(x)))
            return self.out(y.mean(dim=[2, 3]).reshape(x.shape[0], 3)) * self.scale

    torch.manual_seed(0)
    return Net().eval(), torch.randn(2, 2, 5, 5)


def base(kind):
    """The sound file, and how it is changed."""
    if kind in ("pt2", "ts"):
        import torch

        model, sample = network()
        if kind == "pt2":
            torch.export.save(torch.export.export(model, (sample,)), "base.pt2")
        else:
            torch.jit.script(model).save("base.ts")
    if kind == "store":
        with sqlite3.connect("base.store") as db:
            db.execute("pragma journal_mode = delete")
    with open(f"base.{kind}", "rb") as file:
        data = file.read()
    change = {"pt2": change_archive, "ts": change_archive, "store": change_bytes}.get(kind)
    return data, change or (lambda text, draw: change_json(text, draw).encode())


def main():
    kind, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data, change = base(kind)
    for i in range(count):
        with open(f"{i}.{kind}", "wb") as file:
            file.write(change(data, random.Random(f"{kind} {seed} {i}")))


if __name__ == "__main__":
    main()
