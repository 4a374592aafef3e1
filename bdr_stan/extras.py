"""Libraries of the package's extras, which an installation may lack."""

from importlib import import_module


def require(message: str, *modules: str) -> None:
    """Import modules; ImportError with the message, how to install them, if one is missing."""
    try:
        for name in modules:
            import_module(name)
    except ImportError as error:
        raise ImportError(message) from error
