"""What people keep of statsmodels in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "statsmodels"
SETUP = """\
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.seasonal import seasonal_decompose

frame = pd.DataFrame({"a": [1.0, 2.5, 2.0, 4.0, 5.5], "b": [2.0, 1.0, 4.0, 3.0, 5.0]})
walk = np.random.default_rng(0).normal(size=40).cumsum()
model = smf.ols("a ~ b", frame)
fit = model.fit()
"""
VALUES = [
    Value(
        cls="statsmodels.regression.linear_model.OLS",
        make="model",
        check="x.formula == 'a ~ b' and x.fit().params['b'] == fit.params['b']",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.regression.linear_model.RegressionResultsWrapper",
        make="fit",
        check="x.model is model and 0 < x.rsquared < 1 and x.predict({'b': [1.0]}).shape == (1,)"
        " and x.summary() is not None",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.iolib.summary.Summary",
        make="fit.summary()",
        check="'OLS Regression' in x.as_text() and '<table' in x.as_html()",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.genmod.generalized_linear_model.GLMResultsWrapper",
        make="sm.GLM(frame['a'], sm.add_constant(frame['b']), family=sm.families.Gamma(sm.families.links.Log())).fit()",
        check="len(x.params) == 2 and type(x.family.link).__name__ == 'Log'",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.discrete.discrete_model.BinaryResultsWrapper",
        make="sm.Logit((frame['a'] > 2).astype(int), sm.add_constant(frame['b'])).fit(disp=0)",
        check="x.params.shape == (2,)",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.tsa.arima.model.ARIMAResultsWrapper",
        make="ARIMA(walk, order=(1, 0, 0)).fit()",
        check="x.forecast(2).shape == (2,) and x.model.order == (1, 0, 0)",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.tsa.seasonal.DecomposeResult",
        make="seasonal_decompose(walk, period=4)",
        check="x.seasonal.shape == (40,) and len(x.observed) == 40",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.stats.outliers_influence.OLSInfluence",
        make="fit.get_influence()",
        check="x.hat_matrix_diag.shape == (5,)",
        keeps="exact",
    ),
    Value(
        cls="statsmodels.nonparametric.kde.KDEUnivariate",
        make="density = sm.nonparametric.KDEUnivariate(walk)\ndensity.fit() is None\ndensity",
        check="x.density.shape == x.support.shape",
        keeps="exact",
    ),
]
