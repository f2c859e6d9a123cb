"""``python -m dispatcher``: the same program as ``ekiden``."""

from dispatcher.cli.main import run

if __name__ == "__main__":
    run()
