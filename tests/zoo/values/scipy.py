"""What people keep of scipy in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "scipy"
SETUP = """\
import numpy as np
from scipy import cluster, integrate, interpolate, optimize, signal, sparse, spatial, special, stats
from scipy.cluster.hierarchy import DisjointSet, linkage, to_tree
from scipy.sparse.linalg import LinearOperator, aslinearoperator, splu
from scipy.spatial.transform import Rotation, Slerp

grid = np.arange(5.0)
squares = grid ** 2
points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.4, 0.6]])
dense = np.array([[1, 0, 2], [0, 0, 3], [4, 0, 0]])

def bowl(v):
    return ((v - 1) ** 2).sum()
"""
_DENSE = "x.toarray().tolist() == [[1, 0, 2], [0, 0, 3], [4, 0, 0]] and x.dtype == dense.dtype and x.format"
VALUES = [
    *(
        Value(
            cls=f"scipy.sparse.{kind}_{name}",
            make=f"sparse.{kind}_{name}(dense)",
            check=f"{_DENSE} == '{kind}' and isinstance(x @ x, sparse.spmatrix) is {name == 'matrix'}",
            keeps="exact",
        )
        for name in ("matrix", "array")
        for kind in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    ),
    Value(
        cls="scipy.sparse.csr_array",
        make="owner = np.array([1.0, 2.0])\nsparse.csr_array((owner, [0, 1], [0, 1, 2]), shape=(2, 2), copy=False)",
        check="np.shares_memory(x.data, owner) and [x.data.__setitem__(0, 5), owner[0], x[0, 0]][1:] == [5, 5]",
        keeps="exact",
        note="its data are an array in another variable",
    ),
    Value(
        cls="scipy.stats._distn_infrastructure.rv_continuous_frozen",
        make="stats.norm(1, 2)",
        check="x.mean() == 1 and x.std() == 2 and x.dist._random_state is np.random.mtrand._rand",
        keeps="exact",
        note="draws from the global stream of numpy, as before",
    ),
    Value(
        cls="scipy.stats._distn_infrastructure.rv_discrete_frozen",
        make="stream = np.random.default_rng(2)\nfrozen = stats.poisson(3)\nfrozen.random_state = stream\nfrozen",
        check="x.random_state is stream and x.pmf(0) == stats.poisson(3).pmf(0) and 0 <= x.rvs()",
        keeps="exact",
        note="draws from a generator in another variable",
    ),
    Value(
        cls="scipy.stats.rv_continuous",
        make="stats.gamma",
        check="x is stats.gamma",
        keeps="exact",
        note="scipy's own",
    ),
    Value(
        cls="scipy.stats.rv_continuous",
        make="class Ramp(stats.rv_continuous):\n    def _pdf(self, x):\n        return 2 * x\n\n"
        "Ramp(a=0, b=1, name='ramp')",
        check="type(x) is Ramp and abs(x.cdf(0.5) - 0.25) < 1e-9 and x.name == 'ramp'",
        keeps="exact",
        note="of a class of the notebook",
    ),
    Value(
        cls="scipy.stats.rv_discrete",
        make="stats.rv_discrete(name='coin', values=([0, 1], [0.25, 0.75]))",
        check="x.mean() == 0.75 and x.pmf(1) == 0.75",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats.rv_histogram",
        make="stats.rv_histogram(np.histogram(grid, bins=4))",
        check="abs(x.cdf(2.0) - 0.4) < 1e-12",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats.Normal",
        make="stats.Normal(mu=1.0, sigma=2.0)",
        check="type(x) is stats.Normal and x.mean() == 1 and abs(x.cdf(1.0) - 0.5) < 1e-12",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats.gaussian_kde",
        make="stats.gaussian_kde(grid, bw_method=0.5)",
        check="x.factor == 0.5 and x(2.0).shape == (1,) and x.n == 5",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats._multivariate.multivariate_normal_frozen",
        make="stats.multivariate_normal([0, 1], [[2, 0], [0, 1]])",
        check="x.mean.tolist() == [0, 1] and x.pdf([0, 1]) > 0",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats.qmc.Sobol",
        make="sobol = stats.qmc.Sobol(2, scramble=False)\nsobol.random(2) is None\nsobol",
        check="x.num_generated >= 2 and x.random(2).shape == (2, 2)",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats._stats_py.TtestResult",
        make="stats.ttest_ind(grid, squares)",
        check="x.df == 8 and 0 < x.pvalue < 1 and len(x) == 2 and x.confidence_interval(0.9).low < 0",
        keeps="exact",
    ),
    Value(
        cls="scipy.stats._stats_py.LinregressResult",
        make="stats.linregress(grid, squares)",
        check="abs(x.slope - 4) < 1e-9 and x.intercept_stderr > 0 and len(x) == 5",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.interp1d",
        make="interpolate.interp1d(grid, squares, kind='quadratic')",
        check="abs(x(1.5) - 2.25) < 1e-9 and x.x.tolist() == grid.tolist()",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.CubicSpline",
        make="interpolate.CubicSpline(grid, squares)",
        check="abs(x(1.5) - 2.25) < 1e-9 and x.derivative()(2.0).round(9) == 4 and x.c.shape == (4, 4)",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.UnivariateSpline",
        make="interpolate.UnivariateSpline(grid, squares, s=0)",
        check="abs(x(1.5) - 2.25) < 1e-9 and x.get_residual() < 1e-9",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.BSpline",
        make="interpolate.make_interp_spline(grid, squares, k=3)",
        check="x.k == 3 and abs(x(1.5) - 2.25) < 1e-9",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.RegularGridInterpolator",
        make="interpolate.RegularGridInterpolator((grid, grid), np.outer(grid, grid))",
        check="abs(x([1.5, 2.0])[0] - 3) < 1e-12",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.LinearNDInterpolator",
        make="interpolate.LinearNDInterpolator(points, points.sum(axis=1))",
        check="abs(x(0.2, 0.2) - 0.4) < 1e-12",
        keeps="exact",
    ),
    Value(
        cls="scipy.interpolate.RBFInterpolator",
        make="interpolate.RBFInterpolator(points, points.sum(axis=1))",
        check="abs(x([[0.2, 0.2]])[0] - 0.4) < 1e-3",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.KDTree",
        make="spatial.KDTree(points, leafsize=2)",
        check="x.query([0.5, 0.6])[1] == 4 and x.n == 5 and x.leafsize == 2",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.cKDTree",
        make="spatial.cKDTree(points)",
        check="x.query([0.9, 0.9])[1] == 3 and sorted(x.query_ball_point([0, 0], 0.5)) == [0]",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.Delaunay",
        make="spatial.Delaunay(points)",
        check="x.find_simplex([0.1, 0.2]) >= 0 and x.nsimplex == len(x.simplices)",
        keeps="exact",
        note="made by spatial.Delaunay(..., incremental=False)",
    ),
    Value(
        cls="scipy.spatial.ConvexHull",
        make="spatial.ConvexHull(points)",
        check="x.volume == 1 and sorted(x.vertices) == [0, 1, 2, 3]",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.Voronoi",
        make="spatial.Voronoi(points)",
        check="x.npoints == 5 and len(x.regions) > 4",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.transform.Rotation",
        make="Rotation.from_rotvec([[0, 0, 0], [0, 0, 90]], degrees=True)",
        check="len(x) == 2 and np.allclose(x[1].apply([1, 0, 0]), [0, 1, 0])",
        keeps="exact",
    ),
    Value(
        cls="scipy.spatial.transform.Slerp",
        make="Slerp([0, 1], Rotation.from_rotvec([[0, 0, 0], [0, 0, 90]], degrees=True))",
        check="np.allclose(x(0.5).as_euler('xyz', degrees=True), [0, 0, 45])",
        keeps="exact",
    ),
    Value(
        cls="scipy.optimize.OptimizeResult",
        make="optimize.minimize(bowl, [5.0, 5.0])",
        check="x.success and np.allclose(x.x, [1, 1], atol=1e-4) and x.hess_inv.shape == (2, 2) and 'fun' in x",
        keeps="exact",
    ),
    Value(
        cls="scipy.optimize.OptimizeResult",
        make="optimize.minimize(bowl, [5.0, 5.0], method='L-BFGS-B')",
        check="x.success and x.hess_inv.todense().shape == (2, 2)",
        keeps="exact",
        note="with a linear operator inside",
    ),
    Value(
        cls="scipy.optimize.NonlinearConstraint",
        make="optimize.NonlinearConstraint(lambda v: v[0], 0, 1)",
        check="x.fun([3]) == 3 and x.ub == 1",
        keeps="exact",
    ),
    Value(
        cls="scipy.optimize.Bounds",
        make="optimize.Bounds([0, 0], [1, 2])",
        check="x.ub.tolist() == [1, 2]",
        keeps="exact",
    ),
    Value(
        cls="scipy.integrate._ivp.ivp.OdeResult",
        make="integrate.solve_ivp(lambda t, y: -y, [0, 1], [1.0], dense_output=True)",
        check="x.success and abs(x.sol(1.0)[0] - np.exp(-1)) < 1e-3",
        keeps="exact",
        note="with a dense solution",
    ),
    Value(
        cls="scipy.integrate.RK45",
        make="solver = integrate.RK45(lambda t, y: -y, 0, [1.0], 1.0)\nsolver.step() is None\nsolver",
        check="x.t > 0 and x.status == 'running' and x.step() is None",
        keeps="exact",
        note="in the middle of its way",
    ),
    Value(
        cls="scipy.signal.lti",
        make="signal.lti([1], [1, 1])",
        check="np.allclose(x.poles, [-1]) and x.dt is None and np.allclose(x.num, [1])",
        keeps="exact",
    ),
    Value(
        cls="scipy.signal.ShortTimeFFT",
        make="signal.ShortTimeFFT(np.hanning(8), 4, 1.0)",
        check="x.hop == 4 and x.stft(np.ones(16)).shape[0] == 5",
        keeps="exact",
    ),
    Value(
        cls="scipy.sparse.linalg.LinearOperator",
        make="LinearOperator((2, 2), matvec=lambda v: 2 * v)",
        check="x.matvec([1, 2]).tolist() == [2, 4] and (x @ x).shape == (2, 2)",
        keeps="exact",
    ),
    Value(
        cls="scipy.sparse.linalg.LinearOperator",
        make="aslinearoperator(sparse.csr_array(dense))",
        check="x.matvec([1, 1, 1]).tolist() == [3, 3, 4]",
        keeps="exact",
        note="over a sparse array",
    ),
    Value(
        cls="scipy.sparse.linalg.SuperLU",
        make="splu(sparse.csc_array(np.eye(2)))",
        check="x.shape == (2, 2)",
        keeps="reported",
        note="a factorization in memory of the library; factorize again in a cell",
    ),
    Value(cls="numpy.ufunc", make="special.expit", check="x is special.expit and x(0) == 0.5", keeps="exact"),
    Value(
        cls="scipy.special._multiufuncs.MultiUFunc",
        make="special.assoc_legendre_p",
        check="x is special.assoc_legendre_p",
        keeps="exact",
    ),
    Value(
        cls="numpy.poly1d",
        make="special.legendre(2)",
        check="abs(x(0.5) + 0.125) < 1e-12 and x.weights.shape == (2, 3)",
        keeps="exact",
        note="an orthogonal polynomial",
    ),
    Value(
        cls="scipy.cluster.hierarchy.ClusterNode",
        make="to_tree(linkage(points))",
        check="x.get_count() == 5 and sorted(x.pre_order()) == [0, 1, 2, 3, 4]",
        keeps="exact",
    ),
    Value(
        cls="scipy.cluster.hierarchy.DisjointSet",
        make="parts = DisjointSet('abc')\nparts.merge('a', 'b') is None\nparts",
        check="x.n_subsets == 2 and x.connected('a', 'b')",
        keeps="exact",
    ),
]
