"""A synthetic country of the size of the malaria data of Law et al. (2018, aggregate outputs).

    1,044,683 pixels in 957 districts of 13 to 6,667 pixels; 18 environmental covariates
    log rate(x) = effects of covariates, some nonlinear, + a Matérn field in space
    cases of district a ~ Poisson(sum over its pixels of population x rate)
    positives of a surveyed pixel: log odds a line in the log rate, see `surveys`

The real data are confidential; here the rate of each pixel is known. Highlands lie in the east,
rivers run from there to the western coast, towns lie along them, and the rate is high by
rivers, in warm and wet lowlands and far from towns. The number of pixels sets the resolution of the
grid alone: the country is always about 1,000 km across and has the same population. Districts are
contiguous except for a few pixels that a bay cuts off.

``python -m data_gen.malaria --help`` writes the two files that `load_country` reads: points.npy,
84 MB at full size and never in memory, and country.npz with the rest.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from scipy import fft, ndimage, sparse
from scipy.optimize import brentq
from scipy.sparse import csgraph
from scipy.special import expit, logit, ndtr, ndtri

from bdr_stan.bags import Bags
from data_gen import check_folder, complete_files

N_PIXELS, N_DISTRICTS, SMALLEST, LARGEST = 1_044_683, 957, 13, 6_667
FEATURES = (
    "elevation",  # m
    "slope",  # degrees
    "river_distance",  # km
    "wetness",  # topographic index
    "temperature_day",  # degrees Celsius
    "temperature_night",
    "temperature_sd",
    "temperature_suitability",  # for transmission, 0 to 1
    "rainfall",  # mm per year
    "rainfall_sd",  # mm per month
    "aridity",  # evaporation over rainfall
    "vegetation",  # index, 0 to 1
    "vegetation_sd",
    "brightness",  # tasselled cap
    "moisture",  # tasselled cap
    "forest",  # share of cover
    "night_lights",
    "travel_time",  # hours to the next town
    "x",  # km
    "y",  # km
)
FILES = {"points": "points.npy", "country": "country.npz"}
SPLITS = {"train": 0.6, "validation": 0.2, "test": 0.2}

# Effects on the log rate; on the banks of a river the rate is seven times higher.
EFFECTS = {
    "elevation": lambda z: -1.2 * expit((z - 1300) / 150),
    "river_distance": lambda km: 2.0 * np.exp(-km / 10),
    "wetness": lambda index: 0.5 * np.tanh((index - 8) / 3),
    "temperature_suitability": lambda share: 2.5 * share,
    "rainfall": lambda mm: -1.2 * np.minimum(np.log(mm / 1300) ** 2 / 0.4, 2),
    "vegetation": lambda index: 1.2 * index,
    "travel_time": lambda hours: 0.5 * np.log1p(hours),
    "night_lights": lambda light: -0.25 * light,
}

FIELD_SD, FIELD_KM = 0.4, 60.0  # of the Matérn 3/2 field in the log rate

_AREA = 1_044_683  # km^2
_PEOPLE = 25e6
_LOG_SIZE_SD = 0.9  # of districts
_COARSE = 50_000  # cells of the grid on which rivers and roads are found
_N_MOUTHS, _N_SPRINGS, _N_TOWNS = 2, 16, 80
_RURAL = 0.7  # share of the people outside towns
_EMPTY = 0.08  # share of the pixels where nobody lives


@dataclass(frozen=True)
class Country:
    """A country's districts as bags, with the truth and the place of each pixel.

    Attributes
    ----------
    bags : Bags, n districts of pixels, in random order
        A memory map of float32, columns `FEATURES`; weights are populations in thousands, a few 0.
    y : integers, shape (n,), cases of a year in each district
    rate : array, shape (N,), expected cases per 1,000 people and year at each pixel
    row, col : integers, shape (N,), place of each pixel on the grid, row 0 in the north
    shape : (rows, columns) of the grid
    pixel_km : float, side of a pixel
    """

    bags: Bags
    y: np.ndarray
    rate: np.ndarray
    row: np.ndarray
    col: np.ndarray
    shape: tuple
    pixel_km: float

    def part(self, name, seed=None):
        """The "train", "validation" or "test" districts: 60, 20 and 20% of them.

        Bags are views of one memory map, unless a `seed` splits the districts in another way.
        """
        if name not in SPLITS:
            raise ValueError(f"unknown split {name!r}: choose from {', '.join(SPLITS)}")
        n = len(self.bags)
        ends = np.round(np.cumsum([0, *SPLITS.values()]) * n).astype(int)
        k = list(SPLITS).index(name)
        chosen = slice(ends[k], ends[k + 1])
        pixels = slice(self.bags.offsets[ends[k]], self.bags.offsets[ends[k + 1]])
        if seed is not None:
            chosen = np.sort(np.random.default_rng(seed).permutation(n)[chosen])
            pixels = np.isin(np.repeat(np.arange(n), self.bags.sizes), chosen)
        return replace(
            self,
            bags=self.bags[chosen],
            y=self.y[chosen],
            rate=self.rate[pixels],
            row=self.row[pixels],
            col=self.col[pixels],
        )

    def image(self, values):
        """Map of `values`, one per pixel or per district, shape `shape`; NaN elsewhere.

        >>> plt.imshow(country.image(country.rate))  # doctest: +SKIP
        """
        values = np.asarray(values)
        if values.shape == (len(self.bags),):
            values = np.repeat(values, self.bags.sizes)
        image = np.full(self.shape, np.nan)
        image[self.row, self.col] = values
        return image


def load_country(folder):
    """The country that `write_country` wrote.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    Country

    Raises
    ------
    FileNotFoundError : a file is missing.
    """
    paths = {name: Path(folder) / file for name, file in FILES.items()}
    for path in paths.values():
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}: write it by data_gen.malaria")
    points = np.load(paths["points"], mmap_mode="r")
    with np.load(paths["country"]) as stored:
        stored = dict(stored)
    bags = Bags.from_points(
        points, sizes=stored["sizes"], weights=stored["population"], features=FEATURES
    )
    return Country(
        bags,
        stored["cases"],
        stored["rate"],
        stored["row"],
        stored["col"],
        tuple(stored["shape"].tolist()),
        float(stored["pixel_km"]),
    )


def write_country(folder, *, n_pixels=N_PIXELS, n_districts=N_DISTRICTS, seed=1):
    """Write points.npy, column by column, and country.npz.

    Parameters
    ----------
    folder : str or Path, which exists; files of these names are replaced
    n_pixels : int, >= 10 per district
    n_districts : int, >= 10
    seed : int, >= 0

    Returns
    -------
    dict, "points", "country" -> Path

    Raises
    ------
    ValueError : an argument outside its range.
    """
    sizes = district_sizes(n_pixels, n_districts)
    rng = np.random.default_rng(seed)
    land = _Land(rng, n_pixels)
    nature = _nature(land)
    towns, population = _people(land, nature)
    district = _districts(land, rng.permutation(sizes), population)
    # Every district has people: at least a hundredth of the mean.
    empty = np.flatnonzero(np.bincount(district, population) == 0)
    population[np.isin(district, empty)] = population.mean() / 100
    order = np.argsort(district, kind="stable")

    folder = Path(folder)
    paths = {name: folder / file for name, file in FILES.items()}
    with complete_files(paths) as partial:
        points = np.lib.format.open_memmap(
            partial["points"], "w+", np.float32, (n_pixels, len(FEATURES))
        )
        log_rate = FIELD_SD * land.field(FIELD_KM)
        for name, values in _covariates(land, nature, towns, population):
            points[:, FEATURES.index(name)] = values[order]
            if name in EFFECTS:
                log_rate += EFFECTS[name](values)
        points.flush()
        rate = np.exp(log_rate)
        expected = np.bincount(district, population * rate)
        with open(partial["country"], "wb") as file:
            np.savez(
                file,
                sizes=np.bincount(district),
                cases=rng.poisson(expected),
                population=population[order],
                rate=rate[order],
                row=land.row[order].astype(np.int32),
                col=land.col[order].astype(np.int32),
                shape=land.mask.shape,
                pixel_km=land.km,
            )
    return paths


SURVEY_DESIGNS = ("representative", "high", "unrelated")
N_PLACES = 60
_EXAMINED = (50, 150)  # people examined at a place
_SLOPE = 0.8  # of the log odds of a positive in the log rate
_PREVALENCE = 0.15  # where the rate is that of the country
_PLACE_SD = 0.4  # of what places differ by besides, on the log odds
_HIGHEST = 0.2  # share of the people among whom the places of the design "high" are


@dataclass(frozen=True)
class Surveys:
    """Surveys of prevalence at pixels of a country.

    Attributes
    ----------
    places : Bags, m places of one pixel each, with the columns of the country
    positives, examined : integers, shape (m,), people
    prevalence : array, shape (N,), the true share of positives at each pixel of the country
    """

    places: Bags
    positives: np.ndarray
    examined: np.ndarray
    prevalence: np.ndarray


def surveys(
    country,
    design="representative",
    *,
    n_places=N_PLACES,
    slope=_SLOPE,
    prevalence=_PREVALENCE,
    seed=1,
):
    """Surveys of some pixels of a country, drawn in proportion to the people who live there.

    The log odds of a positive are a line in the log rate, and each place has a normal deviation of
    standard deviation 0.4 from it.

    Parameters
    ----------
    country : Country, or Months of `data_gen.space_time`, whose pixels are surveyed in a month
    design : {"representative", "high", "unrelated"}
        "high": places are drawn among the fifth of the people with the highest prevalence.
        "unrelated": the prevalence follows the log rate of another pixel, drawn at random.
    n_places : int
    slope : float, of the line
    prevalence : float, between 0 and 1, where the rate is that of the country
    seed : int, >= 0

    Returns
    -------
    Surveys

    Raises
    ------
    ValueError : there is no such design, or fewer than 1 place.
    """
    if design not in SURVEY_DESIGNS:
        raise ValueError(f"unknown design {design!r}: choose from {', '.join(SURVEY_DESIGNS)}")
    if n_places < 1:
        raise ValueError(f"n_places must be at least 1, found {n_places}")
    rng = np.random.default_rng(seed)
    people = country.bags.point_weights
    overall = np.log(people @ country.rate / people.sum())
    log_rate = np.log(country.rate) - overall
    if design == "unrelated":
        log_rate = rng.permutation(log_rate)
    log_odds = logit(prevalence) + slope * log_rate
    chances = people.astype(float)
    if design == "high":
        order = np.argsort(-log_odds)
        chances[order[np.cumsum(people[order]) > _HIGHEST * people.sum()]] = 0
    pixels = rng.choice(len(people), n_places, replace=False, p=chances / chances.sum())
    examined = rng.integers(*_EXAMINED, n_places, endpoint=True)
    of_places = log_odds[pixels] + rng.normal(0, _PLACE_SD, n_places)
    return Surveys(
        Bags.from_points(
            country.bags.points[pixels],
            sizes=np.ones(n_places, int),
            features=country.bags.features,
        ),
        rng.binomial(examined, expit(of_places)),
        examined,
        expit(log_odds),
    )


def effects(points):
    """The covariates' part of the log rate, shape (N,), of points, shape (N, p)."""
    columns = {name: points[:, FEATURES.index(name)].astype(float) for name in EFFECTS}
    return sum(EFFECTS[name](values) for name, values in columns.items())


