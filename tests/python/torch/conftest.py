# SPDX-License-Identifier: Apache-2.0
"""What the tests of the PyTorch side share."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from upconv._torch.execute import Statistics


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def settable_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.testing._internal, which some tests import, freezes the flags of torch.backends."""
    frozen = "__allow_nonbracketed_mutation_flag"
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, frozen, True)


@pytest.fixture
def library_runs():
    """library_runs(n): exactly n executions by the library in the block, and none by PyTorch."""

    @contextmanager
    def expect(count: int) -> Iterator[None]:
        calls, fallbacks = Statistics.calls, Statistics.fallbacks
        yield
        assert Statistics.calls - calls == count
        assert Statistics.fallbacks == fallbacks

    return expect
