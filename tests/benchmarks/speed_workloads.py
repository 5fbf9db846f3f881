"""The workloads of the speed benchmark, as data: cells as texts, what a restore has to bring back, how large it is.

Read by `speed.py`. Every workload has a `full` form, of the size that is promised for, and a `small` one that takes
seconds, for work on the code. All values are drawn from seeded streams, so that every system computes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["WORKLOADS", "Cell", "Workload", "workloads"]

MB = 1_000_000
OURS = ("plain", "durable_nb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell; figures are told for each `kind`, and those of the kind `setup` are apart from all others."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is run and asked.

    `checks` are expressions whose values must be the same after a restore; `names` the variables that must be back;
    `read` a cell that reads all large values through, once; `first` the first cell after a restore, which needs only
    something small. `yardsticks` are expressions that are timed in the plain kernel. `systems`: those that take part,
    empty for all. `cat`: compare the restore with reading the stored files, both from memory and from disk.
    """

    key: str
    title: str
    cells: Sequence[Cell]
    checks: Mapping[str, str]
    names: Sequence[str]
    first: str
    read: str = "pass"
    last: str = "the_last = 1"
    yardsticks: Mapping[str, str] = field(default_factory=dict)
    systems: Sequence[str] = ()
    cat: bool = False


def workloads(form: str) -> dict[str, Workload]:
    """Return all workloads in their `small` or `full` form by their key."""
    small = {"small": True, "full": False}[form]
    return {made.key: made for made in (make(small) for make in WORKLOADS)}


def setup(*texts: str) -> list[Cell]:
    """Return cells that prepare the others."""
    return [Cell(text=text, kind="setup") for text in texts]


def analysis(small: bool) -> Workload:
    """Return (a): one frame of 1 GB, and cells that nearly all only read it."""
    rows = 500_000 if small else 10_000_000
    make = f"""
rng = np.random.default_rng(7)
rows = {rows}
df = pd.DataFrame({{"key": rng.integers(0, 1000, rows), "shop": rng.integers(0, 50, rows),
                   **{{f"v{{i}}": rng.random(rows) for i in range(11)}}}})
"""
    reads = [
        "means_{n} = df.groupby('key')['v{c}'].mean()",
        "print(df['v{c}'].describe())",
        "top_{n} = df.nlargest(20, 'v{c}')[['key', 'shop', 'v{c}']]",
        "print(df[['v{c}', 'v{d}']].corr())",
        "print(df.query('v{c} > 0.9 and shop == 7').shape)",
        "by_{n} = df.groupby('shop').agg({{'v{c}': ['mean', 'std'], 'v{d}': 'sum'}})",
        "print(df['v{c}'].sort_values().iloc[rows // 2])",
        "print(df['v{c}'].rolling(50).mean().max())",
        "print(df.groupby(['key', 'shop'])['v{c}'].median().max())",
        "print(df['v{c}'].rank().mean())",
        "print(df['v{c}'].rolling(50).median().max())",
        "print(df['shop'].value_counts().head())",
        "df.head()",
    ]
    rounds, writes = (1, 1) if small else (8, 3)
    cells = setup("import numpy as np\nimport pandas as pd", make, "title = 'takings'")
    for at in range(rounds):
        cells += [
            Cell(text=text.format(n=at, c=(at + k) % 11, d=(at + k + 3) % 11), kind="reads the frame")
            for k, text in enumerate(reads)
        ]
        if at < writes:
            cells.append(Cell(text=f"df['w{at}'] = df['v{at}'] * 2 + 1", kind="adds a column"))
    return Workload(
        key="a",
        title=f"data analysis on a frame of {rows * 13 * 8 // MB} MB",
        cells=cells,
        checks={"frame": "df", "means": "means_0", "top": "top_0", "by": "by_0", "rng": "rng.bit_generator.state"},
        names=("df", "means_0", "top_0", "by_0", "title", "rng"),
        first="print(title)",
        read="df.sum()",
    )