def district_sizes(n_pixels=N_PIXELS, n_districts=N_DISTRICTS):
    """Pixels of each district, log-normal and cut: 13 to 6,667 at full size.

    Parameters
    ----------
    n_pixels, n_districts : int
        With other means the smallest and the largest are in proportion, the smallest at least 1.

    Returns
    -------
    int64 array, shape (n_districts,), which sums to n_pixels

    Raises
    ------
    ValueError : fewer than 10 districts or than 10 pixels per district.
    """
    if not (n_districts >= 10 and n_districts == int(n_districts)):
        raise ValueError(f"n_districts must be a whole number, >= 10, found {n_districts}")
    if not (n_pixels >= 10 * n_districts and n_pixels == int(n_pixels)):
        raise ValueError(
            f"n_pixels must be a whole number, >= 10 a district, found {n_pixels} "
            f"for {n_districts} districts"
        )
    scale = n_pixels / n_districts / (N_PIXELS / N_DISTRICTS)
    ends = np.maximum(np.round(scale * np.array([SMALLEST, LARGEST])), 1)
    share = np.linspace(0, 1, n_districts)

    def quantiles(centre):
        low, high = ndtr((np.log(ends) - centre) / _LOG_SIZE_SD)
        return np.exp(centre + _LOG_SIZE_SD * ndtri(low + share * (high - low)))

    centre = brentq(lambda c: quantiles(c).sum() - n_pixels, *np.log(ends))
    sizes = quantiles(centre).round().astype(np.int64)
    short = n_pixels - sizes.sum()  # by rounding: added to districts of medium size
    middle = (n_districts - abs(short)) // 2
    sizes[middle : middle + abs(short)] += np.sign(short)
    return sizes


