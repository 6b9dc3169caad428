#!/usr/bin/env python3
"""Makes the ONNX files of this folder, and shapes.tsv by onnx's own shape inference.

Needs the package onnx (made with 1.23.2); run it in this folder.
"""
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper, shape_inference

F, I = T.FLOAT, T.INT64


def save(name, nodes, inputs, outputs, initializers=(), opset=17):
    graph = h.make_graph(
        nodes, name, [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [h.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in initializers])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, name + ".onnx")
    return model


def weight(*dims):
    return np.zeros(dims, np.float32)


def ints(*values):
    return np.array(values, np.int64)


# One node a row: type, inputs, output count, attributes.
ROWS = [
    ("Conv", ["image", "w3"], 1, {}),
    ("Conv", ["image", "w3", "b6"], 1, dict(strides=[2, 2], pads=[1, 0, 1, 2], dilations=[2, 1])),
    ("Conv", ["image", "w3"], 1, dict(auto_pad="SAME_UPPER", strides=[2, 3])),
    ("Conv", ["image", "w3"], 1, dict(auto_pad="VALID", strides=[2, 2])),
    ("Conv", ["image", "wg"], 1, dict(group=4, pads=[1, 1, 1, 1])),
    ("ConvTranspose", ["image", "wt"], 1, dict(strides=[2, 2], pads=[1, 1, 0, 0], output_padding=[1, 1])),
    ("ConvTranspose", ["image", "wt"], 1, dict(strides=[2, 2], auto_pad="SAME_UPPER")),
    ("MaxPool", ["image"], 2, dict(kernel_shape=[3, 3], strides=[2, 2])),
    ("MaxPool", ["image"], 1, dict(kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 0])),
    ("MaxPool", ["image"], 1, dict(kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1, dilations=[2, 2])),
    ("AveragePool", ["image"], 1, dict(kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2])),
    ("AveragePool", ["image"], 1, dict(kernel_shape=[2, 5], strides=[2, 3], ceil_mode=1)),
    ("GlobalAveragePool", ["image"], 1, {}),
    ("GlobalMaxPool", ["image"], 1, {}),
    ("Resize", ["image", "", "scales"], 1, {}),
    ("Resize", ["image", "", "", "sizes"], 1, {}),
    ("BatchNormalization", ["image", "b4", "b4", "b4", "b4"], 1, {}),
    ("InstanceNormalization", ["image", "b4", "b4"], 1, {}),
    ("LayerNormalization", ["tokens", "b8", "b8"], 3, dict(axis=-1)),
    ("LRN", ["image"], 1, dict(size=3)),
    ("Softmax", ["tokens"], 1, dict(axis=-1)),
    ("LogSoftmax", ["tokens"], 1, dict(axis=1)),
    ("PRelu", ["image", "slope"], 1, {}),
    ("Gemm", ["left", "right"], 1, dict(transA=1, transB=1)),
    ("Gemm", ["left", "left", "row"], 1, dict(transB=1)),
    ("MatMul", ["tokens", "square"], 1, {}),
    ("MatMul", ["stack", "tokens"], 1, {}),
    ("MatMul", ["b8", "square"], 1, {}),
    ("MatMul", ["tokens", "b8"], 1, {}),
    ("Einsum", ["tokens", "tokens"], 1, dict(equation="bij, bkj->bik")),
    ("Add", ["tokens", "b8"], 1, {}),
    ("Mul", ["column", "row8"], 1, {}),
    ("Pow", ["tokens", "b8"], 1, {}),
    ("Max", ["tokens", "b8", "row8"], 1, {}),
    ("Sum", ["b8", "tokens"], 1, {}),
    ("Equal", ["tokens", "b8"], 1, {}),
    ("Where", ["mask", "tokens", "b8"], 1, {}),
    ("Clip", ["tokens"], 1, {}),
    ("Cast", ["tokens"], 1, dict(to=T.FLOAT16)),
    ("ReduceMean", ["tokens"], 1, dict(axes=[-1])),
    ("ReduceMean", ["tokens"], 1, dict(axes=[0, 2], keepdims=0)),
    ("ReduceSum", ["tokens", "axis1"], 1, dict(keepdims=0)),
    ("ReduceSum", ["tokens"], 1, {}),
    ("ReduceL2", ["tokens"], 1, dict(axes=[1])),
    ("ArgMax", ["tokens"], 1, dict(axis=1, keepdims=0)),
    ("TopK", ["tokens", "three"], 2, dict(axis=-1)),
    ("Transpose", ["tokens"], 1, dict(perm=[2, 0, 1])),
    ("Transpose", ["image"], 1, {}),
    ("Reshape", ["tokens", "to_shape"], 1, {}),
    ("Flatten", ["image"], 1, dict(axis=2)),
    ("Flatten", ["image"], 1, dict(axis=-1)),
    ("Squeeze", ["column", "axis1"], 1, {}),
    ("Unsqueeze", ["tokens", "axes"], 1, {}),
    ("Concat", ["tokens", "tokens"], 1, dict(axis=1)),
    ("Split", ["tokens"], 2, dict(axis=2)),
    ("Split", ["tokens", "parts"], 2, dict(axis=1)),
    ("Slice", ["tokens", "starts", "ends", "axes12", "steps"], 1, {}),
    ("Gather", ["table", "ids"], 1, {}),
    ("Gather", ["tokens", "ids"], 1, dict(axis=1)),
    ("GatherElements", ["tokens", "ids3"], 1, dict(axis=1)),
    ("GatherND", ["tokens", "ids"], 1, {}),
    ("Expand", ["column", "to_expand"], 1, {}),
    ("Pad", ["tokens", "pads"], 1, {}),
    ("Tile", ["tokens", "repeats"], 1, {}),
    ("DepthToSpace", ["image"], 1, dict(blocksize=2)),
    ("SpaceToDepth", ["even"], 1, dict(blocksize=3)),
    ("Dropout", ["tokens"], 2, {}),
    ("OneHot", ["ids", "depth", "values"], 1, dict(axis=0)),
    ("Trilu", ["tokens"], 1, {}),
    ("LSTM", ["tokens", "wl", "rl", "bl"], 3, dict(hidden_size=3)),
    ("GRU", ["tokens", "wg2", "rg2"], 2, dict(hidden_size=2, direction="bidirectional")),
    ("RNN", ["tokens", "wr", "rr"], 2, dict(hidden_size=3)),
    ("RandomUniformLike", ["tokens"], 1, {}),
]


