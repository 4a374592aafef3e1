"""Links between a function at points and their rates, one object each."""

from bdr_stan.aggregate.links.base import FunctionPrior, Link
from bdr_stan.aggregate.links.exp import EXP, Exp
from bdr_stan.aggregate.links.identity import IDENTITY, Identity
from bdr_stan.aggregate.links.logit import LOGIT, Logit
from bdr_stan.aggregate.links.square import SQUARE, Square

__all__ = ["LINKS", "Exp", "FunctionPrior", "Identity", "Link", "Logit", "Square"]

LINKS: dict[str, Link] = {link.name: link for link in (SQUARE, EXP, LOGIT, IDENTITY)}
