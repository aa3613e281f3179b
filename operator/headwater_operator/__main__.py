"""``python -m headwater_operator``: the same as ``headwater operator``."""

from __future__ import annotations

import argparse
import sys

from headwater_entry import heed_sigterm


def main() -> int:
    """Run the operator and return its exit code."""
    heed_sigterm()
    from headwater.errors import HeadwaterError  # noqa: PLC0415 - after the handler is there
    from headwater_operator.handlers.commands import register  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m headwater_operator")
    register(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["operator", *sys.argv[1:]])
    try:
        code: int = arguments.run(arguments)
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return code


if __name__ == "__main__":
    sys.exit(main())