def shapes():
    inputs = [("image", F, [2, 4, 13, 17]), ("tokens", F, [2, 5, 8]), ("stack", F, [3, 1, 7, 5]),
              ("column", F, [5, 1]), ("row8", F, [1, 8]), ("left", F, [6, 9]), ("right", F, [3, 6]),
              ("mask", T.BOOL, [5, 8]), ("ids", I, [4, 2]), ("ids3", I, [2, 3, 8]),
              ("even", F, [1, 2, 6, 9])]
    constants = [
        ("w3", weight(6, 4, 3, 3)), ("wg", weight(8, 1, 3, 3)), ("wt", weight(4, 5, 3, 3)),
        ("b4", weight(4)), ("b6", weight(6)), ("b8", weight(8)), ("slope", weight(4, 1, 1)),
        ("row", weight(6)), ("square", weight(8, 6)), ("table", weight(11, 3)),
        ("scales", np.array([1, 1, 2, 1.5], np.float32)), ("sizes", ints(2, 4, 20, 9)),
        ("axis1", ints(1)), ("three", ints(3)), ("to_shape", ints(0, -1, 2, 4)),
        ("axes", ints(0, -1)), ("parts", ints(2, 3)), ("starts", ints(-1, 1)),
        ("ends", ints(-2**63, 2**63 - 1)), ("axes12", ints(1, 2)), ("steps", ints(-2, 3)),
        ("to_expand", ints(2, 1, 6)), ("pads", ints(0, 1, -2, 0, 2, 1)), ("repeats", ints(2, 1, 3)),
        ("wl", weight(1, 12, 8)), ("rl", weight(1, 12, 3)), ("bl", weight(1, 24)),
        ("wg2", weight(2, 6, 8)), ("rg2", weight(2, 6, 2)), ("wr", weight(1, 3, 8)), ("rr", weight(1, 3, 3)),
        ("depth", ints(6)), ("values", np.array([0, 1], np.float32))]
    nodes, outputs = [], []
    for i, (kind, names, count, attributes) in enumerate(ROWS):
        made = [f"{i:02d}.{kind}.{j}" for j in range(count)]
        nodes.append(h.make_node(kind, names, made, name=f"node{i}", **attributes))
        outputs += made
    model = save("shapes", nodes, inputs, outputs, constants)
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    known = {v.name: v for v in list(inferred.graph.value_info) + list(inferred.graph.output)}
    with open("shapes.tsv", "w") as file:
        for name in outputs:
            kind = known[name].type.tensor_type
            dims = [d.dim_value for d in kind.shape.dim]
            file.write(f"{name}\t{kind.elem_type}\t{','.join(map(str, dims))}\n")


