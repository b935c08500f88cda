# SPDX-License-Identifier: Apache-2.0
"""Importing: without PyTorch, with and without the library."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import upconv
from upconv import _library

NO_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "ml_dtypes"):
            raise ImportError(name + " was asked for")
sys.meta_path.insert(0, Refuse())
"""


def python(code, **environment):
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    settings = {name: value for name, value in settings.items() if value is not None}
    return subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=60
    )


def test_works_without_pytorch():
    done = python(
        NO_TORCH
        + """
import numpy as np
import upconv
y = upconv.conv_transpose1d(np.ones((1, 1, 3), "f"), np.ones((1, 1, 2), "f"), epilogue="relu")
assert y.tolist() == [[[1, 2, 2, 1]]], y
assert "torch" not in sys.modules
assert {"conv_transpose3d", "nn", "fuse", "explain"} <= set(dir(upconv))
try:
    upconv.nn
except ImportError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout


def test_importing_does_not_import_the_rest():
    done = python("import sys, upconv; print([n for n in ('torch', 'numpy') if n in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_version_is_that_of_the_library():
    assert upconv.__version__ == _library.VERSION
    assert tuple(map(int, upconv.__version__.split(".")))[:2] == _library.HEADER_VERSION


def test_unknown_attributes_are_refused():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = upconv.nonsense


def test_a_missing_library_is_an_import_error(tmp_path):
    missing = str(tmp_path / "none.so")
    done = python("import upconv", UPCONV_LIBRARY=missing)
    assert f"ImportError: UPCONV_LIBRARY={missing}: there is no such file" in done.stderr
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    done = python("import upconv", UPCONV_LIBRARY=str(broken))
    assert f"ImportError: upconv: cannot load {broken}" in done.stderr


def test_a_package_without_its_library_says_so(tmp_path):
    package = pathlib.Path(upconv.__file__).parent
    ignore = shutil.ignore_patterns("libupconv*", "__pycache__")
    shutil.copytree(package, tmp_path / "upconv", ignore=ignore)
    done = python("import upconv", UPCONV_LIBRARY=None, PYTHONPATH=str(tmp_path))
    assert "ImportError: upconv: libupconv" in done.stderr
    assert str(tmp_path / "upconv") in done.stderr and "UPCONV_LIBRARY" in done.stderr


def test_another_library_is_refused():
    import ctypes.util

    other = ctypes.util.find_library("m")
    loaded = next(
        (p.split()[-1] for p in open("/proc/self/maps") if other and f"/{other}" in p), None
    )
    if loaded is None:
        pytest.skip("the mathematical library is not a file here")
    done = python("import upconv", UPCONV_LIBRARY=loaded)
    assert "ImportError: upconv: " in done.stderr and "is of another version" in done.stderr
