"""`python -m streamfl` is the command line."""

from streamfl.cli import main

if __name__ == "__main__":
    main()
