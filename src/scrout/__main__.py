"""`python -m scrout`, the same as `scrout`."""

from scrout.cli.main import main

main()