class _Land:
    """The land on its grid; values of its N pixels are arrays of shape (N,)."""

    def __init__(self, rng, n_pixels):
        self.rng = rng
        self.km = np.sqrt(_AREA / n_pixels)
        self.mask = _outline(rng, n_pixels)
        self.row, self.col = np.nonzero(self.mask)
        self.x = (self.col + 0.5) * self.km
        self.y = (self.mask.shape[0] - self.row - 0.5) * self.km

    def field(self, length, smoothness=1.5):
        """Matérn field, shape (N,), of this length in km, mean 0 and sd 1 over the land."""
        values = matern_field(self.rng, self.mask.shape, self.km, length, smoothness)
        return _standardised(values[self.row, self.col].astype(float))

    def grid(self, values, outside):
        """`values` of the pixels, shape (N,), on the grid, with `outside` off the land."""
        grid = np.full(self.mask.shape, float(outside))
        grid[self.row, self.col] = values
        return grid


def matern_field(rng, shape, km, length, smoothness=1.5):
    """Matérn field on a grid of `shape`, up to a factor, with cells and length in km."""
    # A spectral field is periodic: on a larger grid, opposite coasts are independent.
    larger = [fft.next_fast_len(int(1.2 * n), real=True) for n in shape]
    down, across = fft.fftfreq(larger[0], km), fft.rfftfreq(larger[1], km)
    wave = (2 * np.pi) ** 2 * (down[:, None] ** 2 + across**2)
    amplitude = (2 * smoothness / length**2 + wave) ** (-(smoothness + 1) / 2)
    noise = fft.rfft2(rng.standard_normal(larger, np.float32))
    return fft.irfft2(noise * amplitude.astype(np.float32), s=larger)[: shape[0], : shape[1]]