def models(small: bool) -> Workload:
    """Return (b): scikit-learn pipelines, the fitted models in a dict."""
    rows, columns, count = (4_000, 15, 8) if small else (120_000, 40, 20)
    prepare = f"""
rng = np.random.default_rng(3)
X = rng.normal(size=({rows}, {columns}))
y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.5, size={rows}) > 0).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
models, scores = {{}}, {{}}
"""
    imports = """
import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
"""
    makers = [
        "make_pipeline(StandardScaler(), PCA({p}), LogisticRegression(max_iter=200))",
        "RandomForestClassifier(n_estimators={t}, max_depth=8, random_state={n})",
        "make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter={t}, random_state={n}))",
        "make_pipeline(PolynomialFeatures(2), StandardScaler(), PCA(20, random_state={n}), LogisticRegression())",
    ]
    cells = setup(imports, prepare)
    for n in range(count):
        maker = makers[n % len(makers)].format(n=n, p=5 + n % 8, t=5 if small else 25 + n)
        fit = f"models['m{n}'] = {maker}.fit(X_train, y_train)\nscores['m{n}'] = models['m{n}'].score(X_test, y_test)"
        cells.append(Cell(text=fit, kind="fits a model"))
        cells.append(Cell(text=f"print(max(scores, key=scores.get), round(scores['m{n}'], 3))", kind="looks"))
    return Workload(
        key="b",
        title=f"scikit-learn pipelines on {rows} rows, {count} models in a dict",
        cells=cells,
        checks={
            "data": "(X, y, X_test)",
            "scores": "scores",
            "predictions": "{k: m.predict_proba(X_test[:50]).round(9) for k, m in models.items()}",
        },
        names=("X", "y", "X_train", "X_test", "y_train", "y_test", "models", "scores"),
        first="print(len(scores))",
        read="(X.sum(), X_train.sum())",
    )


def objects(small: bool) -> Workload:
    """Return (c): a list of a million small dicts, beside classes and closures."""
    count = 50_000 if small else 1_000_000
    define = """
class Item:
    made = 0
    def __init__(self, name, price):
        self.name, self.price = name, price
        Item.made += 1
    def twice(self):
        return Item(self.name, self.price * factor)
def counter(start):
    count = start
    def step(by=1):
        nonlocal count
        count += by
        return count
    return step
factor = 2
"""
    make = f"records = [{{'id': i, 'name': f'name {{i}}', 'value': i * 0.5, 'ok': i % 3 == 0}} for i in range({count})]"
    more = "items = [Item(f'i{i}', i) for i in range(1000)]\ncounters = [counter(i) for i in range(100)]"
    cells = setup(define, make, more)
    for n in range(4 if small else 10):
        kinds = {
            f"x = {n}\nprint(items[{n}].twice().price)": "leaves the list alone",
            f"counters[{n}]()\ny_{n} = counters[{n}](5)": "leaves the list alone",
            f"note_{n} = [x, y_{n}]": "leaves the list alone",
            f"records.append({{'id': {count + n}, 'name': 'new', 'value': 0.0, 'ok': True}})": "appends one element",
            f"records[{n * 1000 + 77}]['value'] = -1.0": "changes one element",
            f"total_{n} = sum(r['value'] for r in records[:1000])": "reads the list",
        }
        cells += [Cell(text=text, kind=kind) for text, kind in kinds.items()]
    return Workload(
        key="c",
        title=f"a list of {count} small dicts, classes and closures",
        cells=cells,
        checks={
            "records": "records",
            "items": "[(i.name, i.price, type(i) is Item, i.twice().price) for i in items[:50]]",
            "counters": "[c(0) for c in counters]",
            "made": "Item.made > 1000",
            "globals": "Item.twice.__globals__ is globals()",
            "small": "(x, y_0, note_1, total_2)",
        },
        names=("records", "items", "counters", "Item", "counter", "x"),
        first="print(x)",
        read="len([r['value'] for r in records])",
        yardsticks={"C pickle of the list": "__import__('pickle').dumps(records, 5)"},
    )


def row_changes(small: bool) -> Workload:
    """Return (d): one row of a 1 GB array changes in every cell."""
    rows = 50_000 if small else 1_000_000
    make = f"import numpy as np\nbig = np.random.default_rng(1).random(({rows}, 125))\nstep = 0"
    return Workload(
        key="d",
        title=f"single-row changes of an array of {rows * 1000 // MB} MB",
        cells=[
            *setup(make),
            *(Cell(text=f"big[{n * rows // 20 + 11}] += {n + 1}", kind="changes a row") for n in range(20)),
        ],
        checks={"array": "big", "step": "step"},
        names=("big", "step"),
        first="print(step)",
        read="big.sum()",
    )


