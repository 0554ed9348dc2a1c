"""torch.export archives made by hand: those that the exporter would not write."""
import json
import zipfile


def tensor(name):
    return {"as_tensor": {"name": name}}


def symbol(name):
    return {"as_sym_int": {"as_name": name}}


def meta(dtype, sizes):
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.insert(0, stride)
        stride *= max(size, 1)
    return {"dtype": dtype, "sizes": [{"as_int": s} for s in sizes],
            "strides": [{"as_int": s} for s in strides], "storage_offset": {"as_int": 0},
            "device": {"type": "cpu", "index": None}, "layout": 7, "requires_grad": False}


def node(target, inputs, *outputs):
    return {"target": target, "outputs": list(outputs), "metadata": {},
            "inputs": [{"name": n, "arg": a, "kind": 1} for n, a in inputs]}


def add(out, a, b):
    return node("torch.ops.aten.add.Tensor", [("self", tensor(a)), ("other", tensor(b))],
                tensor(out))


def write(path, nodes, out="y", sizes=(4,), weights=None, constants=None, values=None, in_spec=None):
    """One input x of f32 `sizes`; `weights` and `constants` are (dtype, sizes, bytes) by name, known
    to the nodes as p_NAME and c_NAME."""
    weights, constants = weights or {}, constants or {}
    names = [("c_" + k, {"tensor_constant": {"arg": {"name": "c_" + k}, "tensor_constant_name": k}})
             for k in constants]
    names += [("p_" + k, {"parameter": {"arg": {"name": "p_" + k}, "parameter_name": k}})
              for k in weights]
    names.append(("x", {"user_input": {"arg": tensor("x")}}))
    call = {"in_spec": in_spec, "out_spec": "", "forward_arg_names": ["x"]}
    model = {
        "graph_module": {
            "graph": {"inputs": [tensor(n) for n, _ in names], "outputs": [tensor(out)],
                      "nodes": nodes, "sym_int_values": {},
                      "tensor_values": {"x": meta(7, list(sizes)), **(values or {})}},
            "signature": {"input_specs": [s for _, s in names],
                          "output_specs": [{"user_output": {"arg": tensor(out)}}]},
            "module_call_graph": [{"fqn": "", "signature": call}] if in_spec else []},
        "range_constraints": {}, "guards_code": [], "torch_version": "2.11.0",
        "schema_version": {"major": 8, "minor": 17}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("m/models/model.json", json.dumps(model))
        archive.writestr("m/byteorder", "little")
        for kind, tensors in (("constants", constants), ("weights", weights)):
            config = {}
            for i, (name, (dtype, shape, data)) in enumerate(tensors.items()):
                archive.writestr(f"m/data/{kind}/t_{i}", data)
                config[name] = {"path_name": f"t_{i}", "is_param": kind == "weights",
                                "use_pickle": False, "tensor_meta": meta(dtype, shape)}
            if tensors:
                archive.writestr(f"m/data/{kind}/model_{kind}_config.json",
                                 json.dumps({"config": config}))
