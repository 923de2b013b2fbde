"""The command `quire` of the wheel: becomes the program that came with the library."""
import os
import sys

from ._tools import command_path


def main() -> None:
    path = command_path()
    if os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        sys.exit("quire: this package came without the command")
    os.execv(path, ["quire", *sys.argv[1:]])


if __name__ == "__main__":
    main()
