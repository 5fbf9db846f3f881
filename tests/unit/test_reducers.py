"""Reducers of libraries: what comes back, what shares what, and what is refused with which words."""

from __future__ import annotations

import asyncio
import bz2
import concurrent.futures
import ctypes
import gzip
import io
import logging
import multiprocessing
import multiprocessing.connection
import multiprocessing.shared_memory
import queue
import random
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from durable_nb.capture.codec import Codec, Failed
from durable_nb.capture.groups import partition
from durable_nb.capture.reducers import load


def _again(**values: Any) -> dict[str, Any]:
    """Dump the values as one group and load them."""
    codec = Codec({}, load(sys.modules))
    dumped = codec.dump(list(values), values)
    buffers = [bytearray(b) for b in dumped.buffers]
    return codec.load(dumped.pickle, buffers, lambda name: values[name], codec=dumped.codec)


def _reason(value: Any) -> str:
    """Return why a value cannot be stored."""
    with pytest.raises(Failed) as caught:
        _again(x=value)
    return str(caught.value.args[0])


# --- threads and locks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_free_lock_comes_back_free_and_a_held_one_is_refused(make: Any) -> None:
    """A restored lock can be taken at once; one that is held stands for work that is lost."""
    lock = make()
    found = _again(x=lock)["x"]
    assert type(lock) is type(found)
    assert found.acquire(timeout=1)
    with lock:
        assert "held" in _reason(lock)


def test_lock_held_by_another_thread_is_refused() -> None:
    """An RLock of another thread counts as held too."""
    lock, ready, done = threading.RLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            ready.set()
            done.wait(10)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        assert "held" in _reason(lock)
        assert "thread" in _reason(thread)
    finally:
        done.set()
        thread.join()


def test_events_conditions_semaphores_barriers_and_queues_come_back_usable() -> None:
    """They are made of locks: state and items are kept, and nothing hangs."""
    event, items = threading.Event(), queue.Queue[int]()
    event.set()
    items.put(1)
    items.put(2)
    made = {"event": event, "items": items, "cond": threading.Condition(), "sem": threading.Semaphore(2)}
    found = _again(**made, barrier=threading.Barrier(1), last=queue.LifoQueue())
    assert found["event"].is_set()
    assert [found["items"].get(timeout=1), found["items"].get(timeout=1)] == [1, 2]
    with found["cond"]:
        found["cond"].notify_all()
    assert found["sem"].acquire(timeout=1)
    assert found["barrier"].wait(timeout=1) == 0


def test_processes_executors_and_futures_are_refused() -> None:
    """What runs elsewhere does not run again because it was loaded."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(pow, 2, 5)
        assert "process" in _reason(process)
        assert "executor" in _reason(pool)
        assert "future" in _reason(future).lower()
    assert _reason(threading.local())


def test_multiprocessing_handles_are_refused() -> None:
    """A copied connection would close a stranger's file number; a second owner would unlink the shared memory."""
    left, right = multiprocessing.Pipe()
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=8)
    try:
        assert "multiprocessing" in _reason(left)
        assert "multiprocessing" in _reason(memory)
        assert "multiprocessing" in _reason(multiprocessing.Queue())
        assert "multiprocessing" in _reason(multiprocessing.Lock())
    finally:
        left.close()
        right.close()
        memory.close()
        memory.unlink()


# --- files and streams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opener", "closed"), [(open, False), (gzip.open, False), (gzip.open, True), (bz2.open, False), (bz2.open, True)]
)
@pytest.mark.parametrize("mode", ["wt", "wb"])
def test_files_are_refused_with_their_path_and_left_alone(tmp_path: Path, opener: Any, mode: str, closed: bool) -> None:
    """A file is never opened again: one in mode w would lose its content."""
    path = tmp_path / "kept.txt"
    file = opener(path, mode)
    file.write("hello" if mode == "wt" else b"hello")
    if closed:
        file.close()
    before = path.read_bytes()
    try:
        reason = _reason(file)
        after = path.read_bytes()
    finally:
        file.close()
    assert before == after
    assert "file" in reason
    # A closed BZ2File does not know its name any more.
    assert (opener is bz2.open and closed) or "kept.txt" in reason


