"""The version of this installation."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("ekiden")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0.0.0"
