"""The libraries of the extra "maps"."""

from bdr_stan.extras import require


def check_installed() -> None:
    """Raise ImportError with the install command if a library of the extra is missing."""
    require(
        "maps need geopandas, rasterio and rioxarray: pip install 'bdr-stan[maps]'",
        "geopandas",
        "rasterio",
        "rioxarray",
    )
