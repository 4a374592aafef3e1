"""Verdicts and errors of the densities and the kernel PCA of shrunk kernel means."""

import numpy as np
import pytest

from experiments import kmse_density


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([-1] * 10, -1),
        ([-1] * 9 + [5], -1),  # p = 0.021
        ([-1] * 8 + [5] * 2, 0),  # p = 0.11
        ([2] * 9 + [-9], 1),
        ([-1] * 6 + [1e-12] * 4, -1),  # equal up to rounding: 6 of 6, p = 0.031
        ([1e-12] * 10, 0),
    ],
)
def test_sign_test(differences, verdict):
    assert kmse_density.sign_test(np.array(differences, float)) == verdict


def test_tables_state_differences_with_standard_errors():
    kme = np.array([20.0, 21, 22, 23, 24, 25])
    values = {"kme": kme, "s-kmse": kme - 0.5, "f-kmse": kme + 0.25, "theorem 4": kme}
    of_kernels = {("wine", kernel): values for kernel in kmse_density.KERNELS}
    assert kmse_density.density_table(of_kernels).splitlines()[-1] == (
        "| wine | RBF | 22.50 ± 0.76 | 22.00 (-0.50 ± 0.00)* | 22.75 (+0.25 ± 0.00)* | "
        "22.50 (+0.00 ± 0.00) | 17.15 / 16.92 / 16.63 |"
    )
    assert kmse_density.verdict_table(of_kernels).splitlines()[-1] == (
        "| RBF | 1 / 0 | 0 / 1 | 0 / 0 |"
    )


def test_a_table_of_your_own_needs_points(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("a,b,name\n1,2,x\n2,2,y\n3,,z\n")
    with pytest.raises(SystemExit, match=r"few\.csv has 2 complete rows and 1 numeric columns"):
        kmse_density.load_csv(path, 0)
    np.savetxt(path, np.arange(120.0).reshape(60, 2), delimiter=",", header="a,b", comments="")
    points = kmse_density.load_csv(path, 0)
    assert points.shape == (60, 2)
    np.testing.assert_allclose([points.mean(), points.std()], [0, 1], atol=1e-12)
