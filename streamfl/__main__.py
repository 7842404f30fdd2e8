"""The command line: `streamfl`, and `python -m streamfl`."""

import sys


def main() -> None:
    """Run a command; while what it needs is imported, which takes a while, it may be interrupted as well."""
    try:
        from streamfl.cli.main import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("streamfl: stopped\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
