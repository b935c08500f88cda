#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the example models of this folder as ONNX files.

Needs NumPy and the onnx package, nothing else. The weights come from a fixed seed through
NumPy's frozen legacy generator, using only additions and multiplications, so that every run
writes the same bytes.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

SEED = 20240
OPSET = 13
IR_VERSION = 7
LATENT = 200
FULL_GAN_WIDTHS = (512, 256, 128, 64)
# One sixteenth of the full widths: 1.8 MB instead of 70 MB.
CUT_GAN_WIDTHS = (32, 16, 8, 4)


class Weights:
    """Draws named initialisers. Each model owns one, so that no file depends on another."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.initializers = []

    def add(self, name, array):
        array = np.ascontiguousarray(array, dtype=np.dtype("<f4"))
        self.initializers.append(
            helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.tobytes(), raw=True)
        )
        return name

    def uniform(self, name, shape, low, high):
        return self.add(name, low + (high - low) * self.random.random_sample(shape))

    def shape(self, name, values):
        data = np.array(values, dtype=np.dtype("<i8"))
        self.initializers.append(
            helper.make_tensor(name, TensorProto.INT64, data.shape, data.tobytes(), raw=True)
        )
        return name


def torch_bound(c_out_per_group, kernel):
    """PyTorch's default range for a transposed convolution: 1 / sqrt(fan_in)."""
    return 1.0 / math.sqrt(c_out_per_group * math.prod(kernel))


def conv_transpose(x, weight, bias, y, kernel, stride, padding, output_padding=None, group=1):
    """The attributes a PyTorch exporter writes, begin and end padding spelled out."""
    attributes = {
        "dilations": [1] * len(kernel),
        "group": group,
        "kernel_shape": list(kernel),
        "pads": list(padding) * 2,
        "strides": list(stride),
    }
    if output_padding:
        attributes["output_padding"] = list(output_padding)
    inputs = [x, weight] + ([bias] if bias else [])
    return helper.make_node("ConvTranspose", inputs, [y], name=f"/{y}", **attributes)


