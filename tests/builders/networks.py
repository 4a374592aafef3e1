"""Small networks for the rates of points, one of each kind."""

from experiments.papers import AggregateNN

NETWORKS = [
    AggregateNN(4, n_restarts=1),
    AggregateNN(4, link="square", n_restarts=2, manifold=1.0, n_frequencies=20),
    AggregateNN(4, "normal", "identity", n_restarts=1, bag_manifold=1.0),
    AggregateNN(4, "exponential", n_restarts=1),
]


def name_of(model):
    return f"{type(model).__name__}-{model.likelihood}"
