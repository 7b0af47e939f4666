"""Run the command line by `reconet`, `python -m reconet` or `torchrun -m reconet`."""

import sys

INTERRUPTED = 130  # the exit code after Ctrl-C


def main() -> int:
    """Run a verb and return its exit code. Ctrl-C is one line, also while modules are imported."""
    try:
        from reconet.cli import main as run_verb
    except KeyboardInterrupt:
        print("reconet: interrupted", file=sys.stderr)
        return INTERRUPTED
    return run_verb()


if __name__ == "__main__":
    sys.exit(main())
