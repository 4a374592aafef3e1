"""A table of points whose bags do not lie together, as pandas has it and as Dask and files do."""

import dask.dataframe as dd
import numpy as np
import pandas as pd

COLUMNS = {"bag": "county", "weight": "w", "metadata": ["y", "people"]}


def people_table(n=40, seed=7):
    """Rows in no order, one bag with 30% of them; numbers, texts, weights, a label a bag."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, n)
    sizes[3] = 0.3 * sizes.sum() / 0.7
    bag = np.repeat(np.arange(n), sizes)
    centres = rng.normal(size=n)
    rows = pd.DataFrame(
        {
            "county": np.array([f"c{i:03}" for i in range(n)])[bag],
            "age": centres[bag] + rng.normal(size=len(bag)),
            "income": rng.normal(size=len(bag)),
            "region": rng.choice(["north", "south", "west"], len(bag)),
            "w": rng.uniform(0.1, 2, len(bag)),
            "y": (3 + centres)[bag],
            "people": (100.0 * sizes)[bag],
        }
    )
    return rows.sample(frac=1, random_state=seed, ignore_index=True)


def partitions(table, n, **options):
    """The table as a Dask DataFrame, its rows in the order that they have."""
    return dd.from_pandas(table, npartitions=n, sort=False, **options)


def parquet_folder(table, folder, n_files=3, row_group_size=100):
    """The table as Parquet files of a folder, beside what else lies in such folders."""
    folder.mkdir(parents=True)
    for k, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        table.iloc[rows].to_parquet(
            folder / f"part.{k}.parquet", index=False, row_group_size=row_group_size
        )
    (folder / "_SUCCESS").touch()
    return folder
