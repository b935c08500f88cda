# SPDX-License-Identifier: Apache-2.0
"""The shared library: finding it, loading it, and the C declarations of include/upconv/upconv.h.

The library lies beside this file in an installed package. The environment variable UPCONV_LIBRARY
names another one, such as that of a build tree.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
)
from pathlib import Path

# The structures below are those of this version's header; another may lay them out differently.
HEADER_VERSION = (0, 1)

MAX_SPATIAL = 3
MAX_RANK = 5

OK, INVALID_ARGUMENT, UNSUPPORTED, OVERFLOW, OUT_OF_MEMORY, DEVICE_ERROR = range(6)


class CTensor(Structure):
    """upconv_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("rank", c_int),
        ("shape", c_int64 * MAX_RANK),
        ("stride", c_int64 * MAX_RANK),
        ("offset", c_int64 * MAX_RANK),
    ]


class CContextOptions(Structure):
    """upconv_context_options"""

    _fields_ = [("device", c_char_p), ("threads", c_int)]


class CProblemDesc(Structure):
    """upconv_problem_desc"""

    _fields_ = [
        ("spatial_dims", c_int),
        ("batch", c_int64),
        ("in_channels", c_int64),
        ("out_channels", c_int64),
        ("groups", c_int64),
        ("in_size", c_int64 * MAX_SPATIAL),
        ("kernel", c_int64 * MAX_SPATIAL),
        ("stride", c_int64 * MAX_SPATIAL),
        ("dilation", c_int64 * MAX_SPATIAL),
        ("pad_begin", c_int64 * MAX_SPATIAL),
        ("pad_end", c_int64 * MAX_SPATIAL),
        ("output_padding", c_int64 * MAX_SPATIAL),
        ("bias", c_bool),
        ("x_dtype", c_int),
        ("w_dtype", c_int),
        ("y_dtype", c_int),
        ("x_layout", c_int),
        ("y_layout", c_int),
        ("math", c_int),
    ]


class CParameters(Structure):
    """upconv_parameters"""

    _fields_ = [
        ("weight", CTensor),
        ("bias", CTensor),
        ("params", POINTER(CTensor)),
        ("param_count", c_int),
    ]


class CPlanOptions(Structure):
    """upconv_plan_options"""

    _fields_ = [
        ("constants", POINTER(CParameters)),
        ("candidate", c_char_p),
        ("no_rewrite", c_bool),
        ("no_fuse", c_bool),
        ("tuning", c_int),
    ]


class CWork(Structure):
    """upconv_work"""

    _fields_ = [
        ("source_flop", c_double),
        ("planned_flop", c_double),
        ("source_bytes", c_double),
        ("planned_bytes", c_double),
    ]


class CArguments(Structure):
    """upconv_arguments"""

    _fields_ = [
        ("x", CTensor),
        ("y", CTensor),
        ("tensors", POINTER(CTensor)),
        ("tensor_count", c_int),
        ("x_shape", POINTER(c_int64)),
        ("packed", c_void_p),
        ("workspace", c_void_p),
        ("workspace_size", c_size_t),
        ("stream", c_void_p),
    ]


class CErrorModel(Structure):
    """upconv_error_model"""

    _fields_ = [("operand_rounding", c_double), ("tensor_core", c_bool)]