def _standardised(values):
    """`values` with mean 0 and sd 1."""
    return (values - values.mean()) / values.std()


def _outline(rng, n_pixels):
    """Land on the smallest grid: n_pixels cells within a wavy circle."""
    degree = np.arange(2, 100)
    cosine, sine = rng.normal(0, 0.22 * degree**-1.4, (2, len(degree)))

    def radius(angle):
        waves = np.multiply.outer(angle, degree)
        return np.maximum(1 + np.cos(waves) @ cosine + np.sin(waves) @ sine, 0.4)

    angle = np.linspace(-np.pi, np.pi, 2001)
    coast = radius(angle)
    coast *= np.sqrt(n_pixels / np.trapezoid(coast**2 / 2, angle))
    north, east = coast * np.sin(angle), coast * np.cos(angle)
    down = np.arange(np.floor(-north.max()) - 2, -north.min() + 3)
    across = np.arange(np.floor(east.min()) - 2, east.max() + 3)
    distance = np.hypot(down[:, None], across)
    bearing = np.arctan2(-down[:, None], across)
    inside = distance / np.interp(bearing, angle, coast)
    land = np.zeros(inside.size, bool)
    land[np.argpartition(inside, n_pixels, axis=None)[:n_pixels]] = True
    return land.reshape(inside.shape)


