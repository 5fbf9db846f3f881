"""Rows of the table of process state: streams, options and registrations of data and drawing libraries.

Used by `process_kinds` alone; data, nothing else.
"""

from __future__ import annotations

from durable_nb.testing.process_kinds import REPORTED, RESTORED, Kind

__all__ = ["LIBRARIES"]

_D = "Data libraries"
_M = "Drawing"
_F = "Open figures"

LIBRARIES: tuple[Kind, ...] = (
    Kind(
        group=_D,
        what="numpy's global stream, and another bit generator in its place",
        promise=RESTORED,
        makes="import numpy as np\nnp.random.set_bit_generator(np.random.PCG64(3))\nexpected = np.random.RandomState("
        "np.random.PCG64(3)).random_sample()",
        holds="type(np.random.get_bit_generator()).__name__ == 'PCG64' and (lambda state: (np.random.random_sample()"
        " == expected, np.random.set_state(state))[0])(np.random.get_state(legacy=False))",
        needs=("numpy",),
    ),
    Kind(
        group=_D,
        what="objects that hold numpy's global stream, such as scipy's distributions",
        promise=RESTORED,
        makes="import scipy.stats\nfrozen = scipy.stats.norm(0, 1)",
        holds="frozen.random_state is np.random.mtrand._rand",
        needs=("numpy", "scipy"),
    ),
    Kind(
        group=_D,
        what="numpy's print options, also with functions",
        promise=RESTORED,
        makes="import numpy as np\nnp.set_printoptions(precision=2, formatter={'float': lambda x: f'<{x:.1f}>'})",
        holds="str(np.array([1.25])) == '[<1.2>]' and np.get_printoptions()['precision'] == 2",
        needs=("numpy",),
    ),
    Kind(
        group=_D,
        what="numpy's handling of floating-point errors, also by a function",
        promise=RESTORED,
        makes="import numpy as np\ndef on_error(kind, flag):\n    pass\n_old = np.seterrcall(on_error)\n"
        "_old = np.seterr(over='call', divide='raise')",
        holds="np.geterr()['over'] == 'call' and np.geterr()['divide'] == 'raise' and np.geterrcall() is on_error",
        needs=("numpy",),
    ),
    Kind(
        group=_D,
        what="pandas options, also with functions",
        promise=RESTORED,
        makes="import pandas as pd\npd.options.display.max_rows = 7\n"
        "pd.set_option('display.float_format', lambda x: f'{x:.1f}!')",
        holds="pd.options.display.max_rows == 7 and '2.5!' in str(pd.Series([2.5]))",
        needs=("pandas",),
    ),
    Kind(
        group=_D,
        what="accessors registered with pandas",
        promise=RESTORED,
        makes="import pandas as pd\n@pd.api.extensions.register_dataframe_accessor('geo')\nclass Geo:\n"
        "    def __init__(self, frame):\n        self.n = len(frame)",
        holds="pd.DataFrame({'a': [1, 2]}).geo.n == 2 and type(pd.DataFrame().geo) is Geo",
        needs=("pandas",),
    ),
    Kind(
        group=_D,
        what="polars options",
        promise=RESTORED,
        makes="import polars as pl\n_old = pl.Config.set_tbl_rows(3)\n_old = pl.Config.set_fmt_float('full')",
        holds="pl.Config.state()['POLARS_FMT_MAX_ROWS'] == '3' and pl.Config.state()['set_fmt_float'] == 'full'",
        needs=("polars",),
    ),
    Kind(
        group=_D,
        what="namespaces registered with polars",
        promise=RESTORED,
        makes="import polars as pl\n@pl.api.register_expr_namespace('own')\nclass OwnExpr:\n"
        "    def __init__(self, e):\n        self.e = e",
        holds="type(pl.col('a').own) is OwnExpr",
        needs=("polars",),
    ),
    Kind(
        group=_D,
        what="pyarrow's threads and memory pool",
        promise=RESTORED,
        makes="import pyarrow as pa\npa.set_cpu_count(3)\npa.set_io_thread_count(5)\n"
        "pa.set_memory_pool(pa.system_memory_pool())",
        holds="(pa.cpu_count(), pa.io_thread_count(), pa.default_memory_pool().backend_name) == (3, 5, 'system')",
        needs=("pyarrow",),
    ),
    Kind(
        group=_D,
        what="scikit-learn's configuration",
        promise=RESTORED,
        makes="import sklearn\nsklearn.set_config(display='text', assume_finite=True)",
        holds="(sklearn.get_config()['display'], sklearn.get_config()['assume_finite']) == ('text', True)",
        needs=("sklearn",),
    ),
    Kind(
        group=_D,
        what="the numbers by which scikit-learn tells its HTML outputs apart",
        promise=RESTORED,
        makes="from sklearn.linear_model import LinearRegression\n"
        "from sklearn.utils import estimator_html_repr\n"
        "_shown = [estimator_html_repr(LinearRegression()) for _ in 'ab']",
        holds="['sk-' in _html and f'sk-{_n}-id-3' in _html for _html in [estimator_html_repr(LinearRegression())]"
        " for _n in ('container', 'estimator')] == [True, True]",
        needs=("sklearn",),
    ),
    Kind(
        group=_D,
        what="xarray's options",
        promise=RESTORED,
        makes="import xarray as xr\n_old = xr.set_options(display_style='text', keep_attrs=True)",
        holds="(xr.get_options()['display_style'], xr.get_options()['keep_attrs']) == ('text', True)",
        needs=("xarray",),
    ),
    Kind(
        group=_D,
        what="torch's default stream",
        promise=RESTORED,
        makes="import torch\n_old = torch.manual_seed(5)\nnext_one = torch.rand(1, dtype=torch.float32, generator=torch"
        ".Generator().manual_seed(5)).item()",
        holds="(lambda state: (torch.rand(1, dtype=torch.float32).item() == next_one, torch.set_rng_state(state))[0])"
        "(torch.get_rng_state())",
        needs=("torch",),
    ),
    Kind(
        group=_D,
        what="torch: default type and device, gradients, determinism, threads, precision, cuDNN's switches",
        promise=RESTORED,
        makes="import torch\ntorch.set_default_dtype(torch.float64)\n_old = torch.set_grad_enabled(False)\n"
        "torch.use_deterministic_algorithms(True, warn_only=True)\ntorch.set_num_threads(1)\n"
        "torch.backends.cudnn.benchmark = True\ntorch.backends.cudnn.deterministic = True\n"
        "torch.set_float32_matmul_precision('high')\ntorch.autograd.set_detect_anomaly(True)\n"
        "torch.set_default_device('cpu')",
        holds="(torch.get_default_dtype(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), "
        "torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_num_threads(), "
        "torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, "
        "torch.get_float32_matmul_precision(), torch.is_anomaly_enabled()) == "
        "(torch.float64, False, True, True, 1, True, True, 'high', True)",
        needs=("torch",),
    ),
    Kind(
        group=_D,
        what="torch's print options",
        promise=RESTORED,
        makes="import torch\ntorch.set_printoptions(precision=2, sci_mode=False)",
        holds="(torch._tensor_str.PRINT_OPTS.precision, torch._tensor_str.PRINT_OPTS.sci_mode) == (2, False)",
        needs=("torch",),
    ),
    Kind(
        group=_D,
        what="sympy's printing (`init_printing`)",
        promise=RESTORED,
        makes="import sympy\nsympy.init_printing(use_latex='mathjax', order='rev-lex')",
        holds="sympy.printing.printer.Printer._global_settings.get('order') == 'rev-lex' and 'text/latex' in "
        "get_ipython().display_formatter.format([sympy.Symbol('x')])[0] and 'image/png' not in "
        "get_ipython().display_formatter.format(sympy.Symbol('x'))[0]",
        needs=("sympy",),
    ),
    Kind(
        group=_D,
        what="the numbers by which sympy tells dummy symbols and lambdified sources apart",
        promise=RESTORED,
        makes="import sympy\nlast_dummy = [sympy.Dummy() for _ in range(99)][-1]",
        holds="sympy.Dummy._count > int(last_dummy.name.removeprefix('Dummy_')) and last_dummy.dummy_index == "
        "sympy.Dummy._base_dummy_index + int(last_dummy.name.removeprefix('Dummy_'))",
        needs=("sympy",),
        note="where the kernel has counted further, it keeps its own count",
    ),
    Kind(
        group=_D,
        what="`progress_apply` of pandas (`tqdm.pandas()`)",
        promise=RESTORED,
        makes="import pandas as pd\nfrom tqdm.auto import tqdm\ntqdm.pandas(desc='rows', disable=True)",
        holds="pd.DataFrame({'a': [1, 2]}).progress_apply(sum).tolist() == [3]",
        needs=("pandas", "tqdm"),
    ),
    Kind(
        group=_D,
        what="duckdb's default connection",
        promise=REPORTED,
        makes="import duckdb\nduckdb.sql('create table t as select 42 as a');",
        reported=("duckdb.default_connection",),
        needs=("duckdb",),
    ),
    Kind(
        group=_D,
        what="functions registered for `pyarrow.compute`",
        promise=REPORTED,
        makes="import pyarrow as pa, pyarrow.compute as pc\npc.register_scalar_function(lambda context, x: x, "
        "'same', {'summary': 's', 'description': 'd'}, {'x': pa.int64()}, pa.int64())",
        holds="pc.get_function('same').arity == 1",
        reported=("pyarrow.functions",),
        needs=("pyarrow",),
    ),
    Kind(
        group=_D,
        what="SQLAlchemy: listeners to its own classes (all sessions), and to bases for what is mapped later",
        promise=REPORTED,
        makes="import sqlalchemy as sa\nfrom sqlalchemy import orm\n"
        "@sa.event.listens_for(orm.Session, 'before_flush')\ndef on_flush(*_):\n    pass\n"
        "@sa.event.listens_for(sa.engine.Engine, 'connect')\ndef on_connect(*_):\n    pass",
        holds="sa.event.contains(orm.Session, 'before_flush', on_flush)",
        reported=("sqlalchemy.events",),
        needs=("sqlalchemy",),
        note="those to a mapped class or a table of the notebook come back with it",
    ),
    Kind(
        group=_M,
        what="`%matplotlib inline`, the formats of figures (`set_matplotlib_formats`)",
        promise=RESTORED,
        makes="%matplotlib inline\nimport matplotlib_inline.backend_inline as mi\n"
        "from matplotlib.figure import Figure\nmi.set_matplotlib_formats('svg', 'png', facecolor='red')\n"
        "%config InlineBackend.rc = {'figure.dpi': 61.0}",
        holds="__import__('matplotlib_inline.config', fromlist=['x']).InlineBackend.instance().rc == "
        "{'figure.dpi': 61.0} and [get_ipython().display_formatter.formatters[m].type_printers[Figure].keywords"
        "['facecolor'] for m in ('image/svg+xml', 'image/png')] == ['red', 'red']",
        needs=("matplotlib",),
    ),
    Kind(
        group=_M,
        what="rcParams and styles of matplotlib, themes of seaborn",
        promise=RESTORED,
        makes="import matplotlib.pyplot as plt, seaborn as sns\nplt.style.use('ggplot')\n"
        "sns.set_theme(palette='Set2', color_codes=True)\nplt.rcParams['font.size'] = 7",
        holds="plt.rcParams['font.size'] == 7 and len(plt.rcParams['axes.prop_cycle']) == 8",
        needs=("matplotlib", "seaborn"),
    ),
    Kind(
        group=_M,
        what="the letters of colors that seaborn redefines (`color_codes`)",
        promise=RESTORED,
        makes="import matplotlib.colors as mc, seaborn as sns\nsns.set_color_codes('pastel')\nblue = mc.to_rgb('b')",
        holds="mc.to_rgb('b') == blue and blue != (0.0, 0.0, 1.0)",
        needs=("matplotlib", "seaborn"),
    ),
    Kind(
        group=_M,
        what="color maps and color sequences registered with matplotlib",
        promise=RESTORED,
        makes="import matplotlib as mpl\nfrom matplotlib.colors import LinearSegmentedColormap\n"
        "mpl.colormaps.register(LinearSegmentedColormap.from_list('mine', ['red', 'blue']))\n"
        "mpl.color_sequences.register('two', ['red', 'blue'])",
        holds="mpl.colormaps['mine'](0.0) == (1.0, 0.0, 0.0, 1.0) and mpl.color_sequences['two'] == ['red', 'blue']",
        needs=("matplotlib",),
    ),
    Kind(
        group=_M,
        what="converters of units registered with matplotlib",
        promise=RESTORED,
        makes="import matplotlib.units as mu\nclass Meter:\n    pass\nclass MeterConverter(mu.ConversionInterface):\n"
        "    pass\nmu.registry[Meter] = MeterConverter()",
        holds="type(mu.registry[Meter]) is MeterConverter",
        needs=("matplotlib",),
    ),
    Kind(
        group=_M,
        what="fonts added to matplotlib (`addfont`), while their file is there",
        promise=RESTORED,
        makes="import shutil, matplotlib, matplotlib.font_manager as fm\n_ttf = matplotlib.get_data_path() + "
        "'/fonts/ttf/DejaVuSans.ttf'\n_old = shutil.copy(_ttf, 'own.ttf')\nfm.fontManager.addfont('own.ttf')",
        holds="any(str(f.fname).endswith('own.ttf') for f in fm.fontManager.ttflist)",
        needs=("matplotlib",),
    ),
    Kind(
        group=_M,
        what="plotly: default renderer and template, templates of the notebook, defaults of plotly.express",
        promise=RESTORED,
        makes="import plotly.io as pio, plotly.graph_objects as go, plotly.express as px\n"
        "pio.renderers.default = 'svg'\npio.templates['mine'] = go.layout.Template(layout={'title': {'text': 'T'}})\n"
        "pio.templates.default = 'mine'\npx.defaults.width = 321",
        holds="(pio.renderers.default, pio.templates.default, px.defaults.width, "
        "pio.templates['mine'].layout.title.text) == ('svg', 'mine', 321, 'T')",
        needs=("plotly",),
    ),
    Kind(
        group=_M,
        what="altair: renderer, data transformer, theme, with their options",
        promise=RESTORED,
        makes="import altair as alt\n_old = alt.renderers.enable('mimetype')\n_old = alt.data_transformers."
        "disable_max_rows()\n_old = alt.theme.enable('dark')",
        holds="(alt.renderers.active, alt.theme.active, alt.data_transformers.options) == "
        "('mimetype', 'dark', {'max_rows': None})",
        needs=("altair",),
    ),
    Kind(
        group=_M,
        what="bokeh: `output_notebook`, `output_file`",
        promise=RESTORED,
        makes="from bokeh.io import output_file, output_notebook\nfrom bokeh.io.state import curstate\n"
        "output_notebook(hide_banner=True)\n"
        "output_file('plot.html', title='Mine')",
        holds="(curstate().notebook, curstate().file.filename, curstate().file.title) == (True, 'plot.html', 'Mine')",
        needs=("bokeh",),
    ),
    Kind(
        group=_F,
        what="pyplot's open figures and the current one, where the backend keeps figures open between cells",
        promise=RESTORED,
        makes="import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfig, axes = plt.subplots(2)\n"
        "plt.sca(axes[0])\n_old = plt.figure('other')\n_old = plt.plot([1, 2, 3])\n_old = plt.figure(fig.number)",
        holds="plt.gcf() is fig and plt.gca() is axes[0] and plt.get_fignums() == [1, 2] and "
        "plt.get_figlabels() == ['', 'other'] and len(plt.figure('other').axes[0].lines) == 1 and "
        "plt.figure(1) is fig",
        needs=("matplotlib",),
        note="the inline backend closes all of them at the end of every cell",
    ),
)
