"""What people keep of pint in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "pint"
SETUP = """\
import numpy as np
import pint

units = pint.UnitRegistry()
units.define("smoot = 1.7 * meter")
"""
VALUES = [
    Value(
        cls="pint.UnitRegistry",
        make="units",
        check="x('1 smoot').to('m').magnitude == 1.7 and x.Quantity(3, 'km').to('m').magnitude == 3000",
        keeps="exact",
        note="with units of the notebook",
    ),
    Value(
        cls="pint.Quantity",
        make="3 * units.smoot",
        check="x._REGISTRY is units and isinstance(x, units.Quantity) and (x + 1 * units.meter).check('[length]')",
        keeps="exact",
        note="of a registry in another variable; pint's own pickling moves it to the application's",
    ),
    Value(
        cls="pint.Quantity",
        make="np.arange(3.0) * units.second",
        check="(x * units.meter).magnitude.tolist() == [0, 1, 2] and str(x.units) == 'second'",
        keeps="exact",
        note="an array",
    ),
    Value(
        cls="pint.Unit",
        make="units.meter / units.second",
        check="x == units.Unit('m/s') and (2 * x)._REGISTRY is units",
        keeps="exact",
    ),
    Value(
        cls="pint.Quantity",
        make="pint.Quantity(2, 'km')",
        check="(x + pint.Quantity(1, 'm')).to('m').magnitude == 2001",
        keeps="exact",
        note="of the application's registry",
    ),
    Value(
        cls="pint.registry.ApplicationRegistry",
        make="pint.get_application_registry()",
        check="x is pint.application_registry",
        keeps="exact",
    ),
]