# name: (result, arguments). A status is an int; an opaque handle is a void pointer. What is called
# often takes the addresses of its structures as numbers, which is the cheapest thing to convert.
_text = (c_char_p, c_size_t, POINTER(c_size_t))
_shape = POINTER(c_int64)
_DECLARATIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "status_string": (c_char_p, (c_int,)),
    "last_error": (c_char_p, ()),
    "version": (c_char_p, ()),
    "context_create": (c_int, (POINTER(CContextOptions), POINTER(c_void_p))),
    "context_destroy": (None, (c_void_p,)),
    "context_threads": (c_int, (c_void_p,)),
    "context_describe": (c_char_p, (c_void_p,)),
    "problem_parse": (c_int, (c_char_p, POINTER(c_void_p), POINTER(c_void_p))),
    "problem_destroy": (None, (c_void_p,)),
    "problem_get_desc": (c_int, (c_void_p, POINTER(CProblemDesc))),
    "problem_conv_shape": (c_int, (c_void_p, _shape)),
    "problem_print": (c_int, (c_void_p, c_void_p, *_text)),
    "epilogue_parse": (c_int, (c_int, c_char_p, POINTER(c_void_p))),
    "epilogue_destroy": (None, (c_void_p,)),
    "epilogue_print": (c_int, (c_void_p, *_text)),
    "epilogue_param_name": (c_char_p, (c_void_p, c_int)),
    "epilogue_tensor_name": (c_char_p, (c_void_p, c_int)),
    "output_shape": (c_int, (c_void_p, c_void_p, _shape)),
    "plan_create": (
        c_int,
        (c_void_p, c_void_p, c_void_p, POINTER(CPlanOptions), POINTER(c_void_p)),
    ),
    "plan_destroy": (None, (c_void_p,)),
    "plan_print": (c_int, (c_void_p, *_text)),
    "plan_source": (c_int, (c_void_p, *_text)),
    "plan_candidate": (c_char_p, (c_void_p,)),
    "plan_candidate_name": (c_char_p, (c_void_p, c_int)),
    "plan_rule": (c_char_p, (c_void_p, c_int)),
    "plan_work": (c_int, (c_void_p, POINTER(CWork))),
    "plan_packed_size": (c_size_t, (c_void_p,)),
    "plan_pack": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "plan_output_shape": (c_int, (c_void_p, _shape, _shape)),
    "plan_input_box": (c_int, (c_void_p, _shape, _shape, _shape, _shape, _shape)),
    "plan_workspace_size": (c_int, (c_void_p, _shape, POINTER(c_size_t))),
    "execute": (c_int, (c_void_p, c_void_p)),
    "reference": (
        c_int,
        (
            c_void_p,
            c_void_p,
            POINTER(CParameters),
            POINTER(CArguments),
            POINTER(CErrorModel),
            c_void_p,
            c_void_p,
        ),
    ),
    "compare": (c_int, (POINTER(CTensor), c_void_p, c_void_p, POINTER(c_double), _shape)),
}


def _file_name() -> str:
    if sys.platform == "darwin":
        return "libupconv.dylib"
    return "upconv.dll" if sys.platform == "win32" else "libupconv.so"


def _find() -> str:
    named = os.environ.get("UPCONV_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise ImportError(f"UPCONV_LIBRARY={named}: there is no such file")
        return os.path.abspath(named)
    # An editable installation has two folders: the sources, and where the library was installed.
    folders = list(getattr(sys.modules.get(__package__), "__path__", [])) or [Path(__file__).parent]
    for folder in folders:
        candidate = os.path.join(folder, _file_name())
        if os.path.isfile(candidate):
            return candidate
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(
        f"upconv: {_file_name()} is not in {looked}; install the package with pip, or set"
        " UPCONV_LIBRARY to the library of a build tree, such as build/lib/libupconv.so"
    )


def _load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"upconv: cannot load {path}: {error}") from error
    for name, (result, arguments) in _DECLARATIONS.items():
        try:
            function = getattr(library, "upconv_" + name)
        except AttributeError:
            raise ImportError(
                f"upconv: {path} has no upconv_{name}: it is of another version"
            ) from None
        function.restype = result
        function.argtypes = arguments
    version = library.upconv_version().decode()
    if version.split(".")[:2] != [str(part) for part in HEADER_VERSION]:
        wanted = ".".join(str(part) for part in HEADER_VERSION)
        raise ImportError(f"upconv: {path} is version {version}, but this package needs {wanted}")
    return library


PATH: str = _find()
lib: ctypes.CDLL = _load(PATH)
VERSION: str = lib.upconv_version().decode()
