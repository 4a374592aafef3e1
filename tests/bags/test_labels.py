"""Labels of bags, and every sentence about bad ones."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan.bags import (
    Bags,
    check_classes,
    check_labels,
    check_within,
    label_sd_values,
    values_are_usable,
    values_of_bags,
)


def test_the_name_of_a_column_stands_by_itself():
    bags = Bags([[1.0], [2.0]], [0, 1, 2], metadata=pd.DataFrame({"vote": [1.0, 2.0]}))
    with pytest.raises(TypeError, match="y is a list with one entry, 'vote': pass it by itself"):
        check_labels(bags, ["vote"])


def test_check_labels(bags):
    labels = check_labels(bags, [1, 2, 3, 4, 5])
    assert labels.dtype == np.float64
    np.testing.assert_array_equal(labels, [1, 2, 3, 4, 5])
    series = pd.Series([True, False, True, True, True], index=list("abcde"))
    np.testing.assert_array_equal(check_labels(bags, series), [1, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([1, 2, 3], ValueError, "y has 3 labels, but there are 5 bags"),
        (np.ones((5, 2)), ValueError, r"y has shape \(5, 2\), expected \(5,\)"),
        (3.0, ValueError, r"y has shape \(\), expected \(5,\)"),
        ([1, 2, np.nan, 4, np.inf], ValueError,
         r"label of bag 2 \(id 'c'\) is nan \(2 in total\): leave these bags out"),
        ([1, None, 2, 3, 4], ValueError, r"label of bag 1 \(id 'b'\) is nan"),
        (list("vwxyz"), TypeError, "label of bag 0 .*'v', not a number .5 in.*as BDRClassifier$"),
        (np.array(["1.5", 2, 3, 4, 5], object), TypeError, "'1.5', not a number .* pd.to_numeric$"),
        (np.array([1, 2, 3, 4, 5j]), TypeError, "label of bag 0 .* not a number"),
        ([[1], [2, 3], 4, 5, 6], TypeError, "label of bag 0 .* not a number"),
        ([7, 8, "<5", 9, 6], TypeError, "bag 2 .*'<5', not a number .1 in total.: give such bags"),
        (["7", "--", "1-9", "9", "6"], TypeError, "bag 1 .*'--', not a number .2 in total"),
        ([7, 8, "Suppressed", None, 6], TypeError, "bag 2 .*'Suppressed', not a number .2 in"),
        ([[1], [2], [3], [4], [5]], ValueError, r"pass y\[:, 0\], of a table y.iloc\[:, 0\]"),
        ([2, 2, 2, 2, 2], ValueError, "all 5 labels equal 2: there is nothing to learn"),
    ],
)  # fmt: skip
def test_bad_labels(bags, y, error, message):
    with pytest.raises(error, match=message):
        check_labels(bags, y)


@pytest.mark.parametrize(
    "y", [[0, 1, 1, 0, 1], [2.5, -1, 2.5, -1, -1], list("abbab"), [True, False, True, True, True]]
)
def test_check_classes(bags, arrays, y):
    for given in (y, np.array(y, object), pd.Series(y, index=list("abcde"))):
        classes = check_classes(bags, given)
        assert classes.dtype.kind in "iufUb"
        np.testing.assert_array_equal(classes, y)
    np.testing.assert_array_equal(check_classes(arrays, y), y)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([0, 1, 1], ValueError, "y has 3 labels, but there are 5 bags"),
        ([["a", None, "b", None, "a"]], ValueError, r"y has shape \(1, 5\), expected \(5,\)"),
        (["a", None, "b", None, "a"], ValueError,
         r"label of bag 1 \(id 'b'\) is missing \(2 in total\): leave these bags out"),
        ([0, 1, np.nan, 1, 0], ValueError, r"label of bag 2 \(id 'c'\) is missing \(1 in total"),
        (np.array([1j, 2, 1, 2, 1]), TypeError, "all be numbers, all strings or all true or false"),
        ([1, 1, 1, 1, 1], ValueError, r"y has 1 class \(1\), but a classifier needs two$"),
        (list("abcab"), ValueError,
         r"y has 3 classes \('a', 'b', 'c'\), .* use sklearn.multiclass.OneVsRestClassifier"),
    ],
)  # fmt: skip
def test_bad_classes(bags, y, error, message):
    with pytest.raises(error, match=message):
        check_classes(bags, y)


def test_more_than_five_classes_are_not_all_shown():
    with pytest.raises(ValueError, match=r"y has 6 classes \(0, 1, 2, 3, 4, \.\.\.\), but"):
        check_classes([[[1.0]]] * 6, range(6))


def test_bags_without_ids_are_named_by_position(arrays):
    with pytest.raises(ValueError, match="the label of bag 3 is nan"):
        check_labels(arrays, [1, 2, 3, np.nan, 4])
    with pytest.raises(ValueError, match="the label of bag 0 is missing"):
        check_classes(arrays, [None, "a", "b", "a", "b"])


def test_labels_that_mark_missing_values_are_refused():
    bags = [np.ones((1, 1))] * 3
    with pytest.raises(ValueError, match="label of bag 1 is -3.4e.38 .* nodata marker"):
        check_labels(bags, [1.0, -3.4e38, 2.0])
    with pytest.raises(ValueError, match="label of bag 2 is nan"):
        check_labels(bags, np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 0, 1]))


def test_labels_within_bounds(bags, arrays):
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    for bounds in [(1, 5), (None, 5), (1.0, None), (None, None)]:
        check_within(bags, y, bounds)
    beyond = r"label of bag 3 \(id 'd'\) is 4 \(2 in total\): it is beyond the bound 3.5; widen"
    with pytest.raises(ValueError, match=beyond):
        check_within(bags, y, (None, 3.5))
    with pytest.raises(ValueError, match="label of bag 0 is 1 .* beyond the bound 1.5"):
        check_within(arrays, y, (1.5, 9))


def test_there_may_be_several_classes(bags):
    y = list("abcab")
    np.testing.assert_array_equal(check_classes(bags, y, several=True), y)
    with pytest.raises(ValueError, match=r"y has 3 classes .*sklearn.multiclass"):
        check_classes(bags, y)
    with pytest.raises(ValueError, match="y has 1 class .*, but a classifier needs two$"):
        check_classes(bags, ["a"] * 5, several=True)
    with pytest.raises(ValueError, match="each of the 5 bags has its own class"):
        check_classes(bags, range(5), several=True)


def test_values_are_taken_as_they_are_or_from_the_metadata():
    metadata = pd.DataFrame({"asked": [7, 9], "said": [1, 2]})
    bags = Bags.from_points(np.zeros((3, 1)), sizes=[1, 2], metadata=metadata)
    given = [4, 5]
    assert values_of_bags(bags, given, "trials") is given
    np.testing.assert_array_equal(values_of_bags(bags, "asked", "trials"), [7, 9])
    np.testing.assert_array_equal(values_of_bags(bags[[1]], "asked", "trials"), [9])
    with pytest.raises(
        ValueError, match="trials='n' is not a column .* which have 'asked', 'said'"
    ):
        values_of_bags(bags, "n", "trials")
    plain = Bags.from_points(np.zeros((3, 1)), sizes=[1, 2])
    with pytest.raises(ValueError, match="trials='asked' is not a column .* which have none"):
        values_of_bags(plain, "asked", "trials")


def test_standard_errors_are_numbers_or_metadata():
    metadata = pd.DataFrame({"se": [0.5, 0.2]})
    bags = Bags.from_points(np.zeros((3, 1)), sizes=[1, 2], metadata=metadata)
    np.testing.assert_array_equal(label_sd_values(bags, "se"), [0.5, 0.2])
    np.testing.assert_array_equal(label_sd_values(bags, [0.1, 0.3]), [0.1, 0.3])
    refused = r"label_sd of bag 1 is 0 \(1 in total\): a standard error is positive"
    with pytest.raises(ValueError, match=refused):
        label_sd_values(bags, [0.5, 0.0])


def test_values_that_are_usable():
    assert values_are_usable(np.array([1.0, 2.0]))
    assert not values_are_usable(np.array([1.0, np.nan]))
    assert not values_are_usable(np.array([1.0, -3.4e38]))
