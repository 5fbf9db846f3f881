"""sympy, mpmath and pint: what their own pickling moves to another domain, context or registry stays where it was."""

from __future__ import annotations

from typing import Any

import pytest

from durable_nb.testing.notebook import Notebook


def _restored(*cells: str) -> Notebook:
    notebook = Notebook()
    for cell in cells:
        notebook.run(cell)
    assert {} == notebook.unsaved
    return notebook.restored()


@pytest.fixture
def sympy() -> Any:
    """The library, where it is installed."""
    return pytest.importorskip("sympy")


def test_polynomial_keeps_its_domain(sympy: Any) -> None:
    """sympy makes it again from the expression: over a finite field it would become one over the integers."""
    found = _restored(
        "import sympy as sp\nx = sp.Symbol('x')\np = sp.Poly(x**2 + 1, x, modulus=5)\nq = p.factor_list()"
    )
    found.check("assert p.domain == sp.GF(5) and p.factor_list() == q and len(q[1]) == 2")


def test_rings_fields_and_their_elements_come_back(sympy: Any) -> None:
    """Finite fields and rings of polynomials have classes and caches of their own."""
    found = _restored(
        "import sympy as sp\nfrom sympy.polys.rings import ring\nfrom sympy.polys.fields import field\n"
        "F = sp.GF(7)\ne = F(3)\nR, a, b = ring('a,b', sp.QQ)\npoly = a + b\nK, u = field('u', sp.ZZ)\nr = 1 / u"
    )
    found.check("assert e * F(5) == F(1) and poly ** 2 == a**2 + 2*a*b + b**2 and r * u == K.one")


def test_star_import_of_sympy_reports_nothing_and_stays_sympys(sympy: Any) -> None:
    """Domains, lazy functions and the sieve are there once per process."""
    found = _restored("from sympy import *\nimport sympy", "fine = RealField(100)(1) / 3")
    found.check(
        "for n in ('RR', 'CC', 'QQ', 'ZZ', 'test', 'doctest', 'sieve', 'S', 'Q'):\n"
        "    assert globals()[n] is getattr(sympy, n), n"
    )
    found.check("assert fine.context.prec == 100 and abs(fine * 3 - 1) < 1e-25")


@pytest.mark.parametrize("modules", ["numpy", "math", "mpmath", "sympy", "scipy"])
def test_lambdified_functions_come_back(sympy: Any, modules: str) -> None:
    """They carry the names of a whole library in a namespace of their own."""
    if modules in ("numpy", "scipy"):
        pytest.importorskip(modules)
    found = _restored(f"import sympy as sp\nx = sp.Symbol('x')\nf = sp.lambdify(x, sp.sin(x) ** 2 + 1, {modules!r})")
    found.check("assert abs(float(f(1.0)) - 1.7080734) < 1e-6 and 'sin(x)' in f.__doc__")


def test_lambdified_function_keeps_only_the_names_that_it_uses(sympy: Any) -> None:
    """The rest of numpy's namespace is no part of it, and some of that (a capsule of C) nothing can store."""
    pytest.importorskip("numpy")
    found = _restored(
        "import ctypes, sympy as sp\nx, i = sp.symbols('x i')\nf = sp.lambdify(x, sp.Sum(x**i, (i, 0, 2)))\n"
        "new = ctypes.pythonapi.PyCapsule_New\nnew.restype = ctypes.py_object\n"
        "f.__globals__['_UFUNC_API'] = new(ctypes.c_void_p(1), None, None)\ndel new, ctypes",
        "g = sp.lambdify(x, sp.Lambda(x, sp.exp(x))(x) + sp.Max(x, 1))",
    )
    found.check("assert f(2) == 7 and abs(g(0.0) - 2) < 1e-12 and '_UFUNC_API' not in f.__globals__")
    found.check("import inspect\nassert 'def _lambdifygenerated' in inspect.getsource(f)")


def test_numbers_of_mpmath_stay_in_their_context(sympy: Any) -> None:
    """The one of the process stays it; another one keeps its precision and its numbers."""
    found = _restored(
        "import mpmath\nmp = mpmath.mp\nown = mp.clone()\nown.dps = 40\nn = own.mpf(1) / 3\n"
        "m = mpmath.matrix([[1, 2]])\n"
        "i = mpmath.iv.mpf([1, 2])\nc = mpmath.pi"
    )
    found.check("assert mp is mpmath.mp and n.context is own and own.dps == 40 and own.almosteq(n * 3, 1)")
    found.check("assert type(m) is mpmath.matrix and type(i) is mpmath.iv.mpf and c is mpmath.pi and i.b == 2")


def test_quantities_of_pint_stay_with_their_registry() -> None:
    """pint's own way moves them to the registry of the application, which refuses to add them to their siblings."""
    pytest.importorskip("pint")
    found = _restored(
        "import pint\nunits = pint.UnitRegistry()\nunits.define('smoot = 1.7 * meter')\nq = 3 * units.smoot\n"
        "u = units.meter",
        "default = pint.Quantity(2, 'km')\napplication = pint.get_application_registry()",
    )
    found.check(
        "assert (q + 1 * u).to('m').magnitude == 6.1 and q._REGISTRY is units and isinstance(q, units.Quantity)"
    )
    found.check(
        "assert (default + pint.Quantity(1, 'm')).to('m').magnitude == 2001"
        " and application is pint.application_registry"
    )
