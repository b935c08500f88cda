# SPDX-License-Identifier: Apache-2.0
"""What is measured: the models of models/, and the users' suite of suite.txt as ONNX graphs."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from problems import FOUNDING, ROOT, SuiteError, cut_batch, parse_problem, read_suite

OPSET, IR_VERSION, SEED = 13, 7, 20240

MODEL_TITLES = {
    "a_scale_pool": "A scale-pool",
    "b_grouped": "B grouped",
    "c_double_leaky_max": "C double-leaky-max",
    "gan3d": "3D-GAN generator",
}


@dataclass
class Row:
    """One line of the tables. `path` is a model whose symbolic dimension N is its batch."""

    group: str
    title: str
    path: Path
    batch: int
    text: str = ""  # of the problem; empty for a model of models/


class Graph:
    """Nodes in a chain, with weights drawn as they are asked for."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.initializers, self.last = [], [], "x"

    def weight(self, name, shape, low, high):
        array = self.random.uniform(low, high, shape).astype(np.float32)
        self.initializers.append(onnx.numpy_helper.from_array(array, name))
        return name

    def append(self, kind, weights=(), **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.last, *weights], [output], **attributes))
        self.last = output


def add_convolution(graph, p):
    bound = 1 / math.sqrt(p.co // p.g * math.prod(p.kernel))
    weights = [graph.weight("w", (p.ci, p.co // p.g, *p.kernel), -bound, bound)]
    if p.bias:
        weights.append(graph.weight("b", (p.co,), -bound, bound))
    graph.append(
        "ConvTranspose",
        weights,
        kernel_shape=p.kernel,
        strides=p.stride,
        pads=p.padding * 2,
        output_padding=p.output_padding,
        group=p.g,
    )


def add_operator(graph, p, name, arguments):
    if name == "batch_norm":
        ranges = {"weight": (0.5, 1.5), "bias": (-1, 1), "mean": (-1, 1), "var": (0.5, 1.5)}
        weights = [graph.weight(key, (p.co,), *ends) for key, ends in ranges.items()]
        graph.append("BatchNormalization", weights, epsilon=1e-5)
    elif name == "leaky_relu":
        graph.append("LeakyRelu", alpha=float(arguments[0]))
    elif name in ("relu", "sigmoid"):
        graph.append(name.capitalize())
    else:
        raise SuiteError(f"operator '{name}' is not supported here")


def build(p, path):
    """Writes the problem as a model with input x, output y and the symbolic batch N."""
    graph = Graph(SEED)
    add_convolution(graph, p)
    for name, *arguments in p.operators:
        add_operator(graph, p, name, arguments)
    graph.nodes[-1].output[0] = "y"

    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    body = helper.make_graph(
        graph.nodes,
        "problem",
        [info("x", ["N", p.ci, *p.size])],
        [info("y", ["N", p.co, *[None] * len(p.size)])],
        graph.initializers,
    )
    model = helper.make_model(
        body, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    onnx.save(model, path)


def suite_rows(folder, most_macs):
    """Builds the suite's models in `folder`, their batches cut to at most so many multiply-adds."""
    rows = []
    for group, text in read_suite(ROOT / "bench/suite.txt"):
        if group == FOUNDING:
            continue
        problem = parse_problem(text)
        batch = cut_batch(problem, most_macs)
        path = folder / f"suite{len(rows)}.onnx"
        build(problem, path)
        rest = [token for token in text.split() if token != f"n{problem.n}"]
        text = " ".join([f"n{batch}", *rest])
        rows.append(Row(group, problem.title(), path, batch, text))
    return rows


def model_rows():
    """The models of models/, at the batch that each names itself."""
    rows = []
    for name, title in MODEL_TITLES.items():
        path = ROOT / f"models/{name}.onnx"
        metadata = {p.key: p.value for p in onnx.load(path).metadata_props}
        rows.append(Row("Models", title, path, int(metadata["upconv.demo_batch"])))
    return rows
