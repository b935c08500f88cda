# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch as items of an epilogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

Tuple = tuple[Any, ...]


def expand(spatial_dims: int, items: Sequence[Any]) -> list[Any]:
    """items with the modules among them replaced by what they mean."""
    plain: list[Any] = []
    for item in items:
        if isinstance(item, nn.Module):
            plain.extend(items_of(spatial_dims, item))
        else:
            plain.append(item)
    return plain


def items_of(spatial_dims: int, module: nn.Module) -> list[Any]:
    """The items of one module; none if it changes nothing. TypeError if it is not known, or cannot
    be fused in the state it is in."""
    if isinstance(module, nn.Sequential):
        return expand(spatial_dims, list(module))
    translate = _KNOWN.get(type(module))
    if translate is None:
        raise TypeError(
            f"epilogue item {module}: a module of type {type(module).__name__} is not known"
        )
    if not can_fuse(module):
        raise TypeError(
            f"epilogue item {module}: in training mode it depends on the whole batch; call eval()"
        )
    return list(translate(module, spatial_dims))


def can_fuse(module: nn.Module) -> bool:
    """Whether the module, in the state it is in, is a function of parameters and of one sample."""
    if isinstance(module, nn.Sequential):
        return all(can_fuse(part) for part in module)
    if isinstance(module, _NORMS):
        return not module.training and module.running_mean is not None
    if isinstance(module, _DROPOUTS):
        return not module.training or module.p == 0
    return True


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_DROPOUTS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


def _batch_norm(module: Any, spatial_dims: int) -> Iterator[Tuple]:
    yield (
        "batch_norm",
        module.running_mean,
        module.running_var,
        module.weight,
        module.bias,
        float(module.eps),
    )


def _max_pool(module: Any, spatial_dims: int) -> Iterator[Tuple]:
    _check_rank(module, spatial_dims)
    if module.return_indices:
        raise TypeError(f"epilogue item {module}: return_indices must be False")
    yield ("max_pool", module.kernel_size, _window(module, {"dilation": module.dilation}))


def _avg_pool(module: Any, spatial_dims: int) -> Iterator[Tuple]:
    _check_rank(module, spatial_dims)
    options = {
        "count_include_pad": module.count_include_pad,
        "divisor_override": getattr(module, "divisor_override", None),
    }
    yield ("avg_pool", module.kernel_size, _window(module, options))


def _window(module: Any, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "stride": module.stride,
        "padding": module.padding,
        "ceil_mode": module.ceil_mode,
        **more,
    }


def _adaptive(name: str) -> Callable[[Any, int], Iterator[Tuple]]:
    def translate(module: Any, spatial_dims: int) -> Iterator[Tuple]:
        _check_rank(module, spatial_dims)
        sizes = module.output_size
        if set(sizes if isinstance(sizes, (tuple, list)) else (sizes,)) != {1}:
            raise TypeError(f"epilogue item {module}: output_size must be 1")
        if getattr(module, "return_indices", False):
            raise TypeError(f"epilogue item {module}: return_indices must be False")
        yield (name,)

    return translate


def _check_rank(module: nn.Module, spatial_dims: int) -> None:
    if not type(module).__name__.endswith(f"{spatial_dims}d"):
        raise TypeError(f"epilogue item {module}: must be one for {spatial_dims} spatial axes")


def _softmax(name: str) -> Callable[[Any, int], Iterator[Tuple]]:
    def translate(module: Any, spatial_dims: int) -> Iterator[Tuple]:
        if getattr(module, "dim", 1) not in (1, -(spatial_dims + 1)):
            raise TypeError(f"epilogue item {module}: dim must be 1, the channels")
        yield (name,)

    return translate


def _plain(name: str, *attributes: str) -> Callable[[Any, int], Iterator[Tuple]]:
    """An operator whose attributes the module has under these names."""

    def translate(module: Any, spatial_dims: int) -> Iterator[Tuple]:
        yield (name, *[getattr(module, attribute) for attribute in attributes])

    return translate


def _gelu(module: nn.GELU, spatial_dims: int) -> Iterator[Tuple]:
    yield ("gelu_tanh" if module.approximate == "tanh" else "gelu",)


def _nothing(module: nn.Module, spatial_dims: int) -> Iterator[Tuple]:
    return iter(())


_KNOWN: dict[type, Callable[[Any, int], Iterator[Tuple]]] = {
    nn.Identity: _nothing,
    nn.ReLU: _plain("relu"),
    nn.ReLU6: _plain("clamp", "min_val", "max_val"),
    nn.Hardtanh: _plain("clamp", "min_val", "max_val"),
    nn.LeakyReLU: _plain("leaky_relu", "negative_slope"),
    nn.PReLU: _plain("prelu", "weight"),
    nn.ELU: _plain("elu", "alpha"),
    nn.SELU: _plain("selu"),
    nn.CELU: _plain("celu", "alpha"),
    nn.Softplus: _plain("softplus", "beta", "threshold"),
    nn.Softsign: _plain("softsign"),
    nn.GELU: _gelu,
    nn.SiLU: _plain("silu"),
    nn.Mish: _plain("mish"),
    nn.Hardswish: _plain("hardswish"),
    nn.Hardsigmoid: _plain("hardsigmoid"),
    nn.Sigmoid: _plain("sigmoid"),
    nn.Tanh: _plain("tanh"),
    nn.Softmax: _softmax("softmax"),
    nn.Softmax2d: _softmax("softmax"),
    nn.LogSoftmax: _softmax("log_softmax"),
    **{norm: _batch_norm for norm in _NORMS},
    **{dropout: _nothing for dropout in _DROPOUTS},
    **{pool: _max_pool for pool in (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)},
    **{pool: _avg_pool for pool in (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)},
    **{
        pool: _adaptive("global_avg_pool")
        for pool in (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
    },
    **{
        pool: _adaptive("global_max_pool")
        for pool in (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)
    },
}
