# SPDX-License-Identifier: Apache-2.0
"""An ONNX chain of the few operators that the benchmark's models have, in eager PyTorch."""

import ctypes

import numpy as np
import onnx
import torch
from torch.nn import functional

CONVOLUTIONS = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
AVERAGE_POOLS = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
MAX_POOLS = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}


class Unsupported(Exception):
    """A node that this small interpreter does not know."""


def padding_of(attributes):
    pads = attributes["pads"]
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        raise Unsupported(f"padding {pads} differs at the ends")
    return pads[:half]


def convolution(attributes):
    dims = len(attributes["strides"])
    options = {
        "stride": attributes["strides"],
        "padding": padding_of(attributes),
        "output_padding": attributes.get("output_padding", [0] * dims),
        "groups": attributes["group"],
        "dilation": attributes.get("dilations", [1] * dims),
    }
    return lambda x, w, b=None: CONVOLUTIONS[dims](x, w, b, **options)


def pool(functions, attributes):
    kernel, stride = attributes["kernel_shape"], attributes["strides"]
    padding = padding_of(attributes)
    return lambda x: functions[len(kernel)](x, kernel, stride, padding)


def batch_norm(attributes):
    epsilon = attributes["epsilon"]
    return lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b, eps=epsilon)


OPERATORS = {
    "ConvTranspose": convolution,
    "AveragePool": lambda attributes: pool(AVERAGE_POOLS, attributes),
    "MaxPool": lambda attributes: pool(MAX_POOLS, attributes),
    "BatchNormalization": batch_norm,
    "LeakyRelu": lambda attributes: lambda x: functional.leaky_relu(x, attributes["alpha"]),
    "Mul": lambda _: torch.mul,
    "Add": lambda _: torch.add,
    "Relu": lambda _: torch.relu,
    "Sigmoid": lambda _: torch.sigmoid,
    "Reshape": lambda _: lambda x, shape: x.reshape(shape.tolist()),
}


def attributes_of(node):
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def keep_memory():
    """Freed memory stays with the process. PyTorch allocates its results anew in every run, and
    fresh pages may take longer than computing them; the other sides write to memory kept."""
    mmap_threshold, trim_threshold = -3, -1  # mallopt(3)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


class Eager:
    """The model with its weights, run operator by operator."""

    def __init__(self, path, arrays, threads):
        torch.set_num_threads(threads)
        keep_memory()
        graph = onnx.load(path).graph
        self.values = {
            item.name: torch.from_numpy(np.array(onnx.numpy_helper.to_array(item)))
            for item in graph.initializer
        }
        self.values.update({name: torch.from_numpy(array) for name, array in arrays.items()})
        self.names = [value.name for value in graph.output]
        self.steps = []
        for node in graph.node:
            if node.op_type not in OPERATORS:
                raise Unsupported(f"{path}: no {node.op_type}")
            function = OPERATORS[node.op_type](attributes_of(node))
            self.steps.append((function, list(node.input), node.output[0]))
        self.results = {}
        self.run()

    @torch.inference_mode()
    def run(self):
        values = dict(self.values)
        for function, inputs, output in self.steps:
            values[output] = function(*[values[name] for name in inputs])
        self.results = {name: values[name] for name in self.names}

    def outputs(self):
        return {name: tensor.numpy() for name, tensor in self.results.items()}
