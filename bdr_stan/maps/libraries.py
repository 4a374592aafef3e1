"""The libraries of the extra "maps"."""

from importlib import import_module


def check_installed() -> None:
    """Raise ImportError with the install command if a library of the extra is missing."""
    try:
        for name in ("geopandas", "rasterio", "rioxarray"):
            import_module(name)
    except ImportError as error:
        raise ImportError(
            "maps need geopandas, rasterio and rioxarray: pip install 'bdr-stan[maps]'"
        ) from error
