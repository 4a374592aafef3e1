"""The libraries of the extra "maps", which nothing else of the package needs."""


def check_installed() -> None:
    """Raise ImportError, which says how to install them, where a library is missing."""
    try:
        import geopandas
        import rasterio
        import rioxarray  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "maps need geopandas, rasterio and rioxarray: pip install 'bdr-stan[maps]'"
        ) from error