def _nature(land):
    """Elevation, distance to a river, temperature and rainfall, each of shape (N,)."""
    east = _standardised(land.x + 0.25 * land.y)
    north = _standardised(land.y)
    height = east + 0.7 * land.field(140) + 0.25 * land.field(35, 1.0)
    elevation = 450 * np.logaddexp(0, 1.2 * height)
    river = _river_distance(land, elevation)
    elevation *= 1 - 0.45 * np.exp(-river / 12)  # valleys
    elevation *= np.exp(0.06 * land.field(6, 1.0))
    temperature = 26.5 - 0.006 * elevation + 0.8 * north + 0.5 * land.field(120)
    rain = -0.35 * north - 0.15 * east + 0.2 * land.field(200) + 0.08 * land.field(30, 1.0)
    rainfall = 1150 * np.exp(rain + 0.0001 * elevation)
    return {
        "elevation": elevation,
        "river_distance": river,
        "temperature_night": temperature,
        "rainfall": rainfall,
    }


class _Coarse:
    """Cells of a grid of some 50,000 for the whole country, and ways between neighbours."""

    def __init__(self, land):
        self.step = max(1, round(np.sqrt(land.mask.size / _COARSE)))
        self.mask = land.mask[:: self.step, :: self.step]
        self.row, self.col = np.nonzero(self.mask)
        self.km = self.step * land.km
        self.land = land

    def at(self, values):
        """`values` of the pixels, shape (N,), at the cells."""
        return self.land.grid(values, 0)[:: self.step, :: self.step][self.row, self.col]

    def ways(self, cost):
        """Sparse graph: length in km x mean cost of each pair of the 8-neighbours."""
        number = np.full(np.add(self.mask.shape, 2), -1)
        number[1:-1, 1:-1][self.mask] = np.arange(len(self.row))
        starts, ends, lengths = [], [], []
        for down, across in [(0, 1), (1, 0), (1, 1), (1, -1)]:
            neighbour = number[self.row + 1 + down, self.col + 1 + across]
            start = np.flatnonzero(neighbour >= 0)
            end = neighbour[start]
            starts.append(start)
            ends.append(end)
            lengths.append(self.km * np.hypot(down, across) * (cost[start] + cost[end]) / 2)
        pairs = np.concatenate(starts), np.concatenate(ends)
        return sparse.csr_array((np.concatenate(lengths), pairs), shape=(len(cost),) * 2)

    def spread(self, values):
        """`values` of the cells at the pixels, interpolated; what is unknown is the nearest's."""
        grid = np.full(self.mask.shape, np.inf)
        grid[self.mask] = values
        places = np.stack([self.land.row, self.land.col]) / self.step
        return ndimage.map_coordinates(_filled(grid), places, order=1, mode="nearest")


def _filled(grid):
    """`grid` with the nearest finite value where it is not finite."""
    nearest = ndimage.distance_transform_edt(
        ~np.isfinite(grid), return_distances=False, return_indices=True
    )
    return grid[tuple(nearest)]


