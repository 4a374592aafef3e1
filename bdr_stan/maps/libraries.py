"""The libraries of the extra "maps", which nothing else of the package needs."""

from importlib import import_module


def check_installed() -> None:
    """Raise ImportError, which says how to install them, where a library is missing."""
    try:
        for name in ("geopandas", "rasterio", "rioxarray"):
            import_module(name)
    except ImportError as error:
        raise ImportError(
            "maps need geopandas, rasterio and rioxarray: pip install 'bdr-stan[maps]'"
        ) from error
