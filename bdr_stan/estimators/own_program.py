"""Fits of a Stan program that the user edited, and predictions that the program itself makes."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from bdr_stan.bags import Bags, values_of_bags
from bdr_stan.bags.checks import checked_numbers
from bdr_stan.cmdstan.programs import resolved_text
from bdr_stan.estimators.validation import StanFileOfFit
from bdr_stan.labels import Labels
from bdr_stan.models.plain import NO_NODES, as_new, take_bags
from bdr_stan.posterior.declarations import declared, declared_in, unread_parameters
from bdr_stan.posterior.generated import generated_quantities
from bdr_stan.posterior.sampling import Posterior
from bdr_stan.predictive.program import ProgramPredictive
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import Array, ArrayLike, PathName
from bdr_stan.user_warnings import warn

# A program's data of labels, shape (m,), for the new bags with indices of shape (m,).
DataAtLabels = Callable[[Array, Array], dict[str, Array]]
MOST_NUMBERS = 4_000_000  # of draws times bags, which Stan writes as text
FEWEST_DRAWS = 1000


def is_plain(program: PathName | None) -> TypeGuard[PathName]:
    """Whether a program declares the data of a plain one, including new bags."""
    return program is not None and "N_new" in declared(program, "data")


def check_declares(
    program: PathName,
    needed: Mapping[str, str],
    stan_data: Mapping[str, Any] | None,
    passed: Collection[str],
) -> None:
    """Raise ValueError if a plain program lacks data of the fit, `needed`, or has data of none."""
    names, accepted = declared(program, "data"), {*passed, *(stan_data or ())}
    for name in names:
        base_name = name.removesuffix("_new")
        if base_name not in accepted and name not in (stan_data or ()):
            raise ValueError(
                f"{program} declares the data {base_name}, which are none of every fit: give fit "
                f"stan_data={{{base_name!r}: ...}}, a column of the bags' metadata or an array"
            )
    for name, meaning in needed.items():
        if name not in names:
            raise ValueError(
                f"{program} does not declare {name} in its data, by which it would read {meaning}: "
                "declare and use it, or leave them out of the fit"
            )
    for name in unread_parameters(program):
        warn(f"{program} declares the parameter {name}, but nothing in it reads {name}")


def check_has_data(program: PathName, data: Mapping[str, Any], hints: Mapping[str, str]) -> None:
    """Raise ValueError if a program needs data that a fit lacks; `hints`, name -> remedy."""
    for name, hint in hints.items():
        if name not in data and name in declared(program, "data"):
            raise ValueError(f"{program} reads {name} in its data, which this fit has not: {hint}")


def check_own_data(program: PathName | None, stan_data: Any, passed: Collection[str]) -> None:
    """Raise an error unless `stan_data` are data of the program that fits do not pass anyway."""
    if program is None:
        raise TypeError("stan_data are data of a Stan program of your own: also pass stan_file")
    if not isinstance(stan_data, Mapping):
        raise TypeError(f"stan_data must be a dict of names of data, found {stan_data!r}")
    names = declared(program, "data")
    for name in stan_data:
        if str(name).removesuffix("_new") in passed:
            raise ValueError(
                f"stan_data has {name!r}, which is data that every fit passes: give yours another "
                "name in the program"
            )
        if name not in names:
            raise ValueError(
                f"{program} declares no data {name!r}, which stan_data gives: declare {name} and "
                f"{name}_new, of the new bags, in its data"
            )


def with_own_data(
    labels: Labels, program: PathName | None, bags: Any, stan_data: Mapping[str, Any] | None
) -> Labels:
    """Labels with the user's data: of each bag if a column or with a "_new", else shared."""
    if program is None or stan_data is None:
        return labels
    names = declared(program, "data")
    of_bags, shared, columns = {}, {}, dict(labels.columns)
    for name, values in stan_data.items():
        if isinstance(values, str):
            columns[name] = values
        if isinstance(values, str) or f"{name}_new" in names:
            of_bags[name] = _one_per_bag(bags, values, name)
        else:
            shared[name] = _as_data(checked_numbers(values, f"stan_data[{name!r}]"))
    return replace(labels, program_data=of_bags, shared_data=shared, columns=columns)


