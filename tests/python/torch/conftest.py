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
