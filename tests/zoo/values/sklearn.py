"""What people keep of scikit-learn in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "sklearn"
SETUP = """\
import numpy as np
from sklearn import (
    calibration, cluster, compose, covariance, cross_decomposition, decomposition, discriminant_analysis, dummy, ensemble,
    feature_extraction, feature_selection, gaussian_process, impute, isotonic, kernel_ridge, linear_model, manifold, mixture,
    model_selection, multiclass, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree,
)
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Bunch

rng = np.random.RandomState(0)
X = rng.rand(40, 3)
y = (X[:, 0] > 0.5).astype(int)
z = X @ [1.0, 2.0, 3.0]
texts = ["the cat sat", "the dog ran", "a cat ran"]

class Doubler(TransformerMixin, BaseEstimator):
    def __init__(self, factor=2):
        self.factor = factor

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X * self.factor

expected = {}

def same(name, values):
    # Before the crash it notes what an estimator says, afterwards it compares.
    said = np.asarray(values).round(9).tolist()
    return expected.setdefault(name, said) == said
"""
_PREDICTS = (
    ("linear_model.LinearRegression()", "z"),
    ("linear_model.LogisticRegression(C=0.5)", "y"),
    ("linear_model.Lasso(alpha=0.1)", "z"),
    ("linear_model.RidgeCV()", "z"),
    ("linear_model.SGDClassifier(random_state=0)", "y"),
    ("tree.DecisionTreeClassifier(max_depth=3)", "y"),
    ("ensemble.RandomForestClassifier(n_estimators=5, random_state=0)", "y"),
    ("ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0)", "z"),
    ("ensemble.HistGradientBoostingClassifier(max_iter=3)", "y"),
    ("ensemble.IsolationForest(n_estimators=5, random_state=0)", "y"),
    ("ensemble.VotingClassifier([('a', naive_bayes.GaussianNB()), ('b', dummy.DummyClassifier())])", "y"),
    ("svm.SVC(probability=False)", "y"),
    ("svm.LinearSVC()", "y"),
    ("neighbors.KNeighborsClassifier(3, algorithm='kd_tree')", "y"),
    ("neighbors.KNeighborsRegressor(3, algorithm='ball_tree')", "z"),
    ("naive_bayes.GaussianNB()", "y"),
    ("neural_network.MLPClassifier((4,), max_iter=20, random_state=0)", "y"),
    ("gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF() + 1.0)", "z"),
    ("cluster.KMeans(2, random_state=0, n_init=1)", "y"),
    ("mixture.GaussianMixture(2, random_state=0)", "y"),
    ("discriminant_analysis.LinearDiscriminantAnalysis()", "y"),
    ("isotonic.IsotonicRegression()", "z"),
    ("calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2)", "y"),
)
_TRANSFORMS = (
    "preprocessing.StandardScaler()",
    "preprocessing.OneHotEncoder(handle_unknown='ignore')",
    "preprocessing.PolynomialFeatures(2)",
    "preprocessing.KBinsDiscretizer(3, encode='ordinal', quantile_method='averaged_inverted_cdf')",
    "impute.SimpleImputer()",
    "decomposition.PCA(2)",
    "decomposition.NMF(2, random_state=0, init='random')",
    "feature_selection.VarianceThreshold()",
)


def _one_column(made: str) -> str:
    return "X[:, 0]" if made.startswith("isotonic") else "X"


def _class(made: str) -> str:
    return "sklearn." + made.partition("(")[0]


VALUES = [
    *(
        Value(
            cls=_class(made),
            make=f"{made}.fit({_one_column(made)}, {target})",
            check=f"same({made!r}, x.predict({_one_column(made)})) and repr(x) == repr({made})",
            keeps="exact",
            note="fitted",
        )
        for made, target in _PREDICTS
    ),
    *(
        Value(
            cls=_class(made),
            make=f"{made}.fit(X)",
            check=f"same({made!r}, x.transform(X[:5]).sum(axis=0)) and repr(x) == repr({made})",
            keeps="exact",
            note="fitted",
        )
        for made in _TRANSFORMS
    ),
    Value(
        cls="sklearn.pipeline.Pipeline",
        make="pipeline.Pipeline([('mine', Doubler(3)), ('scale', preprocessing.StandardScaler()),"
        " ('model', linear_model.Ridge())]).fit(X, z)",
        check="type(x['mine']) is Doubler and x['mine'].factor == 3 and same('pipeline', x.predict(X))",
        keeps="exact",
        note="with a transformer of the notebook",
    ),
    Value(
        cls="sklearn.pipeline.FeatureUnion",
        make="scale = preprocessing.StandardScaler()\npipeline.FeatureUnion([('a', scale), ('b', Doubler())]).fit(X)",
        check="x.transformer_list[0][1] is scale and x.transform(X).shape == (40, 6)",
        keeps="exact",
        note="of a step in another variable",
    ),
    Value(
        cls="sklearn.compose.ColumnTransformer",
        make="compose.ColumnTransformer([('n', preprocessing.MinMaxScaler(), [0, 1])], remainder='passthrough').fit(X)",
        check="same('columns', x.transform(X)) and x.named_transformers_['n'].data_max_.shape == (2,)",
        keeps="exact",
    ),
    Value(
        cls="sklearn.preprocessing.FunctionTransformer",
        make="offset = 1\npreprocessing.FunctionTransformer(lambda a: a + offset)",
        check="x.transform(np.zeros(2)).tolist() == [1, 1] and x.func.__globals__['offset'] is offset",
        keeps="exact",
        note="of a lambda that sees the variables of the notebook",
    ),
    Value(
        cls="sklearn.model_selection.GridSearchCV",
        make="model_selection.GridSearchCV(tree.DecisionTreeClassifier(random_state=0), {'max_depth': [1, 2]}, cv=3,"
        " scoring=lambda m, a, b: m.score(a, b)).fit(X, y)",
        check="x.best_params_['max_depth'] in (1, 2) and len(x.cv_results_['params']) == 2"
        " and same('grid', x.predict(X))",
        keeps="exact",
        note="with its results and a scorer of the notebook",
    ),
    Value(
        cls="sklearn.model_selection.StratifiedKFold",
        make="model_selection.StratifiedKFold(3, shuffle=True, random_state=1)",
        check="same('folds', next(x.split(X, y))[1])",
        keeps="exact",
    ),
    Value(
        cls="sklearn.model_selection.ShuffleSplit",
        make="model_selection.ShuffleSplit(2, random_state=rng)",
        check="x.random_state is rng and x.n_splits == 2",
        keeps="exact",
        note="draws from a stream in another variable",
    ),
    Value(
        cls="sklearn.feature_extraction.text.TfidfVectorizer",
        make="feature_extraction.text.TfidfVectorizer(tokenizer=lambda s: s.split(), token_pattern=None).fit(texts)",
        check="x.vocabulary_['cat'] == 1 and same('tfidf', x.transform(texts).toarray())",
        keeps="exact",
        note="with a tokenizer of the notebook",
    ),
    Value(
        cls="sklearn.feature_extraction.text.CountVectorizer",
        make="feature_extraction.text.CountVectorizer(ngram_range=(1, 2)).fit(texts)",
        check="'cat ran' in x.vocabulary_ and same('counts', x.transform(texts).toarray())",
        keeps="exact",
    ),
    Value(
        cls="sklearn.tree._tree.Tree",
        make="tree.DecisionTreeRegressor(max_depth=2).fit(X, z).tree_",
        check="x.node_count == 7 and same('tree', x.threshold) and x.children_left.shape == (7,)",
        keeps="exact",
    ),
    Value(
        cls="sklearn.neighbors.KDTree",
        make="neighbors.KDTree(X, leaf_size=5)",
        check="same('kdtree', x.query(X[:2], k=2)[1]) and x.data.shape == (40, 3)",
        keeps="exact",
    ),
    Value(
        cls="sklearn.neighbors.BallTree",
        make="neighbors.BallTree(X, metric='manhattan')",
        check="same('balltree', x.query(X[:2], k=2)[0])",
        keeps="exact",
    ),
    Value(
        cls="sklearn.utils.Bunch",
        make="Bunch(data=X, target=y, names=['a', 'b'])",
        check="x.data is X and x['target'] is y and x.names == ['a', 'b']",
        keeps="exact",
        note="of arrays in other variables",
    ),
    Value(
        cls="sklearn.preprocessing.LabelEncoder",
        make="preprocessing.LabelEncoder().fit(['b', 'a'])",
        check="x.classes_.tolist() == ['a', 'b'] and x.transform(['b']).tolist() == [1]",
        keeps="exact",
    ),
    Value(
        cls="sklearn.gaussian_process.kernels.Sum",
        make="gaussian_process.kernels.RBF(2.0) + gaussian_process.kernels.WhiteKernel()",
        check="x.k1.length_scale == 2.0 and x(X).shape == (40, 40)",
        keeps="exact",
    ),
    Value(
        cls="sklearn.manifold.TSNE",
        make="manifold.TSNE(2, perplexity=5, random_state=0, max_iter=250, init='random').fit(X)",
        check="same('tsne', x.embedding_) and x.n_iter_ > 0",
        keeps="exact",
    ),
    Value(
        cls="sklearn.model_selection.ParameterGrid",
        make="model_selection.ParameterGrid({'a': [1, 2], 'b': [3]})",
        check="list(x) == [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]",
        keeps="exact",
    ),
]
