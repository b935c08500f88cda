# SPDX-License-Identifier: Apache-2.0
"""What is measured: the models of models/, and the users' suite of suite.txt as ONNX graphs."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
OPSET, IR_VERSION, SEED = 13, 7, 20240

MODEL_TITLES = {
    "a_scale_pool": "A scale-pool",
    "b_grouped": "B grouped",
    "c_double_leaky_max": "C double-leaky-max",
    "gan3d": "3D-GAN generator",
}
# The first part of suite.txt: models/ has these whole.
FOUNDING = "The three founding models"

SUPERSCRIPT = {1: "", 2: "²", 3: "³"}


class SuiteError(Exception):
    """A line of suite.txt, or a model, that cannot be used here."""


@dataclass
class Row:
    """One line of the tables. `path` is a model whose symbolic dimension N is its batch."""

    group: str
    title: str
    path: Path
    batch: int
    text: str = ""  # of the problem; empty for a model of models/


@dataclass
class Problem:
    """A transposed convolution and what follows it, from upconv's text form."""

    size: tuple = ()
    kernel: tuple = ()
    stride: tuple = ()
    padding: tuple = ()
    output_padding: tuple = ()
    n: int = 1
    ci: int = 0
    co: int = 0
    g: int = 1
    bias: bool = False
    operators: list = field(default_factory=list)  # [name, argument...]

    @property
    def macs(self):
        """Multiply-adds of one entry of the batch."""
        per_input = self.ci * self.co // self.g * math.prod(self.kernel)
        return math.prod(self.size) * per_input

    def title(self):
        def short(values):
            return str(values[0]) if len(set(values)) == 1 else "×".join(map(str, values))

        size = short(self.size) + SUPERSCRIPT[len(self.size)] * (len(set(self.size)) == 1)
        channels = f"depthwise {self.ci}" if self.g == self.ci else f"{self.ci}→{self.co}"
        return f"{channels} k{short(self.kernel)} s{short(self.stride)} at {size}"


# Longest first, so that `ci` is not read as `c`, nor `op` as `o`.
COUNTS = ("ci", "co", "n", "g")
AXES = {"in": "size", "op": "output_padding", "k": "kernel", "s": "stride", "p": "padding"}


def parse_problem(text):
    convolution, *operators = (part.split() for part in text.split("|"))
    problem = Problem(operators=operators)
    for token in convolution:
        letters = token.rstrip("0123456789x")
        digits = token[len(letters) :]
        if token == "bias":
            problem.bias = True
        elif letters in COUNTS and digits.isdigit():
            setattr(problem, letters, int(digits))
        elif letters in AXES and digits:
            setattr(problem, AXES[letters], tuple(int(part) for part in digits.split("x")))
        else:
            raise SuiteError(f"'{text}': '{token}' is not supported here")
    if not (problem.size and problem.kernel and problem.ci and problem.co):
        raise SuiteError(f"'{text}': in, k, ci and co are required")
    dims = len(problem.size)
    defaults = {"kernel": 1, "stride": 1, "padding": 0, "output_padding": 0}
    for name, default in defaults.items():
        values = getattr(problem, name) or (default,)
        setattr(problem, name, values * dims if len(values) == 1 else values)
    return problem


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


def read_suite(path):
    """Yields (heading, text) for each problem of the file."""
    heading = ""
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line:
            yield heading, line


def cut_batch(problem, most_macs):
    """The problem's batch, or the largest power of two below it that fits; at least 1."""
    batch = problem.n
    if batch * problem.macs > most_macs:
        batch = 1
        while 2 * batch * problem.macs <= most_macs:
            batch *= 2
    return batch


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
