"""Links between a function at points and their rates, one object each."""

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links.base import Link as Link
from bdr_stan.aggregate.links.of_points import EXP, IDENTITY, LOGIT
from bdr_stan.aggregate.links.square import SQUARE

__all__ = ["LINKS"]

LINKS: dict[str, Link] = {link.name: link for link in (SQUARE, EXP, LOGIT, IDENTITY)}


def link_of(likelihood: Likelihood, name: str | None = None) -> Link:
    """The link of this name, or the default of the likelihood; ValueError for another's."""
    if name is None:
        return LINKS[likelihood.links[0]]
    if name not in likelihood.links:
        links = " or ".join(map(repr, likelihood.links))
        raise ValueError(f"the {likelihood.name} likelihood takes the link {links}, found {name!r}")
    return LINKS[name]
