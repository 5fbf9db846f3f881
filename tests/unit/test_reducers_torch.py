"""What torch's own pickling loses: graphs, hooks, what a scheduler hangs on its optimizer, scripted modules."""

from __future__ import annotations

import pytest

from durable_nb.testing.notebook import Notebook

pytest.importorskip("torch")


def _restored(*cells: str) -> Notebook:
    notebook = Notebook()
    for cell in ("import torch\nfrom torch import nn", *cells):
        notebook.run(cell)
    assert {} == notebook.unsaved
    return notebook.restored()


def test_computed_tensor_in_a_container_fails_aloud_when_a_gradient_reaches_it() -> None:
    """Without its graph the gradient would stop there, and training would go on wrong without a word."""
    found = _restored("w = torch.ones(2, requires_grad=True)\nkept = {'features': w * 2}")
    found.check(
        "x = kept['features']\nassert x.requires_grad and not x.is_leaf and x.tolist() == [2, 2]\n"
        "v = torch.ones(2, requires_grad=True)\n"
        "try:\n    (x * v).sum().backward()\nexcept RuntimeError as error:\n    assert 'restore' in str(error)\n"
        "else:\n    raise AssertionError('the gradient went nowhere')\nassert (x.detach() * v).sum().backward() is None"
    )


def test_retained_gradient_of_a_computed_tensor_is_kept() -> None:
    """A person asked for it and looks at it later."""
    found = _restored("w = torch.ones(2, requires_grad=True)\ny = w * 2\ny.retain_grad()\ny.sum().backward()")
    found.check("assert y.retains_grad and y.grad.tolist() == [1, 1]")


def test_new_hooks_do_not_replace_old_ones() -> None:
    """Hooks are numbered by a counter of the process, which starts again in a new one."""
    found = _restored(
        "calls = []\nnet = nn.Linear(2, 1)\nfor i in range(3):\n"
        "    net.register_forward_hook(lambda *a, i=i: calls.append(i))"
    )
    found.check(
        "import torch\ntorch.utils.hooks.RemovableHandle.next_id = min(net._forward_hooks)\n"  # as in a new process
    )
    again = Notebook()
    again.head, again.stored, again.cells = found.head, found.stored, 5000
    again.restore()
    again.check(
        "net.register_forward_hook(lambda *a: None)\nnet(torch.ones(2))\n"
        "assert len(net._forward_hooks) == 4 and calls == [0, 1, 2]"
    )


def test_scheduler_goes_on_without_a_warning_of_torch(recwarn: pytest.WarningsRecorder) -> None:
    """It wants to know whether its optimizer made a step."""
    found = _restored(
        "net = nn.Linear(2, 1)\nsgd = torch.optim.SGD(net.parameters(), lr=1.0)\n"
        "slow = torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5)"
    )
    found.check(
        "assert slow.optimizer is sgd\nnet(torch.ones(2)).backward()\nsgd.step()\nslow.step()\n"
        "assert sgd.param_groups[0]['lr'] == 0.5"
    )
    assert [] == [str(w.message) for w in recwarn if "lr_scheduler" in str(w.message)]


def test_optimizer_keeps_its_hooks_and_the_parameters_of_a_model_stored_earlier() -> None:
    """Also when only the optimizer changed since."""
    found = _restored(
        "net = nn.Linear(2, 1)",
        "steps = []\nadam = torch.optim.Adam(net.parameters())\n"
        "adam.register_step_post_hook(lambda *a: steps.append(1))",
        "net(torch.ones(2)).backward()\nadam.step()",
    )
    found.check(
        "assert adam.param_groups[0]['params'][0] is net.weight and adam.state[net.weight]['step'] == 1\n"
        "adam.step()\nassert steps == [1, 1]"
    )


def test_scripted_module_keeps_its_parameters_with_an_optimizer() -> None:
    """torch refuses to pickle it."""
    found = _restored(
        "class Twice(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear(2, 1)\n"
        "    def forward(self, x):\n        return self.inner(x) * 2\n"
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')  # torch deprecates it\n"
        "    traced = torch.jit.trace(Twice(), torch.ones(1, 2))\nsgd = torch.optim.SGD(traced.parameters(), lr=0.5)"
    )
    found.check(
        "before = traced(torch.ones(1, 2)).item()\ntraced(torch.ones(1, 2)).sum().backward()\nsgd.step()\n"
        "assert traced(torch.ones(1, 2)).item() != before"
    )


def test_tensor_of_a_class_of_the_notebook_shares_its_storage_and_keeps_its_attributes() -> None:
    """torch's own way stores its numbers apart from those of other tensors."""
    found = _restored(
        "class Tagged(torch.Tensor):\n    pass\nbase = torch.ones(4)\nt = base[1:].as_subclass(Tagged)\nt.tag = ['m']\n"
        "leaf = torch.ones(2).as_subclass(Tagged).requires_grad_()\nleaf.sum().backward()"
    )
    found.check("base[1] = 5\nassert type(t) is Tagged and t.tag == ['m'] and t[0].item() == 5 and t.shape == (3,)")
    found.check("assert type(leaf) is Tagged and leaf.requires_grad\nassert leaf.grad.tolist() == [1, 1]")


def test_lazy_modules_and_tensors_without_memory_cost_no_checkpoint() -> None:
    """A parameter that waits for its shape refuses every question about its memory."""
    found = _restored("lazy = nn.LazyLinear(3)\nmeta = torch.empty(3, device='meta')\nbeside = torch.ones(1)")
    found.check("assert lazy(torch.ones(2, 5)).shape == (2, 3) and meta.device.type == 'meta' and beside.item() == 1")