@pytest.mark.parametrize("mode", ["w", "a", "x", "r+", "w+", "r", "wb", "ab", "r+b", "w+b", "rb"])
def test_closed_file_comes_back_closed_and_its_file_is_left_alone(tmp_path: Path, mode: str) -> None:
    """What `with open(...) as f` leaves behind says the same of itself, closed, and touches nothing on the disk."""
    path = tmp_path / "kept.txt"
    if mode != "x":
        path.write_text("hello")
    with open(path, mode) as file:
        pass
    path.write_text("kept")
    found = _again(f=file)["f"]
    assert "kept" == path.read_text()
    assert (type(file), repr(file), True) == (type(found), repr(found), found.closed)
    assert (file.name, file.mode) == (found.name, found.mode)
    for closed in (file, found):
        with pytest.raises(ValueError, match="closed"):
            closed.tell()


def test_closed_hdf5_objects_come_back_closed_and_open_ones_are_refused(tmp_path: Path) -> None:
    """A closed handle is a value without a file; an open one is a handle of the lost process."""
    h5py = pytest.importorskip("h5py")
    file = h5py.File(tmp_path / "a.h5", "w")
    group = file.create_group("g")
    data = group.create_dataset("d", data=[1, 2])
    assert "handle" in _reason(file)
    assert "handle" in _reason(data)
    file.close()
    with h5py.File(tmp_path / "a.h5", "r") as again:
        read = again["g/d"]
        assert [1, 2] == list(read[:])  # it now keeps a reader in its cache
    assert repr(read) == repr(_again(read=read)["read"])
    found = _again(file=file, group=group, data=data)
    assert [repr(file), repr(group), repr(data)] == [repr(found[n]) for n in ("file", "group", "data")]
    for closed in (data, found["data"]):
        with pytest.raises(RuntimeError, match="dataspace"):
            _ = closed.shape


