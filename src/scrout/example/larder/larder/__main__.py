"""Lets `python -m larder` stand for the installed command."""

import sys

from larder.cli import main

if __name__ == "__main__":
    sys.exit(main())
