#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export PyTorch modules with both of PyTorch's ONNX exporters into tests/data/exported.

Each folder holds model.onnx and one test_data_set_0 with inputs and the outputs that PyTorch
computes in float64, in the form that `upconv test` reads. Needs torch, onnx, onnxscript and
NumPy; with onnxruntime installed the written graphs are run and compared.
"""

import argparse
import copy
import dataclasses
import fnmatch
import logging
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, numpy_helper
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
TORCH_TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
}


@dataclasses.dataclass
class Variant:
    """One way to export: which exporter, which operator set (None: the exporter's own)."""

    exporter: str
    opset: int | None = None
    tag: str = ""
    options: dict = dataclasses.field(default_factory=dict)

    @property
    def name(self):
        return self.exporter + (f"-op{self.opset}" if self.opset else "") + self.tag


TORCHSCRIPT = Variant("torchscript")
TORCHSCRIPT_17 = Variant("torchscript", 17)
DYNAMO = Variant("dynamo")
BOTH = (TORCHSCRIPT_17, DYNAMO)


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], nn.Module]
    shapes: list[tuple[int, ...]]
    variants: tuple[Variant, ...] = BOTH
    dynamic: list[dict[int, str]] | None = None
    # Sizes while exporting, when other than those tested: then an exporter that fixed a size
    # which should be symbolic is found out.
    export_shapes: list[tuple[int, ...]] | None = None
    dtype: torch.dtype = torch.float32
    # Both signs for activations and maxima; [0, 1) as in the founding models otherwise.
    signed: bool = True


# ---- modules ----


class ScalePool(nn.Module):
    def __init__(self, c_in, c_out, kernel_size, stride, padding, scale1, scale2, bias_shape):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            c_in, c_out, kernel_size, stride=stride, padding=padding
        )
        self.scale1 = nn.Parameter(torch.tensor(scale1))
        self.avg_pool = nn.AvgPool3d(kernel_size=2)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale2 = nn.Parameter(torch.tensor(scale2))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = x * self.scale1
        x = self.avg_pool(x)
        x = x + self.bias
        return x * self.scale2


class Grouped(nn.Module):
    def __init__(self, c_in, c_out, kernel_size, stride, padding, output_padding, groups, bias):
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
            c_in,
            c_out,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        return self.conv_transpose3d(x)


class DoubleLeakyMax(nn.Module):
    def __init__(self, c_in, c_out, kernel_size, stride, padding, output_padding, multiplier_shape):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            c_in, c_out, kernel_size, stride=stride, padding=padding, output_padding=output_padding
        )
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.leaky_relu = nn.LeakyReLU(negative_slope=0.2)
        self.max_pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = self.leaky_relu(x)
        x = x * self.multiplier
        x = self.leaky_relu(x)
        return self.max_pool(x)


class Then(nn.Module):
    """A small 2-D or 3-D transposed convolution and a function of its result."""

    def __init__(self, function, rank=2, channels=4, bias=True):
        super().__init__()
        conv = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[rank]
        self.up = conv(3, channels, 4, stride=2, padding=1, bias=bias)
        # A wide range of values: activations are tested away from zero too.
        nn.init.uniform_(self.up.weight, -1.0, 1.0)
        self.function = function

    def forward(self, x):
        return self.function(self.up(x))


class UNetStep(nn.Module):
    """Up, concatenate the skip connection, convolve, normalise, activate."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.conv = nn.Conv2d(8, 4, 3, padding=1, bias=False)
        self.norm = trained_norm(nn.BatchNorm2d(4))

    def forward(self, x, skip):
        return F.relu(self.norm(self.conv(torch.cat([skip, self.up(x)], dim=1))))


class VocoderStep(nn.Module):
    """One stage of a HiFi-GAN generator: activate, up, residual block of dilated convolutions."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(8, 4, 16, stride=8, padding=4)
        self.conv1 = nn.Conv1d(4, 4, 3, dilation=3, padding=3)
        self.conv2 = nn.Conv1d(4, 4, 3, padding=1)
        self.post = nn.Conv1d(4, 1, 7, padding=3)

    def forward(self, x):
        x = self.up(F.leaky_relu(x, 0.1))
        y = self.conv2(F.leaky_relu(self.conv1(F.leaky_relu(x, 0.1)), 0.1))
        return torch.tanh(self.post(F.leaky_relu(x + y, 0.1)))


class NormRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(3, 4, 4, stride=2, padding=1, bias=False)
        self.norm = trained_norm(nn.BatchNorm3d(4))

    def forward(self, x):
        return F.relu(self.norm(self.up(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)
        self.scale = nn.Parameter(torch.rand(1, 4, 1, 1) + 0.5)

    def forward(self, x, residual):
        y = self.up(x)
        y = y + residual
        return y * torch.sigmoid(y) + y * self.scale


class SlimWeights(nn.Module):
    """Arithmetic in float32, weights stored in 16 bits: a Cast stands before the convolution."""

    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter((torch.rand(3, 4, 3, 3) - 0.5).to(dtype))
        self.bias = nn.Parameter((torch.rand(4) - 0.5).to(dtype))

    def forward(self, x):
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.relu(F.conv_transpose2d(x, weight, bias, stride=2, padding=1))


def trained_norm(norm):
    """Running statistics and parameters as after some training."""
    for tensor, low, high in (
        (norm.weight, 0.5, 1.5),
        (norm.bias, -0.5, 0.5),
        (norm.running_mean, -0.2, 0.2),
        (norm.running_var, 0.3, 0.9),
    ):
        nn.init.uniform_(tensor, low, high)
    return norm


def founding(name, module):
    """The module with the weights of models/NAME.onnx."""
    model = onnx.load(ROOT / "models" / f"{name}.onnx")
    weights = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    module.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
    return module


# ---- cases ----


def founding_cases():
    ndhw = [{0: "N", 2: "D", 3: "H", 4: "W"}]
    yield Case(
        "a_scale_pool",
        lambda: founding("a_scale_pool", ScalePool(3, 16, 3, 2, 1, 0.5, 1.0, (16, 1, 1, 1))),
        [(1, 3, 3, 5, 6)],
        (
            Variant("torchscript", 13),
            # As exporters did long ago: initialisers are listed among the graph's inputs.
            Variant("torchscript", 11, "-inputs", {"keep_initializers_as_inputs": True}),
            DYNAMO,
            Variant("dynamo", 18, "-raw", {"optimize": False}),
        ),
        ndhw,
        [(2, 3, 4, 6, 8)],
        signed=False,
    )
    yield Case(
        "b_grouped",
        lambda: founding(
            "b_grouped", Grouped(32, 32, (3, 5, 7), (2, 2, 2), (1, 2, 3), (1, 1, 1), 4, False)
        ),
        [(1, 32, 2, 3, 5)],
        (TORCHSCRIPT_17, Variant("dynamo", tag="-external", options={"external_data": True})),
        ndhw,
        [(2, 32, 4, 6, 8)],
        signed=False,
    )
    yield Case(
        "c_double_leaky_max",
        lambda: founding("c_double_leaky_max", DoubleLeakyMax(16, 32, 3, 2, 1, 1, (32, 1, 1, 1))),
        [(1, 16, 2, 3, 5)],
        (Variant("torchscript", 11), DYNAMO),
        ndhw,
        [(2, 16, 4, 6, 8)],
        signed=False,
    )


# One transposed convolution, then this. The functions are the ones that users write.
ACTIVATIONS = {
    "gelu_erf": F.gelu,
    "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": F.softplus,
    "softplus_beta": lambda y: F.softplus(y, beta=2.0),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "elu": lambda y: F.elu(y, alpha=0.7),
    "relu6": F.relu6,
    "clamp": lambda y: torch.clamp(y, min=-0.5) / 2.0,
}
CHANNEL_FUNCTIONS = {
    "softmax": lambda y: torch.softmax(y, dim=1),
    "log_softmax": lambda y: torch.log_softmax(y, dim=1),
    "logsumexp": lambda y: torch.logsumexp(y, dim=1, keepdim=True),
}
SPATIAL_FUNCTIONS = {
    "global_avg_pool": lambda y: F.adaptive_avg_pool3d(y, 1),
    "global_max_pool": lambda y: F.adaptive_max_pool3d(y, 1),
    "mean": lambda y: y.mean(dim=(2, 3, 4)),
    "sum": lambda y: y.sum(dim=(2, 3, 4), keepdim=True),
    "amax": lambda y: y.amax(dim=(2, 3, 4)),
}
POOLS = {
    "avg_pool_ceil": nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False),
    "avg_pool_ceil_counted": nn.AvgPool2d(3, 2, padding=1, ceil_mode=True),
    "avg_pool_counted": nn.AvgPool2d((3, 2), (2, 1), padding=(1, 0), count_include_pad=True),
    "avg_pool_uncounted": nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    "max_pool_dilated": nn.MaxPool2d(3, stride=1, padding=1, dilation=2),
    "max_pool_ceil": nn.MaxPool2d(3, stride=2, ceil_mode=True),
}


def pattern_cases():
    for name, function in ACTIVATIONS.items():
        variants = BOTH
        if name.startswith("gelu") or name in ("mish", "hardswish"):
            # Gelu is one operator from operator set 20 on, Mish from 18, HardSwish from 14.
            variants = (Variant("torchscript", 13), TORCHSCRIPT, Variant("dynamo", 18), DYNAMO)
        yield Case(name, lambda f=function: Then(f), [(2, 3, 4, 5)], variants)
    for name, function in CHANNEL_FUNCTIONS.items():
        yield Case(name, lambda f=function: Then(f, channels=7), [(2, 3, 3, 4)])
    for name, function in SPATIAL_FUNCTIONS.items():
        # Reductions take their axes as an attribute up to operator set 17 (ReduceSum: 12).
        yield Case(name, lambda f=function: Then(f, rank=3), [(2, 3, 2, 3, 4)])
    for name, function in POOLS.items():
        yield Case(name, lambda f=function: Then(f), [(1, 3, 5, 6)])


def network_cases():
    yield Case(
        "unet_step",
        UNetStep,
        [(1, 8, 3, 4), (1, 4, 6, 8)],
        BOTH,
        [{0: "N"}, {0: "N"}],
        [(2, 8, 3, 4), (2, 4, 6, 8)],
    )
    yield Case("vocoder_step", VocoderStep, [(1, 8, 5)], BOTH, [{0: "N", 2: "frames"}], [(2, 8, 9)])
    yield Case("batch_norm_relu", NormRelu, [(2, 3, 2, 3, 4)])
    yield Case("residual", Residual, [(2, 3, 4, 5), (2, 4, 8, 10)])
    yield Case("float16", lambda: Then(F.relu), [(1, 3, 4, 5)], dtype=torch.float16)
    # The standard's ConvTranspose takes bfloat16 from operator set 22 on.
    yield Case(
        "bfloat16",
        lambda: Then(F.relu),
        [(1, 3, 4, 5)],
        (Variant("dynamo", 22),),
        dtype=torch.bfloat16,
    )
    slim = (
        Variant("torchscript", 17, "-nofold", {"do_constant_folding": False}),
        Variant("dynamo", tag="-raw", options={"optimize": False}),
    )
    for dtype, name in ((torch.float16, "float16_weights"), (torch.bfloat16, "bfloat16_weights")):
        yield Case(name, lambda d=dtype: SlimWeights(d), [(1, 3, 4, 5)], slim)


def all_cases():
    yield from founding_cases()
    yield from pattern_cases()
    yield from network_cases()


# ---- export ----


def random_inputs(case, shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = []
    for shape in shapes:
        x = torch.rand(shape, generator=generator)
        inputs.append((x * 2 - 1 if case.signed else x).to(case.dtype))
    return tuple(inputs)


def export(module, case, variant, inputs, path):
    input_names = ["x", "skip" if "unet" in case.name else "residual"][: len(inputs)]
    options = {"input_names": input_names, "output_names": ["y"], "opset_version": variant.opset}
    if variant.exporter == "torchscript":
        options["dynamo"] = False
        if case.dynamic:
            options["dynamic_axes"] = dict(zip(input_names, case.dynamic, strict=True))
    else:
        options["dynamo"] = True
        options["external_data"] = False
        options["verbose"] = False
        if case.dynamic:
            options["dynamic_shapes"] = tuple(case.dynamic)
    options.update(variant.options)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, path, **options)


def drop_traces(path):
    """Remove Python stack traces: they hold the paths of the machine that exported."""
    model = onnx.load(path, load_external_data=False)
    messages = [model, model.graph, *model.functions, *model.graph.node]
    messages += [*model.graph.input, *model.graph.output, *model.graph.value_info]
    messages += [*model.graph.initializer]
    messages += [node for function in model.functions for node in function.node]
    for message in messages:
        kept = [p for p in message.metadata_props if not p.key.endswith("stack_trace")]
        del message.metadata_props[:]
        message.metadata_props.extend(kept)
    data = model.SerializeToString(deterministic=True)
    for folder in {str(ROOT), str(Path.cwd()), str(Path(torch.__file__).parent)}:
        if folder.encode() in data:
            raise RuntimeError(f"{path} contains the local path {folder}")
    path.write_bytes(data)


def to_proto(tensor, name):
    shape = tuple(tensor.shape)
    bits = tensor.contiguous()
    bits = bits.view(torch.int16) if bits.element_size() == 2 else bits
    return onnx.helper.make_tensor(
        name, TORCH_TYPES[tensor.dtype], shape, bits.numpy().tobytes(), raw=True
    )


def expected(module, inputs, dtype):
    """PyTorch's result in float64, rounded once."""
    with torch.no_grad():
        return copy.deepcopy(module).double()(*(x.double() for x in inputs)).to(dtype)


def compare_with_runtime(folder, inputs, want):
    """Worst error in units of ONNX's own tolerance (1e-3 relative, 1e-7 absolute), or None."""
    try:
        import onnxruntime
    except ImportError:
        return None
    if want.dtype == torch.bfloat16:  # not implemented there
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    feeds = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    got = session.run(None, feeds)[0].astype(np.float64)
    want = want.double().numpy()
    if got.shape != want.shape:
        raise RuntimeError(f"{folder.name}: runtime shape {got.shape}, PyTorch shape {want.shape}")
    return float(np.max(np.abs(got - want) / (1e-7 + 1e-3 * np.abs(want))))


def write(case, variant, out):
    folder = out / f"{case.name}-{variant.name}"
    seed = zlib.crc32(case.name.encode())
    torch.manual_seed(seed)
    module = case.make().to(case.dtype if case.dtype != torch.float32 else None).eval()
    inputs = random_inputs(case, case.shapes, seed)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / "model.onnx"
        shapes = case.export_shapes or case.shapes
        export(module, case, variant, random_inputs(case, shapes, seed), made)
        drop_traces(made)
        onnx.checker.check_model(made, full_check=True)
        if folder.exists():
            shutil.rmtree(folder)
        (folder / "test_data_set_0").mkdir(parents=True)
        for path in sorted(Path(temporary).iterdir()):
            shutil.copyfile(path, folder / path.name)
    want = expected(module, inputs, case.dtype)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    constants = {initializer.name for initializer in model.graph.initializer}
    names = [info.name for info in model.graph.input if info.name not in constants]
    for i, (x, name) in enumerate(zip(inputs, names, strict=True)):
        proto = to_proto(x, name)
        (folder / f"test_data_set_0/input_{i}.pb").write_bytes(proto.SerializeToString())
    proto = to_proto(want, model.graph.output[0].name)
    (folder / "test_data_set_0/output_0.pb").write_bytes(proto.SerializeToString())
    error = compare_with_runtime(folder, inputs, want)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    operators = " ".join(node.op_type for node in model.graph.node)
    checked = "not run" if error is None else f"error {error:.3f}"
    print(f"{folder.name}: {size:,} bytes, {checked}: {operators}", flush=True)
    return error is None or error <= 1 or case.dtype != torch.float32


def main(argv=None):
    parser = argparse.ArgumentParser(
        description="Export PyTorch modules with both exporters as backend-test folders.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  python scripts/make_exported.py                        remake tests/data/exported
  python scripts/make_exported.py --match 'gelu*' --out /tmp/exported
  python scripts/make_exported.py --list

For each folder it prints the size, the worst error of ONNX Runtime against the stored output
(1 is the tolerance of ONNX's own backend tests) and the operators.
exit codes: 0 done, 1 ONNX Runtime and PyTorch disagree, 2 bad usage
""",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "tests/data/exported", metavar="DIR")
    parser.add_argument("--match", default="*", metavar="GLOB", help="only folders of these names")
    parser.add_argument("--list", action="store_true", help="print the names, write nothing")
    args = parser.parse_args(argv)
    chosen = [
        (case, variant)
        for case in all_cases()
        for variant in case.variants
        if fnmatch.fnmatchcase(f"{case.name}-{variant.name}", args.match)
    ]
    if not chosen:
        parser.error(f"--match {args.match}: no such case; --list prints them")
    if args.list:
        print("\n".join(f"{case.name}-{variant.name}" for case, variant in chosen))
        return 0
    logging.disable(logging.WARNING)
    right = [write(case, variant, args.out) for case, variant in chosen]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