def test_archives_are_refused_with_the_file_below(tmp_path: Path) -> None:
    """An open archive names its file; one in memory comes back."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        assert "a.zip" in _reason(archive)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        assert "a.tar" in _reason(tar)


def test_streams_in_memory_keep_content_and_position() -> None:
    """StringIO and BytesIO come back where they were."""
    text, data = io.StringIO("abc\ndef\n"), io.BytesIO(b"123")
    text.readline()
    data.seek(1)
    found = _again(text=text, data=data)
    assert (found["text"].read(), found["data"].read(), found["data"].getvalue()) == ("def\n", b"23", b"123")


def test_console_is_the_console_again() -> None:
    """A variable that holds sys.stdout holds the one of the new kernel."""
    assert _again(x=sys.stdout)["x"] is sys.stdout


def test_temporary_files_and_folders_are_refused() -> None:
    """A second owner would delete them."""
    with tempfile.TemporaryDirectory() as _, tempfile.NamedTemporaryFile() as file:
        folder = tempfile.TemporaryDirectory()
        try:
            assert "owner" in _reason(folder)
            assert "owner" in _reason(file)
        finally:
            folder.cleanup()


def test_logger_comes_back_by_name_and_a_handler_on_a_stream_with_it() -> None:
    """A logger is the registered one; a handler that writes into memory keeps its stream."""
    handler = logging.StreamHandler(io.StringIO())
    found = _again(log=logging.getLogger("dnb.reducers"), handler=handler)
    assert found["log"] is logging.getLogger("dnb.reducers")
    found["handler"].handle(logging.makeLogRecord({"msg": "one"}))
    assert found["handler"].stream.getvalue() == "one\n"


# --- the standard library's other handles ----------------------------------------------------------------------------


def test_asyncio_tasks_futures_and_loops_are_refused_and_locks_come_back() -> None:
    """What needs the lost loop says so."""

    async def main() -> tuple[str, str, str, Any]:
        """Return what the refusals say, and what became of a lock."""
        task = asyncio.create_task(asyncio.sleep(0))
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        found = _again(lock=asyncio.Lock())["lock"]
        reasons = _reason(task), _reason(future), _reason(loop)
        await task
        future.cancel()
        return (*reasons, found)

    task, future, loop, lock = asyncio.run(main())
    assert ("pending asyncio Task" in task, "Future" in future, "event loop" in loop) == (True, True, True)
    assert not lock.locked()


def test_ctypes_values_come_back_and_addresses_are_refused() -> None:
    """Numbers, arrays and their types are data; pointers, functions and libraries are addresses."""
    array = (ctypes.c_int * 3)(1, 2, 3)
    found = _again(array=array, number=ctypes.c_int(9), kind=ctypes.c_int * 3)
    assert (list(found["array"]), found["number"].value) == ([1, 2, 3], 9)
    assert found["kind"] is ctypes.c_int * 3
    for value in (ctypes.pointer(ctypes.c_int(5)), ctypes.c_void_p(5), ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)):
        assert "address" in _reason(value)
    assert "library" in _reason(ctypes.CDLL(None))


def test_hidden_generator_of_random_stays_the_global_one() -> None:
    """`from random import shuffle` still draws from the stream that `random.seed` seeds; own generators are copied."""
    own = random.Random(3)
    found = _again(shuffle=random.shuffle, draw=random.random, own=own)
    assert found["shuffle"].__self__ is random.shuffle.__self__
    assert found["draw"].__self__ is random.random.__self__
    assert found["own"] is not own
    assert own.random() == found["own"].random()


def test_sqlite_connections_are_refused_and_rows_come_back() -> None:
    """A row keeps names, values and its type."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.row_factory = sqlite3.Row
        rows = connection.execute('select 1 as a, x\'00ff\' as "b ""q"""').fetchall()
        found = _again(rows=rows)["rows"]
        assert type(found[0]) is sqlite3.Row
        assert (found[0].keys(), tuple(found[0])) == (["a", 'b "q"'], (1, b"\x00\xff"))
        assert "sqlite3" in _reason(connection)
        assert "sqlite3" in _reason(connection.cursor())
    finally:
        connection.close()


# --- libraries -------------------------------------------------------------------------------------------------------


def test_duckdb_connections_and_relations_are_refused() -> None:
    """The reason names DuckDB."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    assert "DuckDB" in _reason(connection)
    assert "DuckDB" in _reason(connection.sql("select 1"))
    connection.close()


def test_h5py_handles_are_refused_and_types_come_back(tmp_path: Path) -> None:
    """Every kind of handle says h5py."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("d", data=[1])
        for value in (file, data, data.id, data.attrs, data.ref):
            assert "h5py" in _reason(value)
    assert h5py.check_string_dtype(_again(x=h5py.string_dtype())["x"]) is not None


def test_comms_are_refused_and_widgets_come_back_without_theirs() -> None:
    """A comm is a connection of one kernel; a widget that is only loaded has none and keeps its model's id."""
    widgets = pytest.importorskip("ipywidgets")
    comm = pytest.importorskip("comm.base_comm")
    slider = widgets.IntSlider(value=3)
    again = _again(x=widgets.VBox([slider]))["x"]
    assert (3, None) == (again.children[0].value, again.children[0].comm)
    assert slider.model_id == vars(again.children[0])["_model_id"]
    assert "comm" in _reason(comm.CommManager())


def test_a_widget_with_a_pickle_of_its_own_is_refused() -> None:
    """Its way back would talk to the front end while the value is only looked at."""
    widgets = pytest.importorskip("ipywidgets")

    class Own(widgets.IntSlider):
        def __reduce__(self) -> Any:
            return Own, ()

    assert "way of its own" in _reason(Own())


