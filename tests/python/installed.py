# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel holds. Run by name, where the package is installed: .ci/run python."""

import importlib.metadata
import pathlib

import upconv
from upconv import _library


def names():
    files = importlib.metadata.files("upconv")
    return {str(file) for file in files if "__pycache__" not in str(file)}


def test_the_library_is_the_one_inside():
    folder = pathlib.Path(upconv.__file__).parent
    assert pathlib.Path(_library.PATH) == folder / "libupconv.so"
    assert "site-packages" in str(folder)


def test_the_package_alone():
    inside = {name for name in names() if not name.startswith("upconv-")}
    assert {"upconv/__init__.py", "upconv/py.typed", "upconv/libupconv.so"} <= inside
    assert all(name.startswith("upconv/") for name in inside)
    built = {".a", ".c", ".cu", ".h", ".o", ".cmake"} & {
        pathlib.Path(name).suffix for name in inside
    }
    assert not built
    libraries = {name for name in inside if name.endswith(".so")}
    # upconv_short is built where Python's headers are.
    assert libraries - {"upconv/upconv_short.so"} == {"upconv/libupconv.so"}
    assert any(name.endswith("LICENSE") for name in names())


def test_metadata():
    wheel = importlib.metadata.distribution("upconv").read_text("WHEEL")
    assert "Tag: py3-none-" in wheel
    metadata = importlib.metadata.metadata("upconv")
    assert metadata["Version"] == upconv.__version__
    needs = [need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need]
    assert len(needs) == 1 and needs[0].startswith("numpy")
    assert set(metadata.get_all("Provides-Extra")) == {"torch", "bench", "test"}