def tiny_cells(small: bool) -> Workload:
    """Return (e): 200 tiny cells."""
    return tiny(key="e", title="200 tiny cells", count=60 if small else 200)


def tiny_cells_with_history(small: bool) -> Workload:
    """Return (e) behind many earlier cells."""
    earlier = 500 if small else 10_000
    before = tuple(f"x = {n}" for n in range(earlier))
    title = f"tiny cells behind {earlier} earlier ones"
    return tiny(key="e-history", title=title, count=60 if small else 200, before=before, systems=OURS)


def tiny_cells_beside_variables(small: bool) -> Workload:
    """Return (e) beside many variables that no cell touches."""
    beside = 200 if small else 1000
    before = (variables(beside),)
    title = f"tiny cells beside {beside} untouched variables"
    return tiny(key="e-wide", title=title, count=60 if small else 200, before=before)


def tiny(*, key: str, title: str, count: int, before: Sequence[str] = (), systems: Sequence[str] = ()) -> Workload:
    """Return a workload of cells that do next to nothing."""
    forms = ("x = {n}", "v{n} = [x, {n}]", "x += 1\nprint(x)", "v{n} = len(str(x))")
    return Workload(
        key=key,
        title=title,
        cells=[
            *setup("x = 0", *before),
            *(Cell(text=forms[n % 4].format(n=n), kind="does next to nothing") for n in range(count)),
        ],
        checks={"x": "x", "v": "[v1, v3, v5, v7]"},
        names=("x", "v1", "v3"),
        first="print(x)",
        systems=systems,
    )


def variables(count: int) -> str:
    """Return a cell that makes many variables of the kinds that notebooks have."""
    lines = ["import numpy as np", "import pandas as pd"]
    forms = (
        "u{n} = {n}",
        "u{n} = 'text {n}'",
        "u{n} = list(range({n}, {n} + 20))",
        "u{n} = {{'a': {n}, 'b': [1, 2, {n}]}}",
        "u{n} = np.arange({n}, {n} + 100)",
        "u{n} = pd.Series(range({n}, {n} + 10))",
    )
    lines += [forms[n % len(forms)].format(n=n) for n in range(count)]
    lines[-1] += f"\nalias = u{count - 4 - (count - 4) % 6 + 2}"
    return "\n".join(lines)


def many_variables(small: bool) -> Workload:
    """Return (f): a thousand variables, of which each cell reads or changes a few."""
    count = 200 if small else 1000
    cells = setup(variables(count), "d = 0")
    for n in range(10 if small else 30):
        at = n * 6 % (count - 6)
        cells.append(Cell(text=f"d = u{at} + len(u{at + 1})", kind="reads two"))
        cells.append(Cell(text=f"u{at + 2}.append({n})", kind="changes one"))
        cells.append(Cell(text=f"u{at + 4}[3] = {n}\nw{n} = u{at + 3}['a']", kind="changes one"))
    last = count - 4 - (count - 4) % 6 + 2
    return Workload(
        key="f",
        title=f"{count} variables, of which cells touch a few",
        cells=cells,
        checks={
            "all": f"[globals()[f'u{{n}}'] for n in range({count})]",
            "alias": f"alias is u{last}",
            "new": "(d, w0, w5)",
        },
        names=tuple(f"u{n}" for n in range(count)),
        first="print(d)",
    )


