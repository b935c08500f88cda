# SPDX-License-Identifier: Apache-2.0
"""What upconv did in a call: the operations that its plans count.

Rewriting saves work (an average pool becomes part of the weights), so a floor of the operations
that a model is written with would be none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import upconv
from upconv._torch import execute


class Account:
    """Of the transposed convolutions of one call of a model."""

    def __init__(self) -> None:
        self.convolutions = 0
        self.written = 0.0  # operations of these convolutions as PyTorch counts them
        self.planned = 0.0  # operations of the plans, what follows included

    def add(self, x: torch.Tensor, weight: torch.Tensor, bias: Any, sizes: Any, text: str) -> None:
        problem = upconv.problem_text(
            **execute.problem_fields(x, weight, bias, sizes), epilogue=text
        )
        # Rewriting does not depend on the device.
        work = upconv.Plan(upconv.context("cpu"), problem).work()
        self.convolutions += 1
        self.written += 2 * x.numel() * math.prod(weight.shape[1:])
        self.planned += work.planned_flop


@contextmanager
def watched(account: Account) -> Iterator[None]:
    """Every execution in the block goes into the account."""
    run = execute.run

    def noted(x: Any, weight: Any, bias: Any, sizes: Any, text: str, *rest: Any) -> Any:
        account.add(x, weight, bias, sizes, text)
        return run(x, weight, bias, sizes, text, *rest)

    execute.run = noted
    try:
        yield
    finally:
        execute.run = run


def account_of(model: Callable[..., Any], inputs: list[Any]) -> Account:
    account = Account()
    with watched(account):
        model(*inputs)
    return account
