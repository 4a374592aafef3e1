"""A stand-in for the features of IMDb-WIKI in Law et al. (2018): its shape, not its faces.

    19,545 people (bags) of 1 to 796 images, 22.5% of them with one, 397,949 images in all;
    4096 nonnegative float32 features per image, 13 of them constant.

A person's age is normal(40, 12) years, an image's within 2 years of it. An image shows an
*apparent* age: the age + normal(0, 11), the same in all images of the person, + normal(0, 16),
anew in each. Features depend on the apparent age and its square, mixed with 6 numbers of the person
and 6 of the image by random weights, with noise and a last ReLU. Averages over images improve
predictions, but many images do not make a person's age certain; no predictions are better than
`best_predictive`.

``python -m data_gen.faces --help`` writes the three files that `experiments.paper_data.load_faces`
reads: 6.5 GB at full size, never in memory.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from bdr_stan.predictive import Predictive
from data_gen import check_folder, complete_files

N_BAGS, N_IMAGES, LARGEST = 19_545, 397_949, 796
SHARE_OF_ONE = 0.225
N_FEATURES, N_CONSTANT = 4096, 13
FILES = {"features": "features.npy", "bags": "bags.npy", "ages": "ages.npy"}

_LOG_SIZE_SD = 1.0  # of bags of more than one image: a lognormal, cut to 2 .. 796
_AGE, _AGE_SD, _WINDOW = 40.0, 12.0, 2.0  # years
_PERSON_SD, _IMAGE_SD = 11.0, 16.0  # of the apparent age, years
_N_PERSON, _N_IMAGE, _NUISANCE_SD = 6, 6, 0.7  # numbers besides the apparent age
_BLOCK = 512  # images per random stream, 8 MB of features


class People(NamedTuple):
    """What is drawn before the features, for all people and images."""

    sizes: np.ndarray  # (n,), images of each person
    ages: np.ndarray  # (N_images,), years
    apparent: np.ndarray  # (N_images,), years
    latent: np.ndarray  # (N_images, 14), float32, what the features depend on


def bag_sizes(n_bags=N_BAGS):
    """Images of each person, ascending: 22.5% ones, then from 2 to 796 with a heavy tail.

    They sum to 397,949 for 19,545 bags; other numbers of bags have the same mean, up to rounding.

    Parameters
    ----------
    n_bags : int, >= 100

    Returns
    -------
    int64 array, shape (n_bags,)
    """
    if not (n_bags >= 100 and n_bags == int(n_bags)):
        raise ValueError(f"n_bags must be a whole number, >= 100, found {n_bags}")
    n_ones = round(SHARE_OF_ONE * n_bags)
    total = round(N_IMAGES * n_bags / N_BAGS) - n_ones
    share = np.linspace(0, 1, n_bags - n_ones)

    def quantiles(centre):
        ends = ndtr((np.log([2, LARGEST]) - centre) / _LOG_SIZE_SD)
        return np.exp(centre + _LOG_SIZE_SD * ndtri(ends[0] + share * (ends[1] - ends[0])))

    centre = brentq(lambda c: quantiles(c).sum() - total, 0, 5)
    sizes = quantiles(centre).round().astype(np.int64)
    short = total - sizes.sum()  # by rounding: added to bags of medium size
    middle = len(sizes) // 2
    sizes[middle : middle + abs(short)] += np.sign(short)
    return np.concatenate([np.ones(n_ones, np.int64), sizes])


def draw_people(n_bags=N_BAGS, *, seed):
    """Sizes, ages and apparent ages of the stand-in with this seed.

    Parameters
    ----------
    n_bags : int, >= 100
    seed : int, >= 0

    Returns
    -------
    People
    """
    rng = np.random.default_rng([seed, 0])
    sizes = rng.permutation(bag_sizes(n_bags))
    person = np.repeat(np.arange(n_bags), sizes)
    n = len(person)
    ages = rng.normal(_AGE, _AGE_SD, n_bags)[person] + rng.uniform(-_WINDOW, _WINDOW, n)
    ages = np.clip(ages, 0, 100)
    apparent = ages + rng.normal(0, _PERSON_SD, n_bags)[person] + rng.normal(0, _IMAGE_SD, n)
    t = (apparent - _AGE) / 20
    latent = np.column_stack(
        [
            t,
            (t**2 - 1) / 2,
            rng.normal(0, _NUISANCE_SD, (n_bags, _N_PERSON))[person],
            rng.normal(0, _NUISANCE_SD, (n, _N_IMAGE)),
        ]
    )
    return People(sizes, ages, apparent, latent.astype(np.float32))


def write_faces(folder, *, n_bags=N_BAGS, n_features=N_FEATURES, seed=1, progress=None):
    """Write features.npy, bags.npy and ages.npy, block by block.

    Parameters
    ----------
    folder : str or Path, which exists; files of these names are replaced
    n_bags : int, >= 100
    n_features : int, >= 2; 13 in 4096 of them, at least one, are constant
    seed : int, >= 0
    progress : callable, optional
        Called as progress(images written, images in all).

    Returns
    -------
    dict, "features", "bags", "ages" -> Path
        features: float32, shape (N_images, n_features), >= 0, no unit.
        bags: int32, shape (N_images,), the person 0 .. n_bags - 1 of each image, ascending.
        ages: float64, shape (N_images,), years. A bag's label is the mean of its images' ages.

    Raises
    ------
    ValueError : an argument outside its range.
    OSError : the disk has too little space; nothing has been written.
    """
    if not (n_features >= 2 and n_features == int(n_features)):
        raise ValueError(f"n_features must be a whole number, >= 2, found {n_features}")
    folder = Path(folder)
    sizes = bag_sizes(n_bags)
    needed, free = sizes.sum() * (4 * n_features + 12) + 1000, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"the files need {needed / 1e9:.2g} GB, but {folder} has {free / 1e9:.2g} GB free: "
            "choose a folder on another disk, or fewer bags or features"
        )
    people = draw_people(n_bags, seed=seed)
    paths = {name: folder / file for name, file in FILES.items()}
    with complete_files(paths) as partial:
        np.save(partial["bags"], np.repeat(np.arange(n_bags, dtype=np.int32), people.sizes))
        np.save(partial["ages"], people.ages)
        with open(partial["features"], "wb") as file:
            n = len(people.ages)
            header = {"descr": "<f4", "fortran_order": False, "shape": (n, n_features)}
            np.lib.format.write_array_header_1_0(file, header)
            for block in range(-(-n // _BLOCK)):
                feature_block(block, people.latent, n_features, seed=seed).tofile(file)
                if progress is not None:
                    progress(min((block + 1) * _BLOCK, n), n)
    return paths


def feature_block(block, latent, n_features=N_FEATURES, *, seed):
    """Features of 512 images (fewer in the last block), which depend on no other block.

    Parameters
    ----------
    block : int, images 512 block .. 512 block + 511
    latent : array, shape (N_images, k), from `draw_people`
    n_features : int
    seed : int

    Returns
    -------
    float32 array, shape (512, n_features), >= 0
    """
    rows = latent[block * _BLOCK : (block + 1) * _BLOCK]
    weights, bias, constant = _last_layer(latent.shape[1], n_features, seed)
    values = np.random.default_rng([seed, 2, block]).random((len(rows), n_features), np.float32)
    values *= 2
    values += rows @ weights
    values += bias - 1  # the noise is uniform(-1, 1)
    np.maximum(values, 0, out=values)
    values[:, constant] = 0
    return values


def _last_layer(n_latent, n_features, seed):
    """Weights, biases and the columns that are constant."""
    rng = np.random.default_rng([seed, 1])
    weights = rng.normal(0, 1, (n_latent, n_features)).astype(np.float32)
    bias = rng.normal(0, 0.5, n_features).astype(np.float32)
    n_constant = max(1, round(N_CONSTANT * n_features / N_FEATURES))
    return weights, bias, rng.choice(n_features, n_constant, replace=False)


def best_predictive(people, bags=slice(None)):
    """Predictions of the labels given the apparent ages and the model of them.

    Parameters
    ----------
    people : People, from `draw_people`
    bags : indices of bags, optional, whose labels are predicted; default all

    Returns
    -------
    Predictive
        Exact but for the ages cut to 0 .. 100 years (1 in 1000).
    """
    starts = np.concatenate([[0], np.cumsum(people.sizes)[:-1]])
    sizes = people.sizes[bags]
    shown = np.add.reduceat(people.apparent, starts)[bags] / sizes
    label = _AGE_SD**2 + _WINDOW**2 / 3 / sizes
    noise = _PERSON_SD**2 + _IMAGE_SD**2 / sizes
    gain = label / (label + noise)
    mean, sd = _AGE + gain * (shown - _AGE), np.sqrt(gain * noise)
    return Predictive(lambda i: (mean[None, i], sd[None, i]), len(mean), 1)


@click.command()
@click.option("--bags", "n_bags", type=click.IntRange(100), default=N_BAGS, show_default=True)
@click.option(
    "--features", "n_features", type=click.IntRange(2), default=N_FEATURES, show_default=True
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("-o", "--output", required=True, help="Folder for features.npy, bags.npy, ages.npy.")
@click.option("--force", is_flag=True, help="Replace existing files of these names.")
def main(n_bags, n_features, seed, output, force):
    """Write a stand-in for the features of IMDb-WIKI: three .npy files, 6.5 GB at full size."""
    folder = check_folder(output, FILES.values(), force)
    try:
        paths = write_faces(folder, n_bags=n_bags, n_features=n_features, seed=seed)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    n_images = np.load(paths["features"], mmap_mode="r").shape[0]
    click.echo(f"{folder}: {n_bags} bags, {n_images} images, {n_features} features")


if __name__ == "__main__":
    main()