def _river_distance(land, elevation):
    """Distance of each pixel to the nearest river, km.

    Rivers are the cheapest ways from springs inland to mouths in the west; low ground is cheap.
    """
    coarse = _Coarse(land)
    height = _standardised(coarse.at(elevation))
    sea = ndimage.distance_transform_edt(np.pad(coarse.mask, 1))[1:-1, 1:-1][coarse.mask]
    sea *= coarse.km
    cost = np.exp(1.2 * height + 0.9 * coarse.at(land.field(25, 1.0)) + 2.5 * np.exp(-sea / 40))
    place = np.column_stack([coarse.row, coarse.col])
    coast = sea <= coarse.km
    west = coast & (coarse.col < np.quantile(coarse.col[coast], 0.3))
    inland = (sea > np.quantile(sea, 0.3)) & (height > np.quantile(height, 0.4))
    springs = _far_apart(np.flatnonzero(inland), place, _N_SPRINGS)
    before = csgraph.dijkstra(
        coarse.ways(cost),
        directed=False,
        indices=_far_apart(np.flatnonzero(west), place, _N_MOUTHS),
        min_only=True,
        return_predecessors=True,
    )[1]
    water = np.zeros(land.mask.shape, bool)
    for spring in springs:
        way = [spring]
        while before[way[-1]] >= 0:
            way.append(before[way[-1]])
        # Smoothed: ways on the grid turn by 45 degrees.
        smooth = ndimage.gaussian_filter1d(1.0 * place[way], 1.5, axis=0, mode="nearest")
        position = np.linspace(0, len(way) - 1, 2 * coarse.step * len(way))
        row, col = (
            np.interp(position, np.arange(len(way)), axis) * coarse.step for axis in smooth.T
        )
        water[row.round().astype(int), col.round().astype(int)] = True
    return ndimage.distance_transform_edt(~water)[land.row, land.col] * land.km


def _far_apart(candidates, place, n):
    """n of the candidates, each the farthest from those before it."""
    chosen = [candidates[0]]
    nearest = np.full(len(candidates), np.inf)
    for _ in range(n - 1):
        gap = np.linalg.norm(place[candidates] - place[chosen[-1]], axis=1)
        nearest = np.minimum(nearest, gap)
        chosen.append(candidates[nearest.argmax()])
    return np.array(chosen)


def _people(land, nature):
    """Pixels of the towns and population in thousands of each pixel, shape (N,)."""
    rng, river = land.rng, nature["river_distance"]
    rural = 0.8 * land.field(60) + 0.5 * land.field(8, 1.0) + 0.9 * np.exp(-river / 12)
    rural += 0.6 * np.tanh(2 * np.log(nature["rainfall"] / 900)) - 0.0003 * nature["elevation"]
    density = np.exp(rural)
    density[rural < np.quantile(rural, _EMPTY)] = 0
    density /= density.sum()
    towns = rng.choice(len(density), _N_TOWNS, replace=False, p=density)
    density *= _RURAL
    share = 1 / np.arange(1, _N_TOWNS + 1)
    for town, part in zip(towns, share):
        radius = 3 + 9 * np.sqrt(part)  # km
        town_density = np.exp(-np.hypot(land.x - land.x[town], land.y - land.y[town]) / radius)
        density += (1 - _RURAL) * part / share.sum() * town_density / town_density.sum()
    density[density < 1e-9] = 0  # far from the last town, less than one person in 40 pixels
    return towns, density * _PEOPLE / 1000


def _districts(land, sizes, population):
    """District of each pixel, shape (N,): the land is cut in two until each part is a district.

    A cut is across the longest axis of a part, in perturbed coordinates; the smaller half of its
    districts, by a noisy ranking, is on the side where more people live.
    """
    place = np.stack([land.x + 8 * land.field(40, 2.5), land.y + 8 * land.field(40, 2.5)])
    log_sizes = np.log(sizes)
    district = np.empty(len(land.x), np.int64)
    parts = [(np.arange(len(land.x)), np.arange(len(sizes)))]
    while parts:
        pixels, members = parts.pop()
        if len(members) == 1:
            district[pixels] = members[0]
            continue
        rank = log_sizes[members] + land.rng.normal(0, 1.5, len(members))
        small, large = np.array_split(members[np.argsort(rank)], 2)
        longest = np.linalg.eigh(np.cov(place[:, pixels]))[1][:, -1]
        side = longest @ place[:, pixels]
        n_small = sizes[small].sum()
        people = population[pixels]
        if people[side < np.median(side)].sum() < people.sum() / 2:
            side = -side
        ranked = pixels[np.argpartition(side, n_small)]
        parts += [(ranked[:n_small], small), (ranked[n_small:], large)]
    return district


