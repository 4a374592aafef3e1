"""Every estimator once, with settings that make its fit quick."""

import bdr_stan

QUICK_TOTALS = {"n_landmarks": 5, "method": "vb", "likelihood": "poisson", "learn_kernel": False}
ESTIMATORS = [
    bdr_stan.BDR(5, method="optimize"),
    bdr_stan.BLR(5, method="exact"),
    bdr_stan.Shrinkage(5),
    bdr_stan.InverseBDR(5, method="optimize"),
    bdr_stan.BLRClassifier(5, method="optimize"),
    bdr_stan.ShrinkageClassifier(5),
    bdr_stan.BDRClassifier(5, method="optimize"),
    bdr_stan.InverseBDRClassifier(5, method="optimize"),
    bdr_stan.RBFNetwork(5),
    bdr_stan.MERR(),
    bdr_stan.AggregateRegressor(**QUICK_TOTALS),
    bdr_stan.JointRegressor(n_landmarks=5, method="optimize", learn_kernel=False),
    bdr_stan.Stacked([bdr_stan.BLR(5, method="exact"), bdr_stan.BLR(4, method="exact")]),
    bdr_stan.StackedClassifier(
        [bdr_stan.BLRClassifier(5, method="laplace"), bdr_stan.BLRClassifier(4, method="laplace")]
    ),
]