def figures(small: bool) -> Workload:
    """Return (g): figures kept in variables, and cells with much output."""
    imports = "%matplotlib inline\nimport matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd"
    data = "rng = np.random.default_rng(5)\ndata = rng.normal(size=(2000, 4)).cumsum(axis=0)\ntitle = 'walks'"
    cells = setup(imports, data)
    for n in range(3 if small else 8):
        plot = f"fig_{n}, ax_{n} = plt.subplots()\nlines_{n} = ax_{n}.plot(data[:, {n % 4}])\nax_{n}.set_title(title)"
        grid = f"grid_{n}, axes_{n} = plt.subplots(2, 2)\nfor k, a in enumerate(axes_{n}.flat):\n    a.hist(data[:, k])"
        cells += [
            Cell(text=plot, kind="makes a figure"),
            Cell(text=grid, kind="makes a figure"),
            Cell(text=f"ax_{n}.set_xlabel('step {n}')\nfig_{n}", kind="changes a figure"),
            Cell(text=f"pd.DataFrame(data[{n}:{n} + 50])", kind="shows much"),
            Cell(text=f"for k in range(2000):\n    print('line', k, {n})", kind="shows much"),
            Cell(text=f"m_{n} = data[:, {n % 4}].mean()", kind="leaves figures alone"),
        ]
    return Workload(
        key="g",
        title="figures in variables, and outputs",
        cells=cells,
        checks={
            "data": "data",
            "labels": "[(fig_0.axes[0] is ax_0, ax_0.get_xlabel(), ax_0.get_title()), grid_1.axes[3] is axes_1[1, 1]]",
            "drawn": "(fig_0, grid_1)",
            "line": "lines_1[0] is ax_1.lines[0]",
        },
        names=("data", "fig_0", "ax_0", "grid_1", "axes_1"),
        first="print(title)",
    )


def large_restore(key: str, gigabytes: float, systems: Sequence[str] = ()) -> Workload:
    """Return (h): a namespace of many gigabytes, of which the first cell after the restore needs little."""
    each = int(gigabytes * 1e9 / 8 / 8)
    share = f"{gigabytes:g} GB" if gigabytes >= 1 else f"{gigabytes * 1000:g} MB"
    arrays = "\n".join(f"a{n} = rng.random({each})" for n in range(6))
    frame = f"frame = pd.DataFrame({{f'c{{n}}': rng.random({each // 8}) for n in range(16)}})"
    return Workload(
        key=key,
        title=f"a namespace of {share}, restored",
        cells=[
            *setup("import numpy as np\nimport pandas as pd\nrng = np.random.default_rng(2)", arrays, frame),
            Cell(text="note = 'done'", kind="leaves all alone"),
            Cell(text="a0[5] = 1.0", kind="changes one element"),
        ],
        checks={"arrays": "[a0, a1, a2, a3, a4, a5]", "frame": "frame", "note": "note"},
        names=("a0", "a1", "a2", "a3", "a4", "a5", "frame", "note"),
        first="print(note)",
        read="[a.sum() for a in (a0, a1, a2, a3, a4, a5)] + [frame.sum()]",
        systems=systems,
        cat=True,
    )


def restore_8(small: bool) -> Workload:
    """Return (h) at 8 GB, for durable_nb alone."""
    return large_restore("h", 0.4 if small else 8, OURS)


def restore_2(small: bool) -> Workload:
    """Return (h) at 2 GB, for everyone."""
    return large_restore("h-2", 0.1 if small else 2)


def growing(small: bool) -> Workload:
    """Return the list that grows by 1 000 items per cell beside a constant array."""
    length = 25 * MB // 8 if small else 500 * MB // 8
    make = f"import numpy as np\nconstant = np.random.default_rng(4).random({length})\ngrown = []\nn = 0"
    grow = "grown += [{{'n': n, 'at': {n}, 'text': f'item {{n}} of {n}'}} for n in range(1000)]"
    count = 10 if small else 40
    return Workload(
        key="i",
        title=f"a list growing by 1 000 items per cell beside an array of {length * 8 // MB} MB",
        cells=[*setup(make), *(Cell(text=grow.format(n=n), kind="grows the list") for n in range(count))],
        checks={"grown": "grown", "constant": "constant"},
        names=("constant", "grown", "n"),
        first="print(n)",
        read="constant.sum()",
        yardsticks={
            "C pickle of 1 000 new items": "__import__('pickle').dumps(grown[-1000:], 5)",
            "C pickle of the whole list": "__import__('pickle').dumps(grown, 5)",
        },
    )


WORKLOADS: Sequence[Callable[[bool], Workload]] = (
    analysis,
    models,
    objects,
    row_changes,
    tiny_cells,
    tiny_cells_with_history,
    tiny_cells_beside_variables,
    many_variables,
    figures,
    restore_8,
    restore_2,
    growing,
)
