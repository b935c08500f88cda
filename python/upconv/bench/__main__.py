# SPDX-License-Identifier: Apache-2.0
"""`python -m upconv.bench`: names what is missing before it imports what needs it."""

import importlib.util
import sys

NEEDED = ("torch", "rich")


def main() -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        print(
            f"upconv.bench: {names} not installed for {sys.executable}: pip install {names}"
            " (or upconv's extra: pip install '.[bench]')",
            file=sys.stderr,
        )
        return 2
    from upconv.bench import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
