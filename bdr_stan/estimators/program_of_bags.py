"""Fits to mean embeddings by a plain Stan program of the user's own, and its predictions."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from bdr_stan.bags.samples import check_one_sample
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.own_program import (
    FEWEST_DRAWS,
    MOST_NUMBERS,
    at_labels,
    draws_of_program,
    program_to_run,
)
from bdr_stan.labels import OF_TIMES, Labels
from bdr_stan.models.plain import DATA, data_of_bags, plain_model
from bdr_stan.questions.protocol import Fit


class ProgramOfBags(Fit):
    """What a model on mean embeddings does with a plain program of the user's own."""

    program_data: ClassVar[tuple[str, ...]] = DATA

    def _plain_training(self: Any, bags: Any, labels: Labels) -> TrainingFeatures:
        """Training features for a plain program; ValueError for bags with several samples."""
        check_one_sample(
            bags, "plain programs are for bags with one sample: fit one of the samples"
        )
        return self._training_features(bags, self.checked_seed(None), False)

    def _needed_data(self: Any, labels: Labels) -> dict[str, str]:
        """Names of data that a plain program must declare -> this fit's data of these names."""
        columns = {role: names for role, names in self._columns().items() if names}
        return {
            "x": " and ".join(columns),
            "label_sd": "label_sd" * (labels.label_sd is not None),
            "trials": "trials" * (labels.trials is not None),
            "known_part": " and ".join(n for n in ("exposure", "offset") if n in labels.given),
            **{name: name * (name in labels.given) for name in OF_TIMES},
            "sigma_point_scale": "label_noise='size'"
            * (getattr(self, "label_noise", "constant") == "size"),
        }

    def _plain_model(self: Any, stock: Any, training: TrainingFeatures, labels: Labels) -> Any:
        """The model of the plain program in the place of a stock model."""
        return plain_model(stock, training.embedding, self.label_model.of_program(labels))

    def _program_bags(self, program, coordinates, embedding, labels):
        """Embedded bags as data of the user's program, with any labels, and other labels' data."""
        y, n = program.data["y"], len(embedding.mean)
        possible = np.full(n, 0 if self.counts_labels and labels.classes is None else y.min())
        of_any = replace(labels, y=possible.astype(y.dtype))
        return data_of_bags(coordinates, embedding, of_any), at_labels

    def program_step(self: Any, n_bags: int, n_draws: int | None = None) -> int:
        """k, if predictions use every k-th draw; families and inverse models use fewer."""
        n_draws = self._n_draws if n_draws is None else n_draws
        is_slow = self.label_model.distribution is not None or not self.has_likelihood
        most = FEWEST_DRAWS if is_slow else MOST_NUMBERS // max(n_bags, 1)
        return -(-n_draws // max(most, FEWEST_DRAWS))

    def program_predictive(
        self: Any, embedding: Embedding, labels: Labels, step: int | None = None
    ) -> Any:
        """Predictive distribution by the user's own program, at every k-th draw of each chain."""
        program = program_to_run(self)
        draws = draws_of_program(self, step or self.program_step(len(embedding.mean)))
        return self._predictive_of(program, self.coordinates_, embedding, labels, draws)

    def _predictive_of(self, program, coordinates, embedding, labels, draws):
        """Predictive distribution of embedded bags by the user's own program, at `draws`."""
        bags, data_at = self._program_bags(program, coordinates, embedding, labels)
        kind = self.label_model
        predictive = program.predictive(
            draws, bags, is_count=kind.is_count, logarithms=kind.logarithms, data_at=data_at
        )
        classes = labels.classes
        return predictive if classes is None else predictive.of_classes(classes, kind.first_class)
