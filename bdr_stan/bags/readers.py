"""The ways into `Bags`: lists of arrays, stacked points, tables, files, cells and rasters."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdr_stan.arguments import answered
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.cells import cell_features, cell_values, check_anndata
from bdr_stan.bags.checks import as_bag, as_points, as_sizes, as_vector, describe, offsets_of_sizes
from bdr_stan.bags.chunks import memory_map, share_memory
from bdr_stan.bags.column_roles import ColumnRoles
from bdr_stan.bags.column_values import warn_of_similar_ids
from bdr_stan.bags.column_warnings import warn_of_values
from bdr_stan.bags.files import csv_table, parquet_table, parts_of
from bdr_stan.bags.matching import check_same_rows
from bdr_stan.bags.partitions import PartitionedBags, parts_of_dask
from bdr_stan.bags.tables import arguments_of_table, bag_codes, grouped_rows, grouping
from bdr_stan.types import Array, ArrayLike, DataFrame, PathName

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

_TABLE_OPTIONS = ("missing", "transformer", "like", "unseen")  # of from_dataframe


class Readers(BagsBase):
    """What makes `Bags`, a subclass."""

    @classmethod
    def _made(cls, *, copy=False, **arguments):
        """Bags of checked arguments; warns of codes of missing values."""
        make: Any = cls
        bags = make(**arguments, copy=copy)
        if not copy:
            warn_of_values(bags)
        return bags

    @classmethod
    @answered
    def from_list(
        cls,
        arrays: Sequence[ArrayLike] | Array,
        ids: Sequence[object] | Array | None = None,
        weights: Sequence[ArrayLike] | None = None,
        metadata: "DataFrame | None" = None,
        features: Iterable[object] | None = None,
    ) -> Self:
        """Bags from a list of arrays.

        Parameters
        ----------
        arrays : list of n arrays, shapes (n_points, p), one per bag
        weights : list of n arrays, shapes (n_points,), optional
        ids, metadata, features
            As in `Bags`; data frames provide the names of their columns.
        """
        if not isinstance(arrays, (Sequence, np.ndarray)) or isinstance(arrays, str):
            raise TypeError(
                f"expected a list of 2-D arrays, one per bag, found a {type(arrays).__name__}"
            )
        names = [describe(i, ids) for i in range(len(arrays))]
        features = _names_of_frames(arrays, names, features)
        bags = [as_bag(array, name) for array, name in zip(arrays, names)]
        for bag, name in zip(bags, names):
            if bag.shape[1] != bags[0].shape[1]:
                raise ValueError(
                    f"{name} has points of {bag.shape[1]} features, but {names[0]} of "
                    f"{bags[0].shape[1]}: give every bag the same columns"
                )
        return cls._made(
            points=np.concatenate(bags) if bags else np.empty((0, 1)),
            offsets=offsets_of_sizes([len(bag) for bag in bags]),
            weights=None if weights is None else _stack_weights(weights, arrays, names),
            ids=ids,
            metadata=metadata,
            features=features,
        )

    @classmethod
    @answered
    def from_points(
        cls,
        points: ArrayLike,
        bag: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        replicate_weights: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        copy: bool = True,
        **options: Any,
    ) -> Self:
        """Bags from stacked points and either the bag of each point or the bags' sizes.

        Parameters
        ----------
        points : array or data frame, shape (N_points, p); a memory map is not loaded
        bag : array, shape (N_points,), optional
            Label of each point's bag; becomes `ids`. Points are sorted by bag, and bags come in
            order of first appearance; in a memory map the points of a bag must already be
            contiguous.
        sizes : integers, shape (n,), optional
            Number of points in each bag, for points stored bag after bag.
        weights, replicate_weights, cluster, strata, copy, **options
            As in `Bags`; among the options `replicate_scale`, `metadata`, `features`, and `ids`
            with `sizes`.
        """
        if (bag is None) == (sizes is None):
            raise TypeError("pass exactly one of bag (the bag of each point) and sizes")
        names = _names_of_columns(options.pop("features", None), _columns_of_frame(points))
        of_points = {"weights": weights, "replicate_weights": replicate_weights}
        of_points |= {"cluster": cluster, "strata": strata}
        for name, values in {"bag": bag, **of_points}.items():
            check_same_rows(points, values, ("points", name))
        stack = as_points(points)
        if sizes is None:
            if options.pop("ids", None) is not None:
                raise TypeError("ids come from bag: pass only one of them")
            bag = as_vector(bag, len(stack), "bag", "point")
            codes, options["ids"] = bag_codes(bag, "point {} has no bag")
            warn_of_similar_ids(options["ids"])
            sizes, order = np.bincount(codes), grouping(codes)
            if order is not None:
                if memory_map(stack) is not None:
                    raise ValueError(
                        "the points of a bag do not lie together in the memory map: "
                        "sort the file by bag, or load it into memory first"
                    )
                stack = stack[order]
                for name, values in of_points.items():
                    # `Bags` raises for other shapes.
                    if values is not None and np.shape(values)[:1] == order.shape:
                        of_points[name] = np.asanyarray(values)[order]
        return cls._made(
            points=stack,
            offsets=offsets_of_sizes(as_sizes(sizes, len(stack))),
            **of_points,
            features=names,
            copy=copy and share_memory(stack, points),
            **options,
        )

    @classmethod
    @answered
    def from_dataframe(
        cls,
        df: "IntoDataFrame",
        bag: str | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        metadata: Sequence[str] | None = None,
        *,
        replicate_weights: Sequence[str] | None = None,
        replicate_scale: ArrayLike | None = None,
        cluster: str | None = None,
        strata: str | None = None,
        missing: str = "error",
        transformer: Any = None,
        like: Any = None,
        unseen: str = "error",
    ) -> Self:
        """Bags from a pandas, polars, pyarrow or other Arrow table with one row per point.

        Numbers are unchanged, true and false become 1 and 0, texts and categories become indicator
        columns "name=value". Bags come in the order of their ids.

        Parameters
        ----------
        df : table of pandas, polars or pyarrow
            With pyarrow installed, anything that has ``__arrow_c_stream__``, for example a relation
            of DuckDB.
        bag : column with the bag of each row; becomes `ids`
        features : columns of a point, default all without another role
        weight : column of point weights, optional
        metadata : columns that are constant within each bag, optional
            Labels and covariates of the bags.
        replicate_weights : R columns of replicates of `weight`, optional
        replicate_scale : float, or array, shape (R,), with `replicate_weights`
            As in `Bags`.
        cluster : column of the sampled cluster of each row, such as a household, optional
        strata : column of the stratum of each cluster, with `cluster`
            As in `Bags`: ids are matched within bags.
        missing : {"error", "drop", "indicator"}, default "error"
            For missing values of features: raise, drop the row, or impute the column's mean and add
            an indicator column "name missing".
        transformer : scikit-learn transformer, optional
            For example a ColumnTransformer or a pipeline: fitted to the feature columns, a pandas
            DataFrame, it makes the points instead.
        like : Bags or fitted estimator, optional
            Read the table like the table of `like`: the same columns, categories and means.
        unseen : {"error", "other"}, default "error"
            With `like`: for categories that it does not have, raise or set all indicators to 0.

        Raises
        ------
        TypeError, ValueError
            The message names the column: missing values, dates, nested values, an excess of texts,
            columns that the table lacks.

        Warns
        -----
        UserWarning
            Columns that are constant, the same for all points of a bag, or a linear function of a
            column of `metadata`; dropped rows; values such as -999 that may be missing-data codes;
            repeated rows; ids or categories that differ only in type, leading zeros, case or
            blanks; categories that are mostly numbers, or have an order; weights that add up to 1
            in nearly all bags.

        Examples
        --------
        >>> import pandas as pd
        >>> from bdr_stan import Bags
        >>> people = pd.DataFrame({"town": [*"baba"], "age": [31, 55, 28, 42], "sex": [*"fmmf"]})
        >>> people["turnout"] = [0.6, 0.7, 0.6, 0.7]
        >>> bags = Bags.from_dataframe(people, "town", metadata=["turnout"])
        >>> bags.features
        ['age', 'sex=f', 'sex=m']
        >>> bags[0]
        array([[55.,  0.,  1.],
               [42.,  1.,  0.]])
        """
        if bag is None:
            raise TypeError("give bag, the name of the column with the bag of each row")
        roles = ColumnRoles(bag, features, weight, metadata, replicate_weights, cluster, strata)
        options = {"missing": missing, "transformer": transformer, "like": like, "unseen": unseen}
        return cls._of_table(df, roles, replicate_scale, **options)

    @classmethod
    def _of_table(cls, table, roles, replicate_scale, **options):
        made = arguments_of_table(table, roles, **options)
        return cls._made(**made, replicate_scale=replicate_scale)

    @classmethod
    @answered
    def from_parquet(
        cls,
        path: PathName,
        bag: str,
        *columns: Any,
        lazy: bool = False,
        **options: Any,
    ) -> Any:
        """Bags from Parquet: a file, a folder of files, or a pattern (``points/*.parquet``).

        Reads only the columns that are needed. Needs pyarrow.

        Parameters
        ----------
        path : str or Path
        bag : column with the bag of each row
        lazy : bool, default False
            False loads all points into memory. True leaves them in the files, and each pass reads
            them part by part, see `from_dask`; needs the extra "dask".
        *columns, **options
            `features`, `weight`, `metadata` and the other arguments of `from_dataframe`; with
            `lazy` of `from_dask`.

        Returns
        -------
        Bags, or with `lazy` PartitionedBags

        Raises
        ------
        ImportError, OSError, TypeError, ValueError
            As in `from_dataframe`, and if the columns of files differ.
        """
        roles, scale, options = _columns(bag, *columns, **options)
        if not lazy:
            table = parquet_table(path, roles.like(options.get("like")))
            return cls._of_table(table, roles, scale, **options)._read_from(path)
        for name in ("replicate_weights", "cluster", "strata"):
            if getattr(roles, name) is not None:
                raise ValueError(
                    f"lazy=True takes no {name}, which needs the points of a bag together: leave "
                    "one of the two out"
                )
        if options.pop("transformer", None) is not None:
            raise ValueError(
                "lazy=True takes no transformer, which is fitted to all points at once: "
                "transform the table before it is written, or leave lazy out"
            )
        parts = parts_of(path, roles, options.get("like"))
        bags = PartitionedBags.from_parts(cls, *parts, roles, **options)
        return bags._read_from(path)

    @classmethod
    @answered
    def from_dask(
        cls,
        ddf: Any,
        bag: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        metadata: Sequence[str] | None = None,
        *,
        missing: str = "error",
        like: Any = None,
        unseen: str = "error",
    ) -> PartitionedBags:
        """Bags of a Dask DataFrame with one row per point; the points stay in its partitions.

        Estimators on mean embeddings accept the result instead of `Bags`. The rows of a bag may be
        in any partitions and any order; less is sent if they are together. One pass over the
        partitions counts points and checks all values here. Passes run on the running client of
        this process, `distributed.Client`, otherwise in Dask's threads on this machine.

        Parameters
        ----------
        ddf : dask.dataframe.DataFrame
            It is read several times: ``ddf.persist()`` it if it is costly to compute and memory
            allows.
        bag : column, or index, with the bag of each row
        features, weight, metadata, missing, like, unseen
            As in `from_dataframe`.

        Raises
        ------
        ImportError
            Dask is not installed.
        TypeError, ValueError
            The message names the column and the partition: missing ids, columns with types that
            differ between partitions, no points at all.

        Warns
        -----
        UserWarning
            Columns that are constant or the same for all points of a bag; dropped rows; codes of
            missing values, categories and sums of weights as in `from_dataframe`.
        """
        roles = ColumnRoles(bag, features, weight, metadata)
        parts = parts_of_dask(ddf, roles, like)
        options = {"missing": missing, "like": like, "unseen": unseen}
        return PartitionedBags.from_parts(cls, *parts, roles, **options)

    @classmethod
    @answered
    def from_csv(
        cls,
        path: PathName,
        bag: str,
        *columns: Any,
        **options: Any,
    ) -> Self:
        """Bags from a CSV file.

        If an id such as "01" occurs, all ids stay text; ``dtype={"county": int}`` converts them to
        numbers.

        Parameters
        ----------
        path : str or Path
        bag : column with the bag of each row
        *columns, **options
            `features`, `weight`, `metadata` and the other arguments of `from_dataframe`, and of
            `pandas.read_csv`.
        """
        roles, scale, options = _columns(bag, *columns, **options)
        for_table = {name: options.pop(name) for name in _TABLE_OPTIONS if name in options}
        table = csv_table(path, roles.like(for_table.get("like")), options)
        return cls._of_table(table, roles, scale, **for_table)._read_from(path)

    @classmethod
    @answered
    def from_anndata(
        cls,
        adata: Any,
        bag: str,
        features: str | Sequence[str] = "X_pca",
        metadata: Sequence[str] | None = None,
    ) -> Self:
        """Bags of the cells of an AnnData object, for example one bag per donor.

        Needs the extra "anndata". Sparse values become dense. An object backed by a file is read in
        chunks, a selection of its cells at once. Bags come in the order of their ids.

        Parameters
        ----------
        adata : anndata.AnnData
        bag : column of `obs` with the bag of each cell; becomes `ids`
        features : str or list of str, default "X_pca"
            A key of `obsm`, a layer, "X", or a list of names of variables, for their columns of X.
        metadata : columns of `obs` that are constant within each bag, optional
            Labels and covariates of the donors.

        Returns
        -------
        Bags
            Columns of an obsm key are named X_pca_1, X_pca_2, ..., unless it is a data frame.

        Raises
        ------
        ImportError
            The extra is not installed.
        TypeError, ValueError
            The message names the key, column, variable or cell: a missing key, a cell without a
            bag, metadata that differ within a bag, values that are not numbers.
        """
        import narwhals as nw

        roles = ColumnRoles(bag, metadata=metadata)
        check_anndata(adata, roles)
        place, columns, names = cell_features(adata, features)
        obs = nw.from_native(adata.obs[roles.given])
        missing = f"cell {{}} has no bag: column {bag!r} of adata.obs is missing"
        made, order = grouped_rows(obs, bag, metadata or None, missing)
        warn_of_similar_ids(made["ids"])
        points = cell_values(adata, place, columns, order)
        return cls._made(**made, points=points, features=names)

    @classmethod
    @answered
    def from_rasters(
        cls,
        covariates: Any,
        districts: Any,
        weight: Any = None,
        id: str = "district",
        *,
        fractional: bool = True,
    ) -> Self:
        """Bags of the pixels of rasters on one grid, one bag per polygon.

        Needs the extra "maps". Rasters are read window by window. Points are the covariates and the
        coordinates x and y of the pixel's centre, in units of the CRS.

        Parameters
        ----------
        covariates : dict, name -> GeoTIFF of one band or xarray.DataArray; or one GeoTIFF; or
            xarray.Dataset
            The bands of a file are named by their descriptions, else band_1, band_2, ...
        districts : GeoDataFrame, or a file for geopandas
            In the CRS of the rasters; longitudes may differ by 360 degrees. All its columns,
            geometries included, become `metadata`.
        weight : GeoTIFF of one band or xarray.DataArray, >= 0, optional
            Weight of each pixel, for example its population. Default: its area, 1.
        id : str, default "district"
            Column of `districts` with unique values; becomes `ids`.
        fractional : bool, default True
            Whether a pixel on a border belongs to each side in proportion to its area, which
            multiplies the point's weight; otherwise it belongs to the district of its centre.

        Returns
        -------
        Bags, in the order of the districts, with `pixels`

        Raises
        ------
        ImportError
            The extra is not installed.
        TypeError, ValueError, OSError
            The message names the raster, column or district: files that cannot be read; different
            grids or CRSs; values that are not scaled yet; undeclared missing-data codes such as
            -9999 or 65535; a covariate named x or y; negative weights; ids that are missing or
            repeated; geometries that are not valid polygons, or jump at 180 degrees; no pixel in
            any district.

        Warns
        -----
        UserWarning
            Dropped pixels without data, and dropped districts without geometry, pixels or weight;
            districts that overlap or extend beyond the rasters; pixels in degrees with areas that
            differ by more than 10%, without `weight`.

        Examples
        --------
        >>> from bdr_stan import Bags
        >>> from bdr_stan.datasets import country_files
        >>> folder = country_files("country", side=20, n_districts=5)
        >>> rasters = {name: folder / f"{name}.tif" for name in ("rainfall", "elevation")}
        >>> bags = Bags.from_rasters(rasters, folder / "districts.gpkg", folder / "population.tif")
        >>> bags.ids.tolist(), bags.features
        (['D000', 'D001', 'D002', 'D003', 'D004'], ['rainfall', 'elevation', 'x', 'y'])
        """
        from bdr_stan.maps.rasters import from_rasters

        return cls._made(**from_rasters(covariates, districts, weight, id, fractional=fractional))


def _columns(*columns, replicate_scale=None, **options):
    """Roles of columns and scale of replicates among arguments of a reader, and the others."""
    roles = [field.name for field in fields(ColumnRoles)]
    named = {name: options.pop(name) for name in roles if name in options}
    return ColumnRoles(*columns, **named), replicate_scale, options


def _names_of_frames(arrays, names, features):
    """Names of the points' columns: those given, else of data frames, which must agree."""
    frames = [(name, _columns_of_frame(array)) for name, array in zip(names, arrays)]
    frames = [(name, columns) for name, columns in frames if columns is not None]
    for name, columns in frames[1:]:
        if columns != frames[0][1]:
            raise ValueError(
                f"{name} is a table with the columns {', '.join(columns)}, but "
                f"{frames[0][0]} has {', '.join(frames[0][1])}: give every bag the same "
                "columns in the same order"
            )
    return _names_of_columns(features, frames[0][1] if frames else None)


def _columns_of_frame(values):
    """Names of a data frame's columns; None for an array or the default 0, 1, ..."""
    columns = getattr(values, "columns", None)
    if columns is None or list(columns) == list(range(len(columns))):
        return None
    return [str(name) for name in columns]


def _names_of_columns(features, columns):
    """The given names, unless they are names of other columns; else the columns' names."""
    if features is None or columns is None or isinstance(features, str):
        return columns if features is None else features
    features = [str(name) for name in features]
    if features != columns and set(features) & set(columns):
        raise ValueError(
            f"features names the columns {', '.join(features)}, but the table has "
            f"{', '.join(columns)}: leave features out, or select df[features] before"
        )
    return features


def _stack_weights(weights, arrays, names):
    if len(weights) != len(arrays):
        raise ValueError(f"weights has {len(weights)} arrays, but there are {len(arrays)} bags")
    for w, array, name in zip(weights, arrays, names):
        check_same_rows(array, w, (name, f"the weights of {name}"))
        if np.shape(w) != (len(array),):
            raise ValueError(
                f"the weights of {name} have shape {np.shape(w)}, expected ({len(array)},): one "
                "per point"
            )
    return np.concatenate(weights) if weights else np.empty(0)