def finish(name, doc, nodes, weights, inputs, outputs, batch):
    """batch: how many entries `upconv demo` runs the model on, unless told otherwise."""

    def value_infos(values):
        return [
            helper.make_tensor_value_info(key, TensorProto.FLOAT, shape)
            for key, shape in values.items()
        ]

    graph = helper.make_graph(
        nodes, name, value_infos(inputs), value_infos(outputs), weights.initializers
    )
    model = helper.make_model(
        graph,
        producer_name="upconv make_models.py",
        doc_string=doc,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    helper.set_model_props(model, {"upconv.demo_batch": str(batch)})
    return model


def a_scale_pool(_args):
    w = Weights(SEED + 1)
    kernel = (3, 3, 3)
    bound = torch_bound(16, kernel)
    weight = w.uniform("conv_transpose.weight", (3, 16, *kernel), -bound, bound)
    bias = w.uniform("conv_transpose.bias", (16,), -bound, bound)
    w.add("scale1", np.float32(0.5))
    w.add("scale2", np.float32(1.0))
    # Unit variance, like the original's standard normal draw.
    w.uniform("bias", (16, 1, 1, 1), -math.sqrt(3), math.sqrt(3))
    pool = {"kernel_shape": [2] * 3, "strides": [2] * 3, "pads": [0] * 6, "ceil_mode": 0}
    nodes = [
        conv_transpose("x", weight, bias, "conv", kernel, (2, 2, 2), (1, 1, 1)),
        helper.make_node("Mul", ["conv", "scale1"], ["scaled"], name="/Mul"),
        helper.make_node("AveragePool", ["scaled"], ["pooled"], name="/AveragePool", **pool),
        helper.make_node("Add", ["pooled", "bias"], ["biased"], name="/Add"),
        helper.make_node("Mul", ["biased", "scale2"], ["y"], name="/Mul_1"),
    ]
    return finish(
        "a_scale_pool",
        "Founding model A: ConvTranspose3d 3 to 16, scale, average pool 2, bias, scale.",
        nodes,
        w,
        {"x": ["N", 3, 16, 32, 32]},
        {"y": ["N", 16, 15, 31, 31]},
        batch=128,
    )


def b_grouped(_args):
    w = Weights(SEED + 2)
    kernel = (3, 5, 7)
    bound = torch_bound(8, kernel)
    weight = w.uniform("conv_transpose3d.weight", (32, 8, *kernel), -bound, bound)
    nodes = [
        conv_transpose(
            "x", weight, None, "y", kernel, (2, 2, 2), (1, 2, 3), output_padding=(1, 1, 1), group=4
        )
    ]
    return finish(
        "b_grouped",
        "Founding model B: grouped ConvTranspose3d 32 to 32, kernel 3x5x7.",
        nodes,
        w,
        {"x": ["N", 32, 12, 24, 48]},
        {"y": ["N", 32, 24, 48, 96]},
        batch=8,
    )


def c_double_leaky_max(_args):
    w = Weights(SEED + 3)
    kernel = (3, 3, 3)
    bound = torch_bound(32, kernel)
    weight = w.uniform("conv_transpose.weight", (16, 32, *kernel), -bound, bound)
    bias = w.uniform("conv_transpose.bias", (32,), -bound, bound)
    # Both signs occur: a maximum has to become a minimum where the multiplier is negative.
    w.uniform("multiplier", (32, 1, 1, 1), -math.sqrt(3), math.sqrt(3))
    slope = np.float32(0.2).item()
    pool = {
        "kernel_shape": [2] * 3,
        "strides": [2] * 3,
        "pads": [0] * 6,
        "dilations": [1] * 3,
        "ceil_mode": 0,
    }
    nodes = [
        conv_transpose("x", weight, bias, "conv", kernel, (2,) * 3, (1,) * 3, (1,) * 3),
        helper.make_node("LeakyRelu", ["conv"], ["leaky1"], name="/LeakyRelu", alpha=slope),
        helper.make_node("Mul", ["leaky1", "multiplier"], ["scaled"], name="/Mul"),
        helper.make_node("LeakyRelu", ["scaled"], ["leaky2"], name="/LeakyRelu_1", alpha=slope),
        helper.make_node("MaxPool", ["leaky2"], ["y"], name="/MaxPool", **pool),
    ]
    return finish(
        "c_double_leaky_max",
        "Founding model C: ConvTranspose3d 16 to 32, leaky, multiplier, leaky, max pool 2.",
        nodes,
        w,
        {"x": ["N", 16, 16, 32, 32]},
        {"y": ["N", 32, 16, 32, 32]},
        batch=16,
    )


def gan3d(args):
    """A 3D-GAN generator: latent vector to a 64x64x64 grid of occupancies."""
    w = Weights(SEED + 4)
    kernel = (4, 4, 4)
    channels = [LATENT, *args.gan_widths, 1]
    w.shape("grid", [-1, LATENT, 1, 1, 1])
    nodes = [helper.make_node("Reshape", ["z", "grid"], ["x0"], name="/Reshape")]
    x = "x0"
    for i in range(5):
        c_in, c_out = channels[i], channels[i + 1]
        last = i == 4
        stride, padding = ((1,) * 3, (0,) * 3) if i == 0 else ((2,) * 3, (1,) * 3)
        # Each output sums c_in times this many products; keep the signal's size through the net,
        # and amplify at the end so that the sigmoid's whole range occurs.
        products = c_in * (1 if i == 0 else 8)
        bound = math.sqrt(3.0 / products) * (4.0 if last else 1.0)
        weight = w.uniform(f"layer{i + 1}.conv.weight", (c_in, c_out, *kernel), -bound, bound)
        bias = w.uniform("layer5.conv.bias", (1,), -0.5, 0.5) if last else None
        nodes.append(conv_transpose(x, weight, bias, f"conv{i + 1}", kernel, stride, padding))
        if last:
            nodes.append(helper.make_node("Sigmoid", ["conv5"], ["voxels"], name="/Sigmoid"))
            break
        norm = f"layer{i + 1}.norm"
        inputs = [
            f"conv{i + 1}",
            w.uniform(f"{norm}.weight", (c_out,), 0.5, 1.5),
            w.uniform(f"{norm}.bias", (c_out,), -0.2, 0.2),
            w.uniform(f"{norm}.running_mean", (c_out,), -0.2, 0.2),
            w.uniform(f"{norm}.running_var", (c_out,), 0.3, 0.6),
        ]
        nodes.append(
            helper.make_node(
                "BatchNormalization", inputs, [f"norm{i + 1}"], name=f"/norm{i + 1}", epsilon=1e-5
            )
        )
        x = f"x{i + 1}"
        nodes.append(helper.make_node("Relu", [f"norm{i + 1}"], [x], name=f"/relu{i + 1}"))
    widths = ", ".join(map(str, args.gan_widths))
    return finish(
        "gan3d",
        f"3D-GAN generator, latent 200 to 64x64x64 voxels, channel widths {widths}.",
        nodes,
        w,
        {"z": ["N", LATENT]},
        {"voxels": ["N", 1, 64, 64, 64]},
        batch=16,
    )


MODELS = {f.__name__: f for f in (a_scale_pool, b_grouped, c_double_leaky_max, gan3d)}


def widths(text):
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != 4 or min(values) < 1:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not four positive numbers, as 512,256,128,64"
        )
    return values


def parse(argv):
    full, cut = (",".join(map(str, w)) for w in (FULL_GAN_WIDTHS, CUT_GAN_WIDTHS))
    parser = argparse.ArgumentParser(
        description="Write the example models as ONNX files, byte for byte the same each time.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"""examples:
  python models/make_models.py                          remake the files of this folder
  python models/make_models.py --only c_double_leaky_max --out /tmp
  python models/make_models.py --only gan3d --gan-widths {full} --out /tmp
                                                        the 3D-GAN at full width (70 MB)
""",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent,
        metavar="DIR",
        help="folder to write into (default: the folder of this script)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(MODELS),
        metavar="NAME",
        help=f"write only this model; may be repeated ({', '.join(MODELS)})",
    )
    parser.add_argument(
        "--gan-widths",
        type=widths,
        default=CUT_GAN_WIDTHS,
        metavar="A,B,C,D",
        help=f"channels after the 3D-GAN's first four layers (default: {cut}; full width: {full})",
    )
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only or MODELS:
        model = MODELS[name](args)
        onnx.checker.check_model(model, full_check=True)
        data = model.SerializeToString(deterministic=True)
        path = args.out / f"{name}.onnx"
        path.write_bytes(data)
        print(f"{path}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
