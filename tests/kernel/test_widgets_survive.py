"""Widgets come back with values, callbacks and model ids, and the front end hears of each exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives

pytest.importorskip("ipywidgets")

MAKE = """
import ipywidgets as W
seen = []
slider = W.IntSlider(value=4, max=10, description="n")
slider.observe(lambda change: seen.append(change["new"]), names="value")
button = W.Button(description="go")
button.on_click(lambda b: seen.append("click"))
label = W.Label()
box = W.VBox([slider, button, label])
W.dlink((slider, "value"), (label, "value"), transform=str)
ids = [w.model_id for w in (slider, button, label, box, slider.layout)]
"""


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook in a folder of its own."""
    with Lives(tmp_path) as made:
        yield made


def test_values_children_and_callbacks_come_back(lives: Lives) -> None:
    """After a kill a slider has its value, its box holds it, and observers, clicks and links act on the live names."""
    lives.run(MAKE, "slider.value = 7")
    lives.kill()
    assert [] == lives.value("[u.name for u in __import__('durable_nb').unsaved()]")
    assert [7, True, "7", 10] == lives.value("[slider.value, box.children[0] is slider, label.value, slider.max]")
    lives.run("slider.value = 9\nbutton.click()")
    assert [[7, 9, "click"], "9"] == lives.value("[seen, label.value]")


def test_model_ids_are_kept(lives: Lives) -> None:
    """Views in outputs that are shown again name the models they had, and those are open in the new kernel."""
    lives.run(MAKE)
    lives.kill()
    same = "ids == [w.model_id for w in (slider, button, label, box, slider.layout)]"
    opened = "all(i in get_ipython().kernel.comm_manager.comms for i in ids)"
    assert [True, True] == lives.value(f"[{same}, {opened}]")


def test_the_front_end_hears_of_a_widget_once(lives: Lives) -> None:
    """Saving, proving and comparing widgets sends nothing; a restore opens every model once."""
    reply = lives.run(MAKE)
    opened = [o["comm_id"] for o in reply.of("comm_open")]
    assert len(opened) == len(set(opened))
    reply = lives.run("other = 1")
    assert [] == reply.of("comm_open") + reply.of("comm_close") + reply.of("comm_msg")


def test_interact_goes_on(lives: Lives) -> None:
    """A function under `interact` is called again when its slider moves in the new kernel."""
    lives.run(
        "from ipywidgets import interact\ncalls = []",
        "def f(x=3):\n    calls.append(x)\n    return x\nshown = interact(f, x=(0, 10))",
        "w = shown.widget",
    )
    lives.kill()
    assert [] == lives.value("[u.name for u in __import__('durable_nb').unsaved()]")
    lives.run("w.children[0].value = 8")
    assert [[3, 8], True, 8] == lives.value("[calls, shown is f, w.result]")


def test_a_restored_widget_takes_the_place_of_the_live_one(lives: Lives) -> None:
    """Bringing one name back takes over the model of the widget that lives, which can no longer close it."""
    lives.run(MAKE, "slider.value = 7", "old = None")
    first = lives.verb("status")["head"]
    lives.run("slider.value = 2")
    lives.run(f"%durable restore {first} slider")
    lives.run("import gc; gc.collect()")
    assert [7, True, True] == lives.value(
        "[slider.value, slider.model_id == ids[0], ids[0] in get_ipython().kernel.comm_manager.comms]"
    )


def test_traits_of_other_objects_keep_their_observers(lives: Lives) -> None:
    """An object with traits of a class of the notebook keeps values, validators and observers."""
    lives.run(
        "import traitlets",
        "class T(traitlets.HasTraits):\n"
        "    n = traitlets.Int(1)\n"
        "    log = traitlets.List()\n"
        "    @traitlets.observe('n')\n"
        "    def _n(self, change):\n        self.log = self.log + [change['new']]\n"
        "    @traitlets.validate('n')\n"
        "    def _v(self, proposal):\n        return min(proposal['value'], 5)\n",
        "t = T(n=2)\nheard = []\nt.observe(lambda c: heard.append(c['new']), 'n')",
    )
    lives.kill()
    lives.run("t.n = 99")
    assert [5, [2, 5], [5], True] == lives.value("[t.n, t.log, heard, type(t) is T]")


def test_a_skipped_cell_shows_the_view_of_a_widget_that_is_back(lives: Lives) -> None:
    """Run All shows the slider that came back, and of one that no variable held the text."""
    cells = ["import ipywidgets as W\nslider = W.IntSlider(value=4)", "slider", "display(W.IntSlider(value=5))"]
    lives.run(*cells)
    lives.kill()
    shown = [lives.run(cell).outputs[-1]["data"] for cell in cells][1:]
    view = "application/vnd.jupyter.widget-view+json"
    assert [True, False] == [view in data for data in shown]
    assert shown[0][view]["model_id"] == lives.value("slider.model_id")
    assert shown[1]["text/plain"].startswith("IntSlider(value=5")
