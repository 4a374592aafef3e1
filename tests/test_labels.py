"""Labels and all that belongs to them."""

import numpy as np

from bdr_stan.labels import Labels

EXPOSURE, OFFSET = np.array([1.0, 10.0]), np.array([0.5, -2.0])


def test_offsets_are_those_given_and_logarithms_of_exposures():
    assert Labels().offsets is None
    np.testing.assert_array_equal(Labels(offset=OFFSET).offsets, OFFSET)
    np.testing.assert_allclose(Labels(exposure=EXPOSURE).offsets, np.log(EXPOSURE))
    both = Labels(exposure=EXPOSURE, offset=OFFSET).offsets
    np.testing.assert_allclose(both, np.log(EXPOSURE) + OFFSET)


def test_some_bags_keep_what_belongs_to_their_labels():
    z = np.array([[1.0, 2.0], [3.0, 4.0]])
    labels = Labels(
        np.array([3.0, 4.0]), label_sd=OFFSET, exposure=EXPOSURE, name="y", program_data={"z": z}
    )
    some = labels.take([1])
    assert (some.y, some.label_sd, some.exposure, some.name) == (4.0, -2.0, 10.0, "y")
    assert some.trials is None and list(some.given) == ["exposure"]
    np.testing.assert_array_equal(some.program_data["z"], [[3.0, 4.0]])
    np.testing.assert_array_equal(labels.error_variance, OFFSET**2)
    assert Labels().take([0]).error_variance == 0
    assert list(labels.constants) == ["label_sd", "exposure"]