def attention():
    """A GPT block as exporters write it: the shapes are computed from Shape of the input."""
    n = h.make_node
    nodes = [
        n("Gather", ["wte", "ids"], ["embedded"]),
        n("Shape", ["ids"], ["shape"]),
        n("Gather", ["shape", "zero"], ["batch"]), n("Gather", ["shape", "one"], ["length"]),
        n("Range", ["zero", "length", "one"], ["positions"]),
        n("Gather", ["wpe", "positions"], ["placed"]),
        n("Add", ["embedded", "placed"], ["x"]),
        n("LayerNormalization", ["x", "g", "g"], ["normed"]),
        n("MatMul", ["normed", "wqkv"], ["qkv"]), n("Split", ["qkv"], ["q", "k", "v"], axis=2),
        n("Unsqueeze", ["batch", "axis0"], ["b1"]), n("Unsqueeze", ["length", "axis0"], ["t1"]),
        n("Concat", ["b1", "t1", "heads"], ["split"], axis=0),
    ]
    for name in "qkv":
        nodes += [n("Reshape", [name, "split"], [name + "4"]),
                  n("Transpose", [name + "4"], [name + "t"],
                    perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [
        n("MatMul", ["qt", "kt"], ["scores"]), n("Div", ["scores", "eight"], ["scaled"]),
        n("Softmax", ["scaled"], ["weights"], axis=-1), n("Dropout", ["weights", "ratio"], ["kept"]),
        n("MatMul", ["kept", "vt"], ["mixed"]), n("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        n("Concat", ["b1", "t1", "hidden"], ["merged"], axis=0),
        n("Reshape", ["back", "merged"], ["joined"]), n("MatMul", ["joined", "wo"], ["projected"]),
        n("Add", ["x", "projected"], ["y"]),
        n("MatMul", ["y", "w1"], ["up"]), n("Gelu", ["up"], ["act"]), n("MatMul", ["act", "w2"], ["down"]),
        n("Add", ["y", "down"], ["z"]),
        n("Transpose", ["wte"], ["head"], perm=[1, 0]), n("MatMul", ["z", "head"], ["logits"]),
    ]
    save("attention", nodes, [("ids", I, ["batch", 6])], ["logits"], [
        ("wte", weight(50, 16)), ("wpe", weight(12, 16)), ("g", weight(16)), ("wqkv", weight(16, 48)),
        ("wo", weight(16, 16)), ("w1", weight(16, 64)), ("w2", weight(64, 16)),
        ("zero", np.int64(0)), ("one", np.int64(1)), ("axis0", ints(0)), ("heads", ints(4, 4)),
        ("hidden", ints(16)), ("eight", np.float32(8)), ("ratio", np.float32(0.1))], opset=20)


def batch_one():
    """A vision model exported for batch 1: the batch is a number in its shapes."""
    n = h.make_node
    nodes = [
        n("Conv", ["image", "w"], ["patches"], strides=[4, 4]),
        n("Reshape", ["patches", "to_rows"], ["rows"]), n("Transpose", ["rows"], ["tokens"], perm=[0, 2, 1]),
        n("Concat", ["class", "tokens"], ["all"], axis=1),
        n("Reshape", ["all", "to_heads"], ["heads"]), n("Reshape", ["heads", "to_batch"], ["joined"]),
        n("Gather", ["joined", "first"], ["token"], axis=1), n("Gemm", ["token", "head"], ["logits"]),
    ]
    save("batch_one", nodes, [("image", F, [1, 3, 8, 8])], ["logits"], [
        ("w", weight(6, 3, 4, 4)), ("to_rows", ints(1, 6, -1)), ("class", weight(1, 1, 6)),
        ("to_heads", ints(3, 5, 2)), ("to_batch", ints(1, 5, 6)), ("first", np.int64(0)),
        ("head", weight(6, 10))])


def residual(file="residual", ends=()):
    """Convolution, normalisation, rectifier, a sum of two branches, pooling, a classifier."""
    n = h.make_node
    nodes = [
        n("Conv", ["image", "w1", "b1"], ["c"], pads=[1, 1, 1, 1]),
        n("BatchNormalization", ["c", "s", "s", "m", "m"], ["n"]), n("Relu", ["n"], ["r"]),
        n("Conv", ["r", "w2"], ["d"], pads=[1, 1, 1, 1]), n("Add", ["d", "r"], ["sum"]),
        n("Relu", ["sum"], ["t"]), n("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Flatten", ["p"], ["f"]), n("Dropout", ["f"], ["o"]), n("Gemm", ["o", "w3", "b3"], ["logits"]),
        *ends,
    ]
    inputs = [("image", F, [1, 3, 8, 8])] + ([("classes", I, [1])] if ends else [])
    save(file, nodes, inputs, ["loss", "logits"] if ends else ["logits"], [
        ("w1", weight(4, 3, 3, 3)), ("b1", weight(4)), ("s", weight(4)), ("m", weight(4)),
        ("w2", weight(4, 4, 3, 3)), ("w3", weight(64, 10)), ("b3", weight(10))])


def scored(file, ends):
    """Answers of one pixel. The softmax of opset 9 names no axis: it is over all behind the first."""
    n = h.make_node
    scored = [n("Softmax", ["pixel"], ["scores"])] if ends else []
    nodes = [
        n("Conv", ["image", "w1"], ["c"], pads=[1, 1, 1, 1]), n("Relu", ["c"], ["r"]),
        n("Conv", ["r", "w2"], ["d"]), n("GlobalAveragePool", ["d"], ["pixel"])] + scored
    save(file, nodes, [("image", F, [1, 3, 8, 8])], ["scores" if ends else "pixel"],
         [("w1", weight(4, 3, 3, 3)), ("w2", weight(10, 4, 1, 1))], opset=9)


def softmax_inside():
    """Of opset 9 and rank 3, over all behind the first dimension: 5 x 8 numbers."""
    n = h.make_node
    nodes = [n("MatMul", ["x", "w1"], ["a"]), n("Softmax", ["a"], ["b"]), n("MatMul", ["b", "w2"], ["c"])]
    save("softmax_inside", nodes, [("x", F, [1, 5, 4])], ["c"],
         [("w1", weight(4, 8)), ("w2", weight(8, 3))], opset=9)


def unet(file="unet", height=1024, width=768):
    """Two levels down and up again, joined by skips, and a class for every place."""
    n, weights = h.make_node, []

    def double(x, name, into, out):
        y = x
        for i, channels in enumerate((into, out)):
            at = f"{name}{i}"
            weights.append((at + ".w", weight(out, channels, 3, 3)))
            weights.extend((f"{at}.{v}", weight(out)) for v in ("s", "b", "m", "v"))
            nodes.append(n("Conv", [y, at + ".w"], [at + ".c"], pads=[1, 1, 1, 1]))
            nodes.append(n("BatchNormalization", [at + ".c"] + [f"{at}.{v}" for v in "sbmv"], [at + ".n"]))
            nodes.append(n("Relu", [at + ".n"], [at]))
            y = at
        return y

    def half(x, name):
        nodes.append(n("MaxPool", [x], [name], kernel_shape=[2, 2], strides=[2, 2]))
        return name

    def twice(x, name, channels, skip):
        weights.append((name + ".w", weight(channels, channels // 2, 2, 2)))
        nodes.append(n("ConvTranspose", [x, name + ".w"], [name], strides=[2, 2]))
        nodes.append(n("Concat", [skip, name], [name + ".j"], axis=1))
        return name + ".j"

    nodes = []
    a = double("image", "a", 3, 4)
    b = double(half(a, "p"), "b", 4, 8)
    c = double(half(b, "q"), "c", 8, 16)
    d = double(twice(c, "u", 16, b), "d", 16, 8)
    e = double(twice(d, "v", 8, a), "e", 8, 4)
    weights.extend([("last.w", weight(5, 4, 1, 1)), ("last.b", weight(5))])
    nodes.append(n("Conv", [e, "last.w", "last.b"], ["classes"]))
    save(file, nodes, [("image", F, [1, 3, height, width])], ["classes"], weights)


def parts():
    """Small images through one of each operator that has kernels, residual blocks among them."""
    n, weights, nodes = h.make_node, [], []

    def conv(x, name, into, out, size, bias=False, groups=1, kind="Conv", **attributes):
        shape = (out, into // groups) if kind == "Conv" else (into, out // groups)
        weights.append((name + ".w", weight(*shape, *size)))
        if bias:
            weights.append((name + ".b", weight(out)))
        nodes.append(n(kind, [x, name + ".w"] + [name + ".b"] * bias, [name], group=groups, **attributes))
        return name

    def norm(x, name, channels, kind="BatchNormalization", statistics="mv"):
        names = [f"{name}.{v}" for v in "sb" + statistics]
        weights.extend((each, weight(channels)) for each in names)
        nodes.append(n(kind, [x] + names, [name], epsilon=1e-3))
        return name

    def step(kind, x, name, **attributes):
        nodes.append(n(kind, x if isinstance(x, list) else [x], [name], **attributes))
        return name

    x = conv("image", "stem", 3, 8, (7, 5), strides=[2, 1], pads=[3, 2, 3, 2])
    x = step("Relu", norm(x, "stem.n", 8), "stem.r")
    x = step("MaxPool", x, "stem.p", kernel_shape=[3, 3], strides=[1, 2], pads=[1, 1, 1, 1])
    for i, (low, alpha) in enumerate((("LeakyRelu", 0.2), ("Elu", 0.7), ("Elu", 0.7))):
        at = f"block{i}"
        y = conv(x, at + ".a", 8, 8, (3, 3), groups=4, pads=[2, 2, 2, 2], dilations=[2, 2])
        y = step(low, norm(y, at + ".n", 8), at + ".l", alpha=alpha)
        y = conv(y, at + ".c", 8, 8, (1, 3), bias=True, pads=[0, 1, 0, 1])
        x = step("Relu", step("Add", [x, y], at + ".s"), at)
    x = conv(x, "down", 8, 12, (3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1])
    x = step("HardSwish", norm(x, "down.n", 12, "InstanceNormalization", ""), "down.h")
    gate = step("GlobalAveragePool", x, "gate.p")
    gate = step("Softplus", conv(gate, "gate.a", 12, 3, (1, 1), bias=True), "gate.s")
    gate = step("Sigmoid", conv(gate, "gate.b", 3, 12, (1, 1), bias=True), "gate.g")
    x = step("Mul", [x, gate], "gated")
    x = conv(x, "up", 12, 6, (4, 2), kind="ConvTranspose", groups=2, strides=[2, 2], pads=[1, 0, 1, 0])
    x = step("HardSigmoid", step("Tanh", x, "up.t"), "up.h", alpha=0.9)
    x = step("AveragePool", x, "mean", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    other = step("Mish", conv(x, "other", 6, 4, (1, 1)), "other.m")
    x = step("Concat", [x, other], "both", axis=1)
    x = conv(x, "wide", 10, 8, (3, 3), bias=True, pads=[1, 1, 1, 1])
    x = step("Flatten", step("GlobalAveragePool", x, "all"), "flat")
    weights.extend([("fc.w", weight(16, 8)), ("fc.b", weight(16)), ("last.w", weight(16, 5))])
    x = step("Gelu", step("Gemm", [x, "fc.w", "fc.b"], "fc", transB=1), "fc.g", approximate="tanh")
    step("MatMul", [x, "last.w"], "classes")
    save("parts", nodes, [("image", F, [1, 3, 24, 16])], ["classes"], weights, opset=20)



def resized():
    """A small segmentation whose images are resized in each way that has a kernel."""
    n = h.make_node
    weights = [("a.w", weight(6, 3, 3, 3)), ("b.w", weight(4, 6, 3, 3)), ("b.b", weight(4)), ("c.w", weight(5, 14, 1, 1)),
               ("five", ints(1, 4, 5, 9)), ("half", ints(1, 4, 8, 6)), ("twice", np.array([1, 1, 2, 2], np.float32))]
    nodes = [
        n("Conv", ["image", "a.w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]), n("Relu", ["a"], ["y"]),
        n("Conv", ["y", "b.w", "b.b"], ["b"], pads=[1, 1, 1, 1]), n("Tanh", ["b"], ["t"]),
        n("Resize", ["t", "", "", "five"], ["u"], mode="linear", coordinate_transformation_mode="align_corners"),
        n("Resize", ["u", "", "", "half"], ["v"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        n("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Resize", ["p", "", "twice"], ["q"], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        n("Concat", ["y", "v", "q"], ["all"], axis=1), n("Conv", ["all", "c.w"], ["c"]),
        n("Resize", ["c", "", "twice"], ["classes"], mode="linear")]
    save("resized", nodes, [("image", F, [1, 3, 16, 12])], ["classes"], weights)

def volume():
    """A class for every place of a volume of 32 layers of 48 x 64."""
    n = h.make_node
    nodes = [
        n("Conv", ["scan", "w1"], ["c"], pads=[1] * 6),
        n("BatchNormalization", ["c", "s", "s", "m", "m"], ["n"]), n("Relu", ["n"], ["r"]),
        n("MaxPool", ["r"], ["p"], kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6),
        n("Conv", ["p", "w2"], ["d"], pads=[1] * 6), n("Relu", ["d"], ["t"]),
        n("ConvTranspose", ["t", "w3"], ["u"], strides=[2, 2, 2]), n("Relu", ["u"], ["v"]),
        n("Conv", ["v", "w4"], ["classes"]),
    ]
    save("volume", nodes, [("scan", F, [1, 1, 32, 48, 64])], ["classes"], [
        ("w1", weight(4, 1, 3, 3, 3)), ("s", weight(4)), ("m", weight(4)), ("w2", weight(8, 4, 3, 3, 3)),
        ("w3", weight(8, 4, 2, 2, 2)), ("w4", weight(3, 4, 1, 1, 1))])


def gelus(file, is_whole):
    """Four ways in which exporters write GELU, or the function itself in each place."""
    n, nodes, weights = h.make_node, [], [("w", weight(8, 8))]
    numbers = dict(root=2**0.5, part=0.5**0.5, one=1, half=0.5, two=2, three=3, cubic=0.044715, pi=0.7978845608)
    weights.extend((name, np.array(value, np.float32)) for name, value in numbers.items())

    def op(kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(n(kind, list(inputs), [name], **attributes))
        return name

    def erf(x, is_halved):
        bent = op("Add", op("Erf", op("Mul", x, "part") if is_halved else op("Div", x, "root")), "one")
        return op("Mul", op("Mul", x, "half"), bent) if is_halved else op("Mul", op("Mul", x, bent), "half")

    def tanh(x, is_product):
        cube = op("Mul", op("Mul", x, x), x) if is_product else op("Pow", x, "three")
        inner = op("Add", x, op("Mul", "cubic", cube))
        bent = op("Add", op("Tanh", op("Mul", "pi", inner)), "one")
        return op("Mul", op("Div", x, "two") if is_product else op("Mul", "half", x), bent)

    x = "x"
    for function in (erf, tanh):
        for variant in (False, True):
            y = op("MatMul", x, "w")
            attributes = dict(approximate="tanh") if function is tanh else {}
            x = op("Gelu", y, **attributes) if is_whole else function(y, variant)
    x = op("MatMul", x, "w")
    save(file, nodes, [("x", F, [4, 8])], [x], weights, opset=20)


def attentions(file, is_whole):
    """Attention of 2 heads of 4 over 6 tokens in three ways, or the operator in each place; behind it layer
    norm and swish, written out or not. In other.onnx the scores take a trained bias, or are asked for."""
    n, nodes = h.make_node, []
    weights = [("w", weight(8, 8)), ("causal", np.zeros((1, 1, 6, 6), np.float32)),
               ("ahead", np.zeros((1, 1, 6, 6), bool)), ("g", weight(8)), ("b", weight(8)),
               ("heads", ints(4, 6, 2, 4)), ("flat", ints(8, 6, 4)), ("apart", ints(4, 2, 6, 4)),
               ("rows", ints(4, 6, 8))]
    numbers = dict(root=2**0.5, quarter=0.25, two=2, least=-1e9, zero=0, tiny=1e-5)
    weights.extend((name, np.array(value, np.float32)) for name, value in numbers.items())

    def op(kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(n(kind, list(inputs), [name], **attributes))
        return name

    def scaled_before(q, k, v):
        turned = op("Mul", op("Transpose", k, perm=[0, 1, 3, 2]), "quarter")
        scores = op("Add", op("MatMul", op("Mul", q, "quarter"), turned), "causal")
        return op("MatMul", op("Softmax", scores, axis=-1), v)

    def chosen(q, k, v):
        scores = op("Where", "ahead", op("Div", op("MatMul", q, k), "two"), "least")
        shares = op("Softmax", scores, axis=3)
        return op("MatMul", op("Where", op("IsNaN", shares), "zero", shares), v)

    def flat(q, k, v):
        turned = op("Reshape", op("Transpose", k, perm=[0, 1, 3, 2]), "columns")
        scores = op("Reshape", op("MatMul", op("Reshape", q, "flat"), turned), "square")
        shares = op("Reshape", op("Softmax", scores, axis=-1), "narrow")
        return op("Reshape", op("MatMul", shares, op("Reshape", v, "flat")), "apart")

    def norm(x):
        if is_whole:
            return op("LayerNormalization", x, "g", "b", axis=-1)
        d = op("Sub", x, op("ReduceMean", x, axes=[-1]))
        root = op("Sqrt", op("Add", op("ReduceMean", op("Pow", d, "two"), axes=[-1]), "tiny"))
        return op("Add", op("Mul", op("Div", d, root), "g"), "b")

    weights.extend([("square", ints(4, 2, 6, 6)), ("narrow", ints(8, 6, 6)), ("columns", ints(8, 4, 6))])
    x = "x"
    for way, mask in ((scaled_before, ["causal"]), (chosen, ["ahead"]), (flat, [])):
        parts = []
        for part in "qkv":
            y = op("Reshape", op("MatMul", x, "w"), "heads")
            turned = [0, 2, 3, 1] if part == "k" and way is chosen and not is_whole else [0, 2, 1, 3]
            parts.append(op("Transpose", y, perm=turned))
        y = op("Attention", *parts, *mask) if is_whole else way(*parts)
        y = op("Reshape", op("Transpose", y, perm=[0, 2, 1, 3]), "rows")
        y = norm(op("Add", x, op("MatMul", y, "w")))
        x = op("Swish", y) if is_whole else op("Mul", y, op("Sigmoid", y))
    if is_whole is None:  # a class for each token, weights apart
        nodes.append(n("MatMul", [x, "classes"], ["scores"]))
        weights.append(("classes", weight(8, 3)))
        for i, node in enumerate(node for node in nodes if "w" in node.input):
            node.input[1] = f"w{i}"
            weights.append((f"w{i}", weight(8, 8)))
        x = "scores"
    save(file, nodes, [("x", F, [4, 6, 8])], [x], weights, opset=24 if is_whole else 17)


def scores_that_are_read():
    """A trained bias of each head, and probabilities that are an output: both have to be there."""
    n = h.make_node
    nodes = [n("MatMul", ["x", "w"], ["k"])]
    for at, ends in ((0, ["a"]), (1, ["y", "p1"])):
        nodes += [n("Transpose", ["k"], [f"t{at}"], perm=[0, 1, 3, 2]), n("MatMul", ["k", f"t{at}"], [f"s{at}"]),
                  n("Add", [f"s{at}", "bias"], [f"m{at}"]) if at == 0 else n("Identity", ["s1"], ["m1"]),
                  n("Softmax", [f"m{at}"], [f"p{at}"]), n("MatMul", [f"p{at}", "k"], [ends[0]])]
    nodes.append(n("Add", ["a", "y"], ["sum"]))
    save("scores_read", nodes, [("x", F, [1, 2, 6, 4])], ["sum", "p1"],
         [("w", weight(4, 4)), ("bias", weight(1, 2, 6, 6))])


def many_kinds():
    """40 products, no two of one size."""
    nodes, weights, x = [], [], "x"
    for i in range(40):
        weights.append((f"w{i}", weight(4 + i, 5 + i)))
        nodes += [h.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]), h.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        x = f"r{i}"
    save("many_kinds", nodes, [("x", F, [2, 4])], [x], weights)


def outputs():
    """Outputs that are read again, one of them a view: nothing may overwrite them."""
    n = h.make_node
    nodes = [n("Tanh", ["x"], ["a"]), n("Flatten", ["a"], ["b"]), n("Relu", ["b"], ["c"]),
             n("Sigmoid", ["c"], ["d"]), n("Exp", ["d"], ["e"])]
    save("outputs", nodes, [("x", F, [2, 3])], ["b", "c", "e"])


def bad():
    n, x = h.make_node, [("x", F, [2, 3])]
    save("bad_cycle", [n("Add", ["x", "b"], ["a"], "first"), n("Relu", ["a"], ["b"])], x, ["b"])
    save("bad_twice", [n("Relu", ["x"], ["a"]), n("Tanh", ["x"], ["a"])], x, ["a"])
    save("bad_missing", [n("Add", ["x", "w"], ["a"])], x, ["a"])
    save("bad_operator", [n("Fold", ["x"], ["a"], "odd")], x, ["a"])
    save("bad_rank", [n("Conv", ["x", "w"], ["a"])], x, ["a"], [("w", weight(2, 3, 1, 1))])
    save("bad_zero", [n("Relu", ["x"], ["a"])], [("x", F, [0, 3])], ["a"])
    save("bad_negative", [n("Relu", ["x"], ["a"])], [("x", F, [2, -3])], ["a"])
    save("bad_huge", [n("Relu", ["x"], ["a"])], [("x", F, [2**40, 2**40])], ["a"])
    save("bad_symbol", [n("Relu", ["x"], ["a"])], [("x", F, ["batch", "length"])], ["a"])
    save("bad_inputs", [n("Conv", ["x"], ["a"])], x, ["a"])
    save("bad_output", [n("Relu", ["x"], ["a"])], x, ["b"])
    save("bad_reshape", [n("Reshape", ["x", "to"], ["a"])], x, ["a"], [("to", ints(4, -1))])
    save("bad_dynamic", [n("Reshape", ["x", "to"], ["a"])], x + [("to", I, [1])], ["a"])
    save("bad_broadcast", [n("Add", ["x", "w"], ["a"], "sum")], x, ["a"], [("w", weight(4))])
    save("bad_matmul", [n("MatMul", ["x", "x"], ["a"])], x, ["a"])
    def loss(name, scores, *nodes, more=(), output="loss", kind="SoftmaxCrossEntropyLoss", **attributes):
        nodes = list(nodes) + [n(kind, [scores, "t", *more], ["loss"], "end", **attributes)]
        save(name, nodes, x + [("t", I, [2])], [output], [("w", weight(3, 3)), ("v", weight(3))])

    product = n("MatMul", ["x", "w"], ["a"])
    loss("bad_loss_rank", "b", product, n("Unsqueeze", ["a", "at"], ["b"]), n("Constant", [], ["at"], value_ints=[0]))
    loss("bad_loss_weights", "a", product, more=["v"])
    loss("bad_loss_sum", "a", product, reduction="sum")
    loss("bad_loss_inside", "a", product, n("Neg", ["loss"], ["c"]), output="c")
    loss("bad_loss_scores", "a", product, kind="NegativeLogLikelihoodLoss")
    loss("bad_loss_twice", "b", product, n("Softmax", ["a"], ["b"]))
    save("no_weights", [n("Relu", ["x"], ["a"])], x, ["a"])


shapes()
attention()
batch_one()
residual()
residual("residual_loss", [h.make_node("SoftmaxCrossEntropyLoss", ["logits", "classes"], ["loss"])])
scored("pixel", False)
scored("pixel_scored", True)
softmax_inside()
unet()
unet("unet_small", 16, 24)
parts()
resized()
volume()
gelus("gelus", True)
gelus("gelus_written_out", False)
attentions("attentions", True)
attentions("attentions_written_out", False)
attentions("attentions_classes", None)
scores_that_are_read()
many_kinds()
outputs()
bad()
