"""What people keep of sympy in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "sympy"
SETUP = """\
from sympy import *
import mpmath
import sympy

x_, y_ = symbols("x y")
n_ = Symbol("n", integer=True, positive=True)
"""
VALUES = [
    Value(cls="sympy.Symbol", make="Symbol('x')", check="x is x_ and x == symbols('x')", keeps="exact"),
    Value(
        cls="sympy.Symbol",
        make="Symbol('n', integer=True, positive=True)",
        check="x is n_ and x.is_positive and x != Symbol('n')",
        keeps="exact",
        note="with assumptions",
    ),
    Value(
        cls="sympy.Dummy",
        make="dummy = Dummy('d')\n[dummy, dummy ** 2]",
        check="x[0] == dummy and x[1].base == dummy and dummy != Dummy('d')",
        keeps="exact",
    ),
    Value(cls="sympy.Wild", make="Wild('w', exclude=[x_])", check="(2 * y_).match(x * 2) == {x: y_}", keeps="exact"),
    Value(
        cls="sympy.Add",
        make="x_ ** 2 + sin(y_)",
        check="x.free_symbols == {x_, y_} and diff(x, x_) == 2 * x_",
        keeps="exact",
    ),
    Value(
        cls="sympy.Integral", make="Integral(exp(-x_ ** 2), (x_, -oo, oo))", check="x.doit() == sqrt(pi)", keeps="exact"
    ),
    Value(
        cls="sympy.Derivative",
        make="Derivative(Function('f')(x_), x_)",
        check="x.expr.func == Function('f')",
        keeps="exact",
    ),
    Value(cls="sympy.Piecewise", make="Piecewise((0, x_ < 0), (x_, True))", check="x.subs(x_, 3) == 3", keeps="exact"),
    Value(cls="sympy.Eq", make="Eq(x_ ** 2, 4)", check="solve(x, x_) == [-2, 2]", keeps="exact"),
    Value(cls="sympy.Rational", make="Rational(1, 3)", check="x + x + x == 1 and x.q == 3", keeps="exact"),
    Value(
        cls="sympy.Float", make="Float('0.1', 30)", check="x._prec > 100 and str(x).startswith('0.1000')", keeps="exact"
    ),
    Value(
        cls="sympy.core.numbers.Half",
        make="S.Half",
        check="x is S.Half",
        keeps="exact",
        note="a number there is one of",
    ),
    Value(
        cls="sympy.Matrix",
        make="Matrix([[1, x_], [y_, 2]])",
        check="x.det() == 2 - x_ * y_ and [x.__setitem__((0, 0), 3), x[0, 0]][1] == 3",
        keeps="exact",
    ),
    Value(
        cls="sympy.ImmutableMatrix",
        make="ImmutableMatrix([[1, 2]])",
        check="x.T.shape == (2, 1) and hash(x) == hash(ImmutableMatrix([[1, 2]]))",
        keeps="exact",
    ),
    Value(
        cls="sympy.SparseMatrix",
        make="SparseMatrix(3, 3, {(0, 2): x_})",
        check="x[0, 2] is x_ and x.nnz() == 1",
        keeps="exact",
    ),
    Value(cls="sympy.MatrixSymbol", make="MatrixSymbol('A', 2, 2)", check="(x * x).shape == (2, 2)", keeps="exact"),
    Value(
        cls="sympy.Poly",
        make="Poly(x_ ** 2 + 2.5 * x_ + y_, x_, y_)",
        check="x.degree() == 2 and x.gens == (x_, y_) and x.domain == RR",
        keeps="exact",
    ),
    Value(
        cls="sympy.Poly",
        make="Poly(x_ ** 2 + 1, x_, modulus=5)",
        check="x.factor_list()[1][0][0].degree() == 1",
        keeps="exact",
        note="over a finite field",
    ),
    Value(
        cls="sympy.polys.domains.domain.Domain",
        make="[QQ, ZZ, RR, CC]",
        check="x[0] is sympy.QQ and x[1] is sympy.ZZ and x[2] is sympy.RR is RR and x[3] is sympy.CC",
        keeps="exact",
        note="what `from sympy import *` brings",
    ),
    Value(
        cls="sympy.polys.domains.RealField",
        make="RealField(100)",
        check="x.precision == 100 and x(1) / 3 != RR(1) / 3",
        keeps="exact",
    ),
    Value(
        cls="sympy.polys.rings.PolyRing",
        make="from sympy.polys.rings import ring\nring('a,b', QQ)",
        check="x[1] in x[0].gens and (x[1] + x[2]) ** 2 == x[1] ** 2 + 2 * x[1] * x[2] + x[2] ** 2",
        keeps="exact",
    ),
    Value(
        cls="sympy.core.function.UndefinedFunction",
        make="Function('f')",
        check="x == Function('f') and x(x_).func == x",
        keeps="exact",
    ),
    Value(cls="sympy.Lambda", make="Lambda((x_, y_), x_ + y_)", check="x(1, 2) == 3", keeps="exact"),
    Value(cls="sympy.Interval", make="Interval(0, 1, left_open=True)", check="0 not in x and 1 in x", keeps="exact"),
    Value(cls="sympy.FiniteSet", make="solveset(x_ ** 2 - 1, x_)", check="x == FiniteSet(-1, 1)", keeps="exact"),
    Value(cls="sympy.Order", make="series(sin(x_), x_, 0, 4).getO()", check="x == O(x_ ** 4)", keeps="exact"),
    Value(cls="sympy.Indexed", make="IndexedBase('v')[n_]", check="x.indices == (n_,)", keeps="exact"),
    Value(cls="sympy.geometry.Circle", make="Circle(Point(0, 0), 2)", check="x.area == 4 * pi", keeps="exact"),
    Value(
        cls="sympy.combinatorics.Permutation",
        make="from sympy.combinatorics import Permutation\nPermutation([2, 0, 1])",
        check="x.order() == 3",
        keeps="exact",
    ),
    Value(
        cls="function",
        make="lambdify((x_, y_), x_ ** 2 + y_)",
        check="x(3, 1) == 10",
        keeps="exact",
        note="made by lambdify, for numpy",
    ),
    Value(
        cls="function",
        make="lambdify(x_, sin(x_) ** 2, 'math')",
        check="abs(x(1.0) - 0.7080734) < 1e-6 and 'sin' in x.__doc__",
        keeps="exact",
        note="made by lambdify, for math",
    ),
    Value(
        cls="sympy.core.cache.lazy_function.<locals>.LazyFunction",
        make="sympy.test",
        check="x is sympy.test",
        keeps="exact",
    ),
    Value(cls="sympy.ntheory.generate.Sieve", make="sieve", check="x is sympy.sieve and 7 in x", keeps="exact"),
    Value(
        cls="sympy.Mul",
        make="from sympy.physics.units import convert_to, kilometer, meter\n3 * kilometer",
        check="convert_to(x, meter) == 3000 * meter and x.args[1] == kilometer",
        keeps="exact",
    ),
    Value(
        cls="mpmath.mpf",
        make="mpmath.mpf('0.1') + 1",
        check="type(x) is mpmath.mpf and x == mpmath.mpf('0.1') + 1 and x.context is mpmath.mp",
        keeps="exact",
    ),
    Value(
        cls="mpmath.matrix",
        make="mpmath.matrix([[1, 2], [3, 4]])",
        check="x[1, 0] == 3 and type(x) is mpmath.matrix and x.ctx is mpmath.mp",
        keeps="exact",
    ),
    Value(
        cls="mpmath.ctx_mp.MPContext",
        make="mpmath.mp",
        check="x is mpmath.mp",
        keeps="exact",
        note="the context of the process, its precision included where it was not changed",
    ),
    Value(
        cls="mpmath.ctx_iv.ivmpf",
        make="mpmath.iv.mpf([1, 2])",
        check="x.a == 1 and x.b == 2 and type(x) is mpmath.iv.mpf",
        keeps="exact",
    ),
]