@pytest.fixture
def plt() -> Any:
    """Pyplot with a backend that shows nothing."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = pytest.importorskip("matplotlib.pyplot")
    yield found
    found.close("all")


def test_figure_comes_back_unregistered_and_draws_the_same(plt: Any) -> None:
    """Loading a figure neither registers nor shows it; its axes are those of the figure and its picture is equal."""
    fig, ax = plt.subplots()
    ax.plot([1, 3, 2])
    numbers = plt.get_fignums()
    found = _again(fig=fig, ax=ax)
    assert numbers == plt.get_fignums()
    assert found["ax"] is found["fig"].axes[0]
    pictures = []
    for figure in (fig, found["fig"]):
        stream = io.BytesIO()
        figure.savefig(stream, format="raw")
        pictures.append(stream.getvalue())
    assert pictures[0] == pictures[1]


def test_figure_of_the_inline_backend_comes_back_without_its_hook(plt: Any) -> None:
    """The function that the inline backend hangs on a figure belongs to the kernel."""
    inline = pytest.importorskip("matplotlib_inline.backend_inline")
    fig = plt.Figure()
    inline.new_figure_manager_given_figure(1, fig)
    assert "show" not in vars(_again(x=fig)["x"])


def test_settings_of_matplotlib_and_pandas_stay_those_of_the_process(plt: Any) -> None:
    """A variable that holds rcParams or pandas.options goes on to change the real settings."""
    pd = pytest.importorskip("pandas")
    found = _again(rc=plt.rcParams, options=pd.options, display=pd.options.display, copied=plt.rcParams.copy())
    assert found["rc"] is plt.rcParams
    assert found["copied"] is not plt.rcParams
    assert found["copied"]["figure.dpi"] == plt.rcParams["figure.dpi"]
    assert found["options"] is pd.options
    try:
        found["display"].max_rows = 11
        assert pd.get_option("display.max_rows") == 11
    finally:
        pd.reset_option("display.max_rows")


def test_sliders_animations_and_canvases_are_refused(plt: Any) -> None:
    """They live on the events of a figure on the screen."""
    widgets = pytest.importorskip("matplotlib.widgets")
    animation = pytest.importorskip("matplotlib.animation")
    fig, ax = plt.subplots()
    assert "widget" in _reason(widgets.Slider(ax, "a", 0, 5))
    moving = animation.FuncAnimation(fig, lambda i: [], frames=1, cache_frame_data=False)
    moving._draw_was_started = True
    assert "Animation" in _reason(moving)
    assert "figure" in _reason(fig.canvas)


def test_pandas_groupby_and_styler_come_back() -> None:
    """A grouping keeps to the frame beside it; a styler keeps its lambda."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("jinja2")
    df = pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]})
    style = df.style.format({"v": lambda v: f"<{v}>"})
    found = _again(df=df, g=df.groupby("k"), st=style)
    assert found["g"]["v"].sum().to_dict() == {"a": 4, "b": 2}
    assert found["g"].obj is found["df"]
    assert "<1>" in found["st"].to_html() or "&lt;1" in found["st"].to_html()


def test_polars_frames_and_expressions_come_back() -> None:
    """Frames, lazy frames and expressions are values."""
    pl = pytest.importorskip("polars")
    df = pl.DataFrame({"a": [1, 2], "e": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))})
    found = _again(df=df, lazy=df.lazy().select(pl.col("a") * 2), expr=pl.col("a") + 1)
    assert found["df"].equals(df)
    assert df.schema == found["df"].schema
    assert found["lazy"].collect()["a"].to_list() == [2, 4]
    assert df.select(found["expr"])["a"].to_list() == [2, 3]


def test_scipy_frozen_distribution_keeps_to_the_global_stream() -> None:
    """A copy of the global RandomState would be a stream that nobody seeds."""
    np = pytest.importorskip("numpy")
    stats = pytest.importorskip("scipy.stats")
    found = _again(x=stats.norm(0, 1))["x"]
    assert found.dist._random_state is np.random.mtrand._rand


