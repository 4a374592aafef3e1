"""What bags with several samples refuse."""

import numpy as np
import pandas as pd
from builders.mistakes import BAGS, POINTS, SIZES, TABLE, Y, check_call, mistakes

from bdr_stan import BDR, BLR, Bags, BDRClassifier, InverseBDR, Samples, Shrinkage, Stacked, tune

IDS = [f"t{i:02}" for i in range(12)]
NAMED = Bags.from_points(POINTS, sizes=SIZES, features=["x", "z"], ids=IDS)
FEW = NAMED[:9]
BOTH = {"people": NAMED, "houses": FEW}
LATE = {"houses": FEW, "people": NAMED}
BY_ID = pd.Series(Y, IDS)
OTHER_IDS = Bags.from_points(POINTS, sizes=SIZES, ids=[f"s{i}" for i in range(12)])
STATES = [
    Bags.from_points(POINTS, sizes=SIZES, ids=IDS, metadata=pd.DataFrame({"state": list(states)}))
    for states in ("aaaabbbbcccc", "aaaabbbbcccd")
]
FEATURES = BDR(5).training_features(BOTH, seed=1)
KERNELS = {"people": "rbf", "dogs": "rbf"}

SAMPLES = [
    ("a list of samples", lambda: Samples([NAMED, FEW]), "must be a dict"),
    ("no samples", lambda: BDR().fit({}, Y), "must be a dict"),
    ("samples without names", lambda: Samples({1: NAMED}), "named by text"),
    ("a name that no file can have", lambda: Samples({"a/b": NAMED}), "'a/b'"),
    ("a table as a sample", lambda: Samples({"people": TABLE}), "'people' must be Bags"),
    ("a table as a sample of a fit", lambda: BDR().fit({"people": TABLE}, Y), "table"),
    ("a dict of arrays by id", lambda: BDR().fit(dict(zip(IDS, BAGS, strict=True)), Y),
     "Bags.from_list(list(X.values()), ids=list(X))"),
    ("ids of one sample alone", lambda: Samples({"people": NAMED, "houses": BAGS}),
     "only be matched by ids"),
    ("other numbers of bags without ids", lambda: Samples({"people": BAGS, "houses": BAGS[:5]}),
     "only be matched by ids"),
    ("a sample without bags", lambda: Samples({"people": NAMED, "houses": NAMED[:0]}),
     "'houses' has no bags"),
    ("no common bag", lambda: Samples({"people": NAMED, "houses": OTHER_IDS}),
     ["'people'", "'t00'", "'s0'"]),
    ("metadata that differ", lambda: Samples(dict(zip("ab", STATES, strict=True))),
     ["column 'state'", "bag 't11'", "'c'", "'d'", "sample 'b'"]),
    ("points of all samples", lambda: list(Samples(BOTH)), "samples[name]"),
    ("labels in no order", lambda: BDR().fit(LATE, Y), ["bag 9 (id 't09')", "no 'houses'", "y"]),
    ("trials in no order",
     lambda: BDR(family="binomial").fit(LATE, BY_ID.round().abs(), trials=[20] * 12),
     ["bag 9 (id 't09')", "trials"]),
    ("samples in samples", lambda: Samples({"a": Samples(BOTH), "b": BAGS}), "samples of its own"),
    ("labels of too few", lambda: BDR().fit(BOTH, BY_ID[:9]), "lacks the id 't09'"),
    ("known errors", lambda: BDR().fit(BOTH, BY_ID, label_sd=np.ones(12)), "label_sd"),
    ("known errors of features",
     lambda: BDR(5).fit_features(FEATURES, BY_ID, label_sd=np.ones(12)), "label_sd"),
    ("exact embeddings of features", lambda: BLR(5).fit_features(FEATURES, BY_ID),
     ["bag 9 (id 't09')", "BDR"]),
    ("noise by size", lambda: BDR(label_noise="size").fit(BOTH, BY_ID), "label_noise='size'"),
    ("the exact method",
     lambda: BLR(method="exact").fit({"people": NAMED}, BY_ID), "method='exact'"),
    ("exact embeddings that are lacking", lambda: BLR().fit(BOTH, BY_ID),
     ["bag 9 (id 't09')", "no 'houses'", "BDR"]),
    ("a sample without other labels",
     lambda: Shrinkage(5).fit(BOTH, pd.Series([1.0] * 9 + [2.0] * 3, IDS)), "'houses'"),
    ("kernels of other samples", lambda: BDR(kernel=KERNELS).fit(BOTH, BY_ID),
     ["kernel", "dogs", "houses"]),
    ("an unknown kernel of a sample",
     lambda: BDR(kernel={"people": "rbf", "houses": "round"}).fit(BOTH, BY_ID), "'round'"),
    ("no landmarks of a sample",
     lambda: BDR(n_landmarks={"people": 5, "houses": 0}).fit(BOTH, BY_ID), "n_landmarks"),
    ("kernels of bags of one sample", lambda: BDR(kernel=KERNELS).fit(NAMED, BY_ID), "kernel"),
    ("a prior of no sample", lambda: Shrinkage(5, prior={"rho_median[dogs]": 1}).fit(BOTH, BY_ID),
     ["rho_median[dogs]", "rho_median[houses]"]),
    ("classes", lambda: BDRClassifier().fit(BOTH, ["a", "b"] * 6), "BDR, BLR and Shrinkage"),
    ("an inverse model", lambda: InverseBDR().fit(BOTH, BY_ID), "BDR, BLR and Shrinkage"),
    ("a stack", lambda: Stacked([BDR(), BLR()]).fit(BOTH, BY_ID), "use BDR or Shrinkage"),
    ("a search", lambda: tune(BOTH, BY_ID, models=[BLR()], cv=3), "use BDR or Shrinkage"),
]  # fmt: skip


@mistakes(SAMPLES)
def test_samples(call, words):
    check_call(call, words)
