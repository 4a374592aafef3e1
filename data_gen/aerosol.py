"""A stand-in for the aerosol data of the MISR satellite instrument: same shape, made-up values.

A bag consists of the pixels around a ground station at one time. All share the aerosol optical
depth, the label, and the positions of sun and satellite; the ground differs between pixels, and
some are clouded. Each pixel has the reflectance in four bands from three cameras, and
four angles. Single scattering: with m and m0 the cosines of the camera's and the sun's zenith
angles, tau the optical depth in a band and G(t) the phase function at the scattering angle,

    reflectance = w G(t) / (4 (m + m0)) (1 - exp(-tau (1/m + 1/m0)))
                  + ground exp(-tau (1/m + 1/m0) / 2)

Results show how a method performs on such a problem, and nothing about the real instrument.
"""

import numpy as np

from bdr_stan.bags import Bags

WAVELENGTHS = np.array([0.446, 0.558, 0.672, 0.866])  # of the bands, micrometres
CAMERAS = np.cos(np.radians([26.1, 0.1, 26.1]))  # forward, straight down, backward
ALBEDO = 0.9  # w, share of the light that aerosol scatters
FEATURES = [
    *(
        f"{band}_{camera}"
        for camera in ("forward", "nadir", "backward")
        for band in ("blue", "green", "red", "infrared")
    ),
    "sun_zenith",
    *(f"scattering_{camera}" for camera in ("forward", "nadir", "backward")),
]


def aerosol_bags(seed, *, n_bags=800, n_points=100):
    """Draw bags of pixels and their aerosol optical depths.

    Parameters
    ----------
    seed : int, >= 0
    n_bags : int, >= 2; the real data have 800
    n_points : int, >= 1, pixels of each bag; the real data have 100

    Returns
    -------
    bags : Bags, points in R^16: reflectances (no unit) and cosines of angles
    y : array, shape (n_bags,), optical depth at 0.558 micrometres, read with an error of sd 0.01

    Raises
    ------
    ValueError : an argument outside its range.
    """
    for name, value, least in [("n_bags", n_bags, 2), ("n_points", n_points, 1)]:
        if not (value >= least and value == int(value)):
            raise ValueError(f"{name} must be a whole number, >= {least}, found {value}")
    rng = np.random.default_rng(seed)
    depth = rng.lognormal(np.log(0.2), 0.7, n_bags)
    # With smaller grains the depth decreases faster with the wavelength.
    steepness = rng.normal(1.3, 0.4, n_bags)
    forwardness = rng.uniform(0.4, 0.6, n_bags)
    sun = rng.uniform(0.5, 0.95, n_bags)
    azimuth = rng.uniform(0, np.pi, n_bags)[:, None] + [0, 0, np.pi]
    scattering = (
        np.sqrt((1 - sun[:, None] ** 2) * (1 - CAMERAS**2)) * np.cos(azimuth)
        - sun[:, None] * CAMERAS
    )
    # Ground: brightness and colour of the bag, and differences between pixels.
    brightness = rng.normal(0, 0.2, (n_bags, 1, 1)) + rng.normal(0, 0.2, (n_bags, n_points, 1))
    colour = rng.normal(0, 0.15, (n_bags, 1, 4)) + rng.normal(0, 0.1, (n_bags, n_points, 4))
    ground = np.array([0.02, 0.05, 0.06, 0.2]) * np.exp(brightness + colour)
    cover = rng.beta(0.3, 4.0, (n_bags, 1, 1))
    clouded = rng.random((n_bags, n_points, 1)) < cover
    ground = ground + clouded * rng.uniform(0.1, 0.5, (n_bags, n_points, 1))

    points = np.empty((n_bags, n_points, 16))
    band_depth = depth[:, None] * (WAVELENGTHS / WAVELENGTHS[1]) ** -steepness[:, None]
    for c, camera in enumerate(CAMERAS):
        path = (1 / camera + 1 / sun)[:, None] * band_depth
        phase = (1 - forwardness**2) / (
            1 + forwardness**2 - 2 * forwardness * scattering[:, c]
        ) ** 1.5
        light = (ALBEDO * phase / (4 * (camera + sun)))[:, None] * -np.expm1(-path)
        seen = light[:, None] + ground * np.exp(-path / 2)[:, None]
        points[:, :, 4 * c : 4 * c + 4] = seen * rng.normal(1, 0.02, seen.shape)
    angles = np.column_stack([sun, scattering])[:, None]
    points[:, :, 12:] = angles + rng.normal(0, 0.002, (n_bags, n_points, 4))
    bags = Bags(points.reshape(-1, 16), np.arange(n_bags + 1) * n_points, features=FEATURES)
    return bags, depth + rng.normal(0, 0.01, n_bags)
