"""The `softrobust` command, also as `python -m softrobust`: it answers Ctrl-C from the start on.

The command line is imported inside, as an interrupt may come in the midst of that.
"""

import sys

from softrobust._core.interrupts import interrupted, leave, listen


def main() -> None:
    """Entry point of the command."""
    listen()
    try:
        from softrobust.cli import main as command

        command()
    except (KeyboardInterrupt, Exception):
        if not interrupted() or "--debug" in sys.argv:
            raise
        print("softrobust: Interrupted; nothing was written.", file=sys.stderr)
        sys.exit(130)
    finally:
        leave()


if __name__ == "__main__":
    main()
