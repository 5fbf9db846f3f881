"""What people keep of LightGBM in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "lightgbm"
SETUP = """\
import lightgbm as lgb
import numpy as np

X = np.random.default_rng(0).random((60, 2))
y = X[:, 0]
options = {"verbose": -1, "num_threads": 1}
expected = {}

def same(name, values):
    said = np.asarray(values).round(12).tolist()
    return len(set(said)) > 1 and expected.setdefault(name, said) == said
"""
VALUES = [
    Value(
        cls="lightgbm.LGBMRegressor",
        make="lgb.LGBMRegressor(n_estimators=3, **options).fit(X, y)",
        check="same('r', x.predict(X)) and x.n_features_in_ == 2 and x.booster_.num_trees() == 3",
        keeps="exact",
    ),
    Value(
        cls="lightgbm.LGBMClassifier",
        make="lgb.LGBMClassifier(n_estimators=2, **options).fit(X, y > 0.5)",
        check="same('c', x.predict_proba(X)[:, 0]) and x.classes_.tolist() == [False, True]",
        keeps="exact",
    ),
    Value(
        cls="lightgbm.Booster",
        make="lgb.train(options, lgb.Dataset(X, y), 2)",
        check="same('b', x.predict(X)) and x.num_trees() == 2",
        keeps="exact",
    ),
    Value(
        cls="lightgbm.Dataset",
        make="lgb.Dataset(X, y).construct()",
        check="x.num_data() == 60",
        keeps="reported",
        note="data in memory of the library; make it again in a cell",
    ),
]
