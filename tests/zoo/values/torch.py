"""What people keep of torch in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "torch"
SETUP = """\
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

torch.manual_seed(7)

def trained(model, make, **options):
    optimizer = make(model.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    return optimizer

def points_at(optimizer, model):
    return all(a is b for a, b in zip(optimizer.param_groups[0]["params"], model.parameters(), strict=True))

def moves(optimizer, model):
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return all(not torch.equal(p, q) for p, q in zip(model.parameters(), before))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(4, 2, bias=False)
        self.register_buffer("seen", torch.arange(3))

    def forward(self, x):
        return self.head(self.body(x))

class Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor(index ** 2)

def fails_aloud(tensor):
    try:
        (tensor * torch.ones(1, requires_grad=True)).sum().backward()
    except RuntimeError as error:
        return "graph" in str(error)
    return tensor.grad_fn.name().startswith("Mul")
"""
VALUES = [
    Value(
        cls="torch.Tensor",
        make="torch.arange(6.0).reshape(2, 3)",
        check="x.tolist() == [[0, 1, 2], [3, 4, 5]] and x.dtype is torch.float32 and x.stride() == (3, 1)",
        keeps="exact",
    ),
    Value(
        cls="torch.Tensor",
        make="base = torch.arange(12.0)\n{'base': base, 'view': base[2:8:2], 'turned': base.view(3, 4).T}",
        check="x['base'] is base and x['view'].data_ptr() == x['base'].data_ptr() + 8"
        " and x['turned'].stride() == (1, 4) and x['turned'].data_ptr() == x['base'].data_ptr()"
        " and x['base'].sum().item() == 66",
        keeps="exact",
        note="views share their storage",
    ),
    Value(
        cls="torch.Tensor",
        make="array = np.arange(4.0)\n{'tensor': torch.from_numpy(array), "
        "'part': torch.from_numpy(array[1:]).view(3, 1)}",
        check="array.__setitem__(slice(1, 2), 9) is None and x['tensor'].tolist() == [0, 9, 2, 3]"
        " and x['part'][0, 0].item() == 9",
        keeps="exact",
        note="shares the memory of a numpy array",
    ),
    Value(
        cls="torch.Tensor",
        make="owner = torch.zeros(4)\n{'array': owner.numpy(), 'half': owner[2:].numpy(), 'owner': owner}",
        check="x['owner'] is owner and owner.fill_(3) is owner and x['array'].tolist() == [3.0] * 4"
        " and x['half'].tolist() == [3.0, 3.0]",
        keeps="exact",
        note="numpy arrays share its memory",
    ),
    Value(
        cls="torch.Tensor",
        make="leaf = torch.ones(2, requires_grad=True)\n(leaf * leaf).sum().backward()\nleaf",
        check="x.is_leaf and x.requires_grad and x.grad.tolist() == [2, 2]",
        keeps="exact",
        note="with its gradient",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.ones(2, requires_grad=True) * 3",
        check="x.tolist() == [3, 3] and x.requires_grad and not x.is_leaf and fails_aloud(x)",
        keeps="equal",
        note="a computed tensor comes back without its graph: backward() through it raises an error that says so",
    ),
    Value(
        cls="torch.Tensor",
        make="hooked = torch.ones(2, requires_grad=True)\nhandle = hooked.register_hook(lambda g: g * 2)\n"
        "[hooked, handle]",
        check="[(x[0] * 1).sum().backward(), x[0].grad.tolist()][1] == [2, 2]"
        " and [x[1].remove(), len(x[0]._backward_hooks)][1] == 0",
        keeps="exact",
        note="with its hooks and their handles",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.tensor([1 + 2j, 3 - 1j]).conj()",
        check="x.is_conj() and x.dtype is torch.complex64 and x.tolist() == [1 - 2j, 3 + 1j]",
        keeps="exact",
        note="complex",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)).coalesce()",
        check="x.is_sparse and x.is_coalesced() and x.to_dense().tolist() == [[0, 3], [4, 0]]",
        keeps="exact",
        note="sparse",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.eye(3).to_sparse_csr()",
        check="x.layout is torch.sparse_csr and x.crow_indices().tolist() == [0, 1, 2, 3]",
        keeps="exact",
        note="sparse by rows",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.quantize_per_tensor(torch.tensor([0.0, 0.5, 1.0]), 0.1, 5, torch.quint8)",
        check="x.is_quantized and x.q_scale() == 0.1 and x.int_repr().tolist() == [5, 10, 15]",
        keeps="exact",
        note="quantized",
    ),
    Value(
        cls="torch.Tensor",
        make="torch.tensor([1.5, -2.0], dtype=torch.bfloat16)",
        check="x.dtype is torch.bfloat16 and x.tolist() == [1.5, -2.0]",
        keeps="exact",
        note="bfloat16",
    ),
    Value(
        cls="torch.nn.Parameter",
        make="nn.Parameter(torch.ones(2, 2))",
        check="type(x) is nn.Parameter and x.requires_grad and x.is_leaf and x.sum().item() == 4",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.Module",
        make="Net().eval()",
        check="isinstance(x, Net) and not x.training and x.seen.tolist() == [0, 1, 2]"
        " and x(torch.ones(1, 3)).shape == (1, 2) and list(x.state_dict()) =="
        " ['seen', 'body.0.weight', 'body.0.bias', 'head.weight']",
        keeps="exact",
        note="of the notebook's own class",
    ),
    Value(
        cls="torch.nn.Module",
        make="tied = Net()\ntied.again = tied.head\n[tied, tied.head, tied.body[0].weight]",
        check="x[0].again is x[0].head and x[1] is x[0].head and x[2] is x[0].body[0].weight",
        keeps="exact",
        note="shared layers and parameters",
    ),
    Value(
        cls="torch.nn.Linear",
        make="seen_by_hook = []\nwatched = nn.Linear(3, 1)\n"
        "hook = watched.register_forward_hook(lambda m, i, o: seen_by_hook.append(1))\ndel hook\nwatched",
        check="[seen_by_hook.clear(), x.register_forward_hook(lambda m, i, o: None), x(torch.ones(3)), "
        "len(x._forward_hooks),"
        " len(seen_by_hook)][3:] in ([2, 1], [3, 1])",
        keeps="exact",
        note="with hooks, which new ones do not replace",
    ),
    Value(
        cls="torch.nn.BatchNorm1d",
        make="norm = nn.BatchNorm1d(3)\nnorm(torch.arange(6.0).reshape(2, 3)) is None\nnorm",
        check="x.num_batches_tracked.item() == 1 and abs(x.running_mean[0].item() - 0.15) < 1e-6 and x.training",
        keeps="exact",
        note="running statistics",
    ),
    Value(
        cls="torch.nn.LSTM",
        make="nn.LSTM(3, 4, num_layers=2, batch_first=True)",
        check="x(torch.ones(1, 5, 3))[0].shape == (1, 5, 4) and len(list(x.parameters())) == 8",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.TransformerEncoder",
        make="nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()",
        check="x(torch.ones(1, 2, 8)).shape == (1, 2, 8)",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.CrossEntropyLoss",
        make="nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))",
        check="x.weight.tolist() == [1, 2] and abs(x(torch.zeros(1, 2), torch.tensor([1])).item() - 0.6931) < 1e-3",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.ParameterDict",
        make="nn.ParameterDict({'a': nn.Parameter(torch.ones(1))})",
        check="list(x) == ['a'] and x['a'].requires_grad",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.Module",
        make="nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))",
        check="x.parametrizations.weight.original0.shape == (2, 1) and x(torch.ones(3)).shape == (2,)",
        keeps="reported",
        note="a parametrized layer has a class made at run time, which torch refuses to pickle; keep its state_dict()",
    ),
    Value(
        cls="torch.optim.Adam",
        make="model = Net()\nadam = trained(model, torch.optim.Adam, lr=0.01)\nadam",
        check="points_at(x, model) and x.state[model.head.weight]['step'].item() >= 3 and moves(x, model)"
        " and x.param_groups[0]['lr'] == 0.01",
        keeps="exact",
        note="goes on pointing at the parameters of a model in another variable",
    ),
    Value(
        cls="torch.optim.SGD",
        make="line = nn.Linear(3, 1)\nsgd = trained(line, torch.optim.SGD, lr=0.1, momentum=0.9)\n"
        "stepped = []\nsgd.register_step_post_hook(lambda *a: stepped.append(1)) is None\nsgd",
        check="points_at(x, line) and moves(x, line) and len(x._optimizer_step_post_hooks) == 1 and stepped",
        keeps="exact",
        note="momentum and hooks",
    ),
    Value(
        cls="torch.optim.AdamW",
        make="grown = nn.Linear(3, 3)\nadamw = torch.optim.AdamW([{'params': [grown.weight]}, "
        "{'params': [grown.bias], 'lr': 1}])\n"
        "adamw",
        check="[g['lr'] for g in x.param_groups] == [0.001, 1] and x.param_groups[1]['params'][0] is grown.bias",
        keeps="exact",
        note="groups of parameters",
    ),
    Value(
        cls="torch.optim.LBFGS",
        make="flat = nn.Linear(3, 1)\ntorch.optim.LBFGS(flat.parameters(), lr=0.5)",
        check="points_at(x, flat) and x._params[0] is flat.weight",
        keeps="exact",
    ),
    Value(
        cls="torch.optim.lr_scheduler.StepLR",
        make="slow = nn.Linear(3, 1)\nslow_sgd = torch.optim.SGD(slow.parameters(), lr=1.0)\n"
        "torch.optim.lr_scheduler.StepLR(slow_sgd, step_size=1, gamma=0.5)",
        check="x.optimizer is slow_sgd and x.get_last_lr() == [1.0] and hasattr(slow_sgd.step, '_wrapped_by_lr_sched')"
        " and [slow_sgd.step(), slow_sgd._opt_called, slow_sgd.param_groups[0]['lr']][1:] == [True, 1.0]",
        keeps="exact",
        note="drives the optimizer in another variable",
    ),
    Value(
        cls="torch.optim.lr_scheduler.ReduceLROnPlateau",
        make="torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=3)",
        check="x.optimizer is sgd and x.patience == 3",
        keeps="exact",
    ),
    Value(
        cls="torch.optim.lr_scheduler.LambdaLR",
        make="torch.optim.lr_scheduler.LambdaLR(adamw, lambda epoch: 0.9 ** epoch)",
        check="x.optimizer is adamw and x.lr_lambdas[0](2) == 0.9 ** 2",
        keeps="exact",
    ),
    Value(
        cls="torch.amp.GradScaler",
        make="torch.amp.GradScaler('cpu', init_scale=8.0)",
        check="x.get_scale() == 8.0 and x.is_enabled()",
        keeps="exact",
    ),
    Value(
        cls="torch.utils.data.TensorDataset",
        make="TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([0, 1, 0]))",
        check="len(x) == 3 and x[1][0].tolist() == [2, 3]",
        keeps="exact",
    ),
    Value(
        cls="torch.utils.data.DataLoader",
        make="DataLoader(Squares(), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(1))",
        check="sorted(v for batch in x for v in batch.tolist()) == [0, 1, 4, 9] and x.generator.initial_seed() == 1",
        keeps="exact",
        note="its generator goes on where it was",
    ),
    Value(
        cls="torch.utils.data.dataloader._SingleProcessDataLoaderIter",
        make="iter(DataLoader(Squares(), batch_size=1))",
        check="type(x).__name__ == '_SingleProcessDataLoaderIter'",
        keeps="reported",
        note="an iterator that has begun an epoch",
    ),
    Value(
        cls="torch.utils.data.Subset",
        make="torch.utils.data.random_split(Squares(), [3, 1], torch.Generator().manual_seed(0))",
        check="x[0].dataset is x[1].dataset and sorted([*x[0].indices, *x[1].indices]) == [0, 1, 2, 3]",
        keeps="exact",
    ),
    Value(
        cls="torch.Generator",
        make="torch.Generator().manual_seed(5)",
        check="x.initial_seed() == 5 and torch.rand(2, generator=x).tolist() =="
        " torch.rand(2, generator=torch.Generator().manual_seed(5)).tolist()",
        keeps="exact",
    ),
    Value(
        cls="torch.Generator",
        make="torch.default_generator",
        check="x is torch.default_generator",
        keeps="exact",
        note="the default one stays the one that manual_seed seeds",
    ),
    Value(cls="torch.device", make="torch.device('cpu')", check="x == torch.device('cpu')", keeps="exact"),
    Value(cls="torch.dtype", make="torch.float16", check="x is torch.float16", keeps="exact"),
    Value(
        cls="torch.Size",
        make="torch.zeros(2, 3).shape",
        check="x == (2, 3) and x.numel() == 6",
        keeps="exact",
    ),
    Value(
        cls="torch.nn.utils.rnn.PackedSequence",
        make="pack_padded_sequence(torch.arange(6.0).reshape(2, 3, 1), [3, 1], batch_first=True)",
        check="x.batch_sizes.tolist() == [2, 1, 1] and x.data.flatten().tolist() == [0, 3, 1, 2]",
        keeps="exact",
    ),
    Value(
        cls="torch.distributions.Normal",
        make="torch.distributions.Normal(torch.tensor(1.0), torch.tensor(2.0))",
        check="x.mean.item() == 1 and x.log_prob(torch.tensor(1.0)).item() < 0",
        keeps="exact",
    ),
    Value(
        cls="torch.distributions.Categorical",
        make="torch.distributions.Categorical(probs=torch.tensor([0.25, 0.75]))",
        check="x.probs.tolist() == [0.25, 0.75] and x.entropy().item() > 0",
        keeps="exact",
    ),
    Value(
        cls="torch.jit.ScriptModule",
        make="scripted = torch.jit.script(nn.Linear(3, 1))\n"
        "scripted_sgd = torch.optim.SGD(scripted.parameters(), lr=0.1)\n"
        "scripted",
        check="'def forward' in x.code and scripted_sgd.param_groups[0]['params'][0].data_ptr() == x.weight.data_ptr()"
        " and moves(scripted_sgd, x)",
        keeps="equal",
        note="its code is loaded from the archive that torch.jit.save makes",
    ),
    Value(
        cls="torch.jit.ScriptFunction",
        make="torch.jit.trace(lambda x: x * 2, torch.ones(1))",
        check="x(torch.ones(1)).item() == 2",
        keeps="reported",
        note="a scripted function; keep the function and script it again in a cell",
    ),
    Value(
        cls="builtins.MulBackward0",
        make="(torch.ones(2, requires_grad=True) * 3).grad_fn",
        check="x.name() == 'MulBackward0'",
        keeps="reported",
        note="a node of an autograd graph",
    ),
    Value(
        cls="collections.OrderedDict",
        make="Net().state_dict()",
        check="list(x)[0] == 'seen' and x._metadata['']['version'] == 1 and x['head.weight'].shape == (2, 4)",
        keeps="exact",
        note="a state_dict",
    ),
    Value(
        cls="torch.finfo",
        make="torch.finfo(torch.float32)",
        check="x.bits == 32",
        keeps="exact",
    ),
]