def _covariates(land, nature, towns, population):
    """Names and values, shape (N,), of the columns of the points, one after the other."""
    field = land.field
    yield from nature.items()
    elevation, river, night, rainfall = nature.values()
    gradient = np.gradient(_filled(land.grid(elevation, np.nan)), 1000 * land.km)
    slope = np.degrees(np.arctan(np.hypot(*gradient)))[land.row, land.col]
    slope = slope * np.exp(0.3 * field(5, 1.0))
    yield "slope", slope
    yield "wetness", 5 + 7 * np.exp(-river / 8) - 1.5 * np.log(slope + 0.3) + 0.8 * field(6, 1.0)
    yield "temperature_suitability", expit((night - 21.5) / 1.2) * expit((33 - night) / 1.5)
    dryness = np.log(1150 / rainfall)
    forest = expit(-2.5 * dryness + 1.2 * field(50) - 1 + 0.5 * np.exp(-river / 6))
    yield "forest", forest
    green = -1.3 * dryness + 0.8 * np.exp(-river / 6) + 0.3 * field(20, 1.0) + 0.8 * forest
    vegetation = 0.1 + 0.6 * expit(green - 0.5)
    yield "vegetation", vegetation
    day = night + 9 + 2 * dryness - 8 * (vegetation - 0.4) + 0.4 * field(40)
    yield "temperature_day", day
    yield "temperature_sd", np.exp(0.9 + 0.5 * dryness + 0.15 * field(100))
    yield "rainfall_sd", 0.07 * rainfall * np.exp(0.4 * dryness + 0.15 * field(150))
    yield "aridity", np.exp(dryness + 0.05 * (day - 34) + 0.08 * field(60))
    yield (
        "vegetation_sd",
        0.25 * vegetation * (0.75 - vegetation) * np.exp(0.6 * dryness + 0.2 * field(30)),
    )
    yield "brightness", 0.35 - 0.3 * vegetation + 0.03 * dryness + 0.02 * field(15, 1.0)
    yield "moisture", -0.15 + 0.25 * vegetation + 0.1 * np.exp(-river / 5) + 0.02 * field(10, 1.0)
    yield "night_lights", np.log1p(population / land.km**2 / 0.15)
    yield "travel_time", _travel_time(land, towns, slope)
    yield "x", land.x
    yield "y", land.y


def _travel_time(land, towns, slope):
    """Hours from each pixel to the nearest town, slower up and down hills."""
    coarse = _Coarse(land)
    hours_a_km = np.exp(0.25 * coarse.at(slope) + 0.3 * coarse.at(land.field(40))) / 25
    row, col = coarse.row * coarse.step, coarse.col * coarse.step
    gates = [np.hypot(row - land.row[town], col - land.col[town]).argmin() for town in towns]
    hours = csgraph.dijkstra(coarse.ways(hours_a_km), directed=False, indices=gates, min_only=True)
    return np.maximum(coarse.spread(hours), 0)


@click.command()
@click.option("--pixels", "n_pixels", default=N_PIXELS, show_default=True)
@click.option("--districts", "n_districts", default=N_DISTRICTS, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("-o", "--output", required=True, help="Folder for points.npy and country.npz.")
@click.option("--force", is_flag=True, help="Replace existing files of these names.")
def main(n_pixels, n_districts, seed, output, force):
    """Write a synthetic country: pixels of districts with covariates, cases and true rates."""
    folder = check_folder(output, FILES.values(), force)
    try:
        write_country(folder, n_pixels=n_pixels, n_districts=n_districts, seed=seed)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    country = load_country(folder)
    click.echo(
        f"{folder}: {len(country.bags)} districts, {len(country.rate)} pixels, "
        f"{country.y.sum()} cases"
    )


if __name__ == "__main__":
    main()