def own_data_of_new_bags(
    columns: Mapping[str, str | None], bags: Bags, stan_data: Mapping[str, Any] | None
) -> dict[str, Array]:
    """The same of new bags, by default from `columns` that the fit named; or ValueError."""
    stan_data = dict(stan_data or {})
    unknown = sorted(set(stan_data) - set(columns))
    if unknown:
        raise ValueError(
            f"stan_data has {unknown[0]!r}, which the fit had not or the program does not read of "
            f"new bags; it reads {', '.join(columns) or 'none'}"
        )
    data = {}
    for name, column in columns.items():
        values = stan_data.get(name, column)
        if values is None:
            raise ValueError(
                f"the program of the fit reads {name}_new, and the fit got {name} as an array: "
                f"give predictive, or conformal, stan_data={{{name!r}: ...}} with a value for each "
                "bag, or fit with a column of the bags' metadata"
            )
        data[name] = _one_per_bag(bags, values, name)
    return data


def _one_per_bag(bags: Bags, values: ArrayLike | str, name: str) -> Array:
    column = f"column {values!r}" if isinstance(values, str) else f"stan_data[{name!r}]"
    numbers = checked_numbers(values_of_bags(bags, values, name), column, bags.ids)
    if len(np.atleast_1d(numbers)) != len(bags):
        raise ValueError(
            f"stan_data[{name!r}] has {np.size(numbers)} values, but there are {len(bags)} bags: "
            "one for each bag"
        )
    gaps = np.flatnonzero(~np.isfinite(numbers).reshape(len(bags), -1).all(axis=1))
    if len(gaps):
        raise ValueError(
            f"{column} of {bags.name(gaps[0])} is not a finite number ({len(gaps)} in total): give "
            "such bags a number, or leave them out"
        )
    return _as_data(numbers)


def _as_data(numbers: Array) -> Array:
    """Numbers as integers if all are whole, because Stan's integers accept no others."""
    whole = numbers.astype(np.int64, copy=True) if np.all(np.abs(numbers) < 2**53) else numbers
    return whole if np.array_equal(whole, numbers) else numbers


def at_labels(bags: Array, labels: Array) -> dict[str, Array]:
    """Labels of new bags in the form for most programs."""
    return {"y_at": labels}