def test_requests_session_and_protobuf_messages_come_back() -> None:
    """Both pickle by themselves."""
    requests = pytest.importorskip("requests")
    struct_pb2 = pytest.importorskip("google.protobuf.struct_pb2")
    session, message = requests.Session(), struct_pb2.Struct()
    session.headers["X-Dnb"] = "1"
    message.update({"a": 1})
    found = _again(session=session, message=message)
    assert (found["session"].headers["X-Dnb"], found["message"]["a"]) == ("1", 1)
    session.close()


# --- torch -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    """Torch, where it is installed."""
    return pytest.importorskip("torch")


def test_torch_views_share_their_storage_again(torch: Any) -> None:
    """Two tensors over one storage stay so, with shape, strides and type."""
    t = torch.arange(6.0).reshape(2, 3)
    found = _again(t=t, v=t[:, 1], turned=t.T, empty=torch.empty(0), number=torch.tensor(3, dtype=torch.int8))
    assert (t.tolist(), t.T.tolist()) == (found["t"].tolist(), found["turned"].tolist())
    found["t"][1, 1] = 99
    assert found["v"].tolist() == [1.0, 99.0]
    assert found["turned"][1, 1].item() == 99.0
    assert (0, torch.int8, 3) == (found["empty"].numel(), found["number"].dtype, found["number"].item())


def test_torch_views_are_one_group(torch: Any) -> None:
    """Variables that share a storage are stored together."""
    t = torch.zeros(4)
    values = {"t": t, "v": t[:2], "other": torch.zeros(4)}
    codec = Codec(values, load(sys.modules))
    groups = partition(values, codec.definitions, codec.plugin).groups
    assert {("t", "v"), ("other",)} == set(groups)


def test_torch_gradients_and_attributes_are_kept_and_graphs_fail_aloud(torch: Any) -> None:
    """`.grad` survives between backward() and step(); a computed tensor is a value without its graph."""
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    w.note = "mine"
    found = _again(w=w, loss=loss)
    assert found["w"].grad.tolist() == [2.0, 2.0]
    assert (found["w"].requires_grad, found["w"].note, found["loss"].item()) == (True, "mine", 2.0)
    assert (loss.requires_grad, loss.is_leaf) == (found["loss"].requires_grad, found["loss"].is_leaf)
    for reached in (found["loss"], found["loss"] * torch.ones(1, requires_grad=True)):
        with pytest.raises(RuntimeError, match="without the graph"):
            reached.sum().backward()


def test_torch_module_and_optimizer_keep_their_shared_parameters(torch: Any) -> None:
    """Training goes on exactly where it was."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.rand(5, 3)

    def step(module: Any, optim: Any) -> list[float]:
        optim.zero_grad()
        module(data).sum().backward()
        optim.step()
        return [p.detach().sum().item() for p in module.parameters()]

    step(model, optimizer)
    found = _again(model=model, optimizer=optimizer)
    assert found["optimizer"].param_groups[0]["params"][0] is next(iter(found["model"].parameters()))
    assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in found["model"].parameters()]
    assert step(model, optimizer) == step(found["model"], found["optimizer"])


def test_torch_generators_keep_their_position_and_the_default_one_its_identity(torch: Any) -> None:
    """A generator goes on; the default one stays the one that manual_seed seeds."""
    generator = torch.Generator().manual_seed(4)
    torch.rand(2, generator=generator)
    found = _again(own=generator, default=torch.default_generator)
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=found["own"]))
    assert found["default"] is torch.default_generator


def test_torch_tensors_of_other_kinds_come_back(torch: Any) -> None:
    """Sparse, complex conjugate and buffers of a module."""
    sparse, conj = torch.eye(2).to_sparse(), torch.tensor([1 + 2j]).conj()
    found = _again(sparse=sparse, conj=conj, norm=torch.nn.BatchNorm1d(2))
    assert sparse.to_dense().tolist() == found["sparse"].to_dense().tolist()
    assert conj.tolist() == found["conj"].tolist()
    assert found["norm"].running_mean.tolist() == [0.0, 0.0]
