"""`python -m tidings`: the same as the command `tidings`."""

from tidings.cli import main

if __name__ == "__main__":
    main()