@dataclass(frozen=True)
class OwnProgram:
    """A user's Stan program as a fit ran it, which a saved fit keeps."""

    name: str  # of the file, without .stan
    code: str
    data: dict[str, Any]  # of the training bags
    # Names of the user's own data of new bags -> column of the metadata, None for arrays.
    columns: dict[str, str | None]
    seed: int = 1  # of predictions, by this engine
    engine: str | None = None

    @classmethod
    def of_fit(cls, program: PathName, data: Mapping[str, Any], labels: Labels) -> "OwnProgram":
        """The program at this path, with the data of a fit to `labels`."""
        names = declared(program, "data")
        read = [name for name in labels.program_data if f"{name}_new" in names]
        columns = {name: labels.columns.get(name) for name in read}
        text = resolved_text(program)
        used = {name: values for name, values in data.items() if name in names}
        return cls(Path(program).stem, text, used, columns)

    @contextmanager
    def written(self) -> Iterator[Path]:
        """The program as a file that lasts as long as the context."""
        with scratch_folder() as folder:
            path = Path(folder) / f"{self.name}.stan"
            path.write_text(self.code, encoding="utf-8")
            yield path

    def kept(self) -> dict[str, Any]:
        """The program as a setting of a result."""
        return {name: getattr(self, name) for name in ("name", "code", "data", "columns")}

    def check_may_run(self, stan_file: PathName | None) -> None:
        """Raise ValueError for a program from a file that the user has not confirmed."""
        if stan_file is None:
            raise ValueError(
                f"predictions run {self.name}.stan, the Stan program of the fit: set stan_file to "
                "it again"
            )
        if isinstance(stan_file, StanFileOfFit):
            raise ValueError(
                f"predictions run the Stan program of the fit, which was loaded from "
                f"{stan_file.fit}: check that program, {str(stan_file)!r} on the machine of the "
                "fit and result_.settings['program']['code'] here, then set it with "
                "set_params(stan_file=...), or --stan-file, to a file of the same text"
            )
        if resolved_text(stan_file) != self.code:
            raise ValueError(
                f"{stan_file} is not the Stan program of the fit any more, which predictions run: "
                "fit again, or set stan_file to a file with the text of "
                "result_.settings['program']['code']"
            )

    def predictive(
        self,
        draws: Mapping[str, Array],
        bags: Mapping[str, Any],
        *,
        is_count: bool = False,
        logarithms: bool = False,
        data_at: DataAtLabels = at_labels,
    ) -> ProgramPredictive:
        """Predictive distribution of n bags, by draws of parameters, each (S, ...).

        `bags` are data per bag, by names without "_new", and any labels `y` of the program's type;
        `data_at` returns its data of labels of new bags, which may be `logarithms`.
        """
        n = bags["N"]
        n_draws = len(next(iter(draws.values())))
        every = np.arange(n)
        own_labels, others = bags["y"], {k: v for k, v in bags.items() if k != "y"}

        def generated(wanted, i, labels):
            new = as_new(take_bags(others, i)) | data_at(i, labels)
            return self._generated(wanted, draws, new)

        def log_density(i, labels):
            self.check_generates("log_lik", "densities and probabilities of labels")
            if logarithms:
                with np.errstate(divide="ignore"):
                    inner = np.log(np.maximum(labels, 0))
                possible = np.isfinite(inner)
                log_lik = generated("log_lik", i, np.where(possible, inner, 0.0))
                return np.where(possible, log_lik - inner, -np.inf)
            return generated("log_lik", i, labels.astype(own_labels.dtype))

        self.check_generates("y_new", "predictions")
        labels = generated("y_new", every, own_labels)
        if logarithms:
            labels = np.exp(labels)
        return ProgramPredictive(
            lambda i: labels[:, i], n, n_draws, log_density=log_density, is_count=is_count
        )

    def rates(self, draws: Mapping[str, Array], points: Mapping[str, Any]) -> Array:
        """Rates at points from `data_of_totals`, (S, n), by draws of parameters, (S, ...)."""
        self.check_generates("rate_new", "rates of points", size="P_new")
        return self._generated("rate_new", draws, as_new(points))

    def _generated(self, wanted, draws, new):
        """A variable of the program, shape (S, ...), with data of new bags."""
        has_nodes = "node" in self.data and wanted != "log_lik"
        data = {**self.data, **new, **(NO_NODES if has_nodes else {})}
        quantities = generated_quantities(
            self.name, self.code, data, draws, [wanted], seed=self.seed, engine=self.engine
        )
        return quantities[wanted]

    def check_generates(self, name: str, purpose: str, size: str = "N_new") -> None:
        """Raise ValueError if the program writes no variable that a purpose needs."""
        if not self.generates(name):
            raise ValueError(
                f"{self.name}.stan has no {name} in its generated quantities, and {purpose} are "
                f"the program's own: write array[{size}] {name} there, as the programs of bdr-stan "
                "eject do"
            )

    def generates(self, name: str) -> bool:
        """Whether the program writes a variable in its generated quantities."""
        return name in declared_in(self.code, "generated quantities")


def program_to_run(model: Any) -> OwnProgram:
    """The user's plain program for predictions; ValueError if there is none that may run."""
    program = model.own_program
    if program is None:
        raise ValueError(
            f"{model.stan_file} is a variant of an accelerated program, which draws no labels of "
            "new bags: for predictions edit the plain program, from bdr-stan eject"
        )
    if not getattr(model, "program_ran_here", False):
        program.check_may_run(model.stan_file)
    seed = model.result_.settings["run"]["arguments"]["seed"]
    return replace(program, seed=seed, engine=model.engine)


def draws_of_program(model: Any, step: int) -> dict[str, Array]:
    """Every k-th draw of the fit's program, all chains in one; a single draw is repeated."""
    group = model.result_.groups["posterior"]
    draws = Posterior({name: array.values for name, array in group.items()}, {}, {}).flat(step)
    repeated = FEWEST_DRAWS if len(next(iter(draws.values()))) == 1 else 1
    return {name: np.repeat(values, repeated, axis=0) for name, values in draws.items()}
