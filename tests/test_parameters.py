"""Docstrings that classes and methods complete by those of their bases."""

import inspect

from bdr_stan.estimators.base import BagEstimator


class Base(BagEstimator):
    def predict(self, bags, level=0.95, *, cut=1.0):
        """Predictions.

        Parameters
        ----------
        cut : float
            Where to cut.

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            The cut is negative.
        """


class Derived(Base):
    def predict(self, bags, *, fast=False, cut=1.0):
        """Predictions, but faster with `fast`.

        Raises
        ------
        TypeError
            The cut is no number.
        """

    def embed(self, bags, level):
        """One line describes `bags` and the level."""


def lines(method):
    return inspect.getdoc(method).splitlines()


def test_parameters_of_all_methods_stand_in_the_order_of_the_signature():
    heads = [line for line in lines(Base.predict) if " : " in line]
    assert heads == [
        "bags : Bags, or list of n arrays, shapes (n_points, p)",
        "level : float, 0 < level < 1, default 0.95",
        "cut : float",
    ]


def test_a_method_has_what_it_omits_from_the_same_method_of_a_base():
    found = lines(Derived.predict)
    assert "    Where to cut." in found and "array, shape (n,)" in found
    assert found.index("Returns") < found.index("ValueError") < found.index("TypeError")
    assert not any(line.startswith(("level", "fast")) for line in found)


def test_a_docstring_without_sections_stays():
    assert lines(Derived.embed) == ["One line describes `bags` and the level."]
