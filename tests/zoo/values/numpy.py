"""What people keep of numpy in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "numpy"
SETUP = """\
import numpy as np
from numpy import ma
from numpy.lib.stride_tricks import sliding_window_view

class Tagged(np.ndarray):
    def __new__(cls, values, tag=None):
        made = np.asarray(values).view(cls)
        made.tag = tag
        return made

    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", None)

base = np.arange(12.0).reshape(3, 4)
np.savez("pair.npz", a=np.arange(3), b=np.eye(2))
np.arange(6, dtype="i4").tofile("six.bin")

def drawn(stream, n=3):
    return stream.random(n).tolist()
"""
VALUES = [
    Value(
        cls="numpy.ndarray",
        make="np.arange(6, dtype='>i2').reshape(2, 3)",
        check="x.tolist() == [[0, 1, 2], [3, 4, 5]] and x.dtype == np.dtype('>i2') and x.flags.c_contiguous"
        " and x.flags.writeable",
        keeps="exact",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.asfortranarray(np.arange(6.0).reshape(2, 3))",
        check="x.flags.f_contiguous and x.strides == (8, 16) and x[1].tolist() == [3, 4, 5]",
        keeps="exact",
        note="Fortran order",
    ),
    Value(
        cls="numpy.ndarray",
        make="[base[1], base[:, ::2], base.T, base.reshape(-1)[::-1]]",
        check="all(np.shares_memory(v, base) for v in x) and x[1].strides == (32, 16) and x[3][0] == base[2, 3]"
        " and [base.__setitem__((1, 0), 77), x[0][0], x[2][0, 1]][1:] == [77, 77]",
        keeps="exact",
        note="views of an array in another variable",
    ),
    Value(
        cls="numpy.ndarray",
        make="sliding_window_view(base[0], 2)",
        check="x.shape == (3, 2) and np.shares_memory(x, base) and not x.flags.writeable",
        keeps="exact",
        note="a sliding window",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.broadcast_to(np.arange(3), (2, 3))",
        check="x.tolist() == [[0, 1, 2]] * 2 and x.shape == (2, 3) and not x.flags.writeable",
        keeps="exact",
        note="broadcast",
    ),
    Value(
        cls="numpy.ndarray",
        make="buffer = bytearray(8)\n[buffer, np.frombuffer(buffer, 'u1'), np.frombuffer(buffer, 'u2')]",
        check="x[0] is buffer and [buffer.__setitem__(0, 5), int(x[1][0]), int(x[2][0])][1:] == [5, 5]",
        keeps="exact",
        note="on the memory of a bytearray",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.array([(1, 2.5, 'ab'), (2, 3.5, 'c')], dtype=[('n', 'i4'), ('v', 'f8'), ('s', 'U3')])",
        check="x.dtype.names == ('n', 'v', 's') and x['v'].tolist() == [2.5, 3.5] and x[1]['s'] == 'c'",
        keeps="exact",
        note="structured",
    ),
    Value(
        cls="numpy.ndarray",
        make="held = [1]\nobjects = np.array([held, None, 'a'], dtype=object)\nobjects",
        check="x[0] is held and x.tolist() == [[1], None, 'a'] and x.dtype == object",
        keeps="exact",
        note="of objects that other variables hold too",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.array(['2024-01-01', 'NaT'], dtype='M8[D]')",
        check="str(x[0]) == '2024-01-01' and np.isnat(x[1]) and x.dtype == 'M8[D]'",
        keeps="exact",
        note="dates",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.array(['a', 'long enough not to be inline', ''], dtype=np.dtypes.StringDType())",
        check="x.tolist() == ['a', 'long enough not to be inline', ''] and x.dtype == np.dtypes.StringDType()",
        keeps="exact",
        note="strings of any length",
    ),
    Value(
        cls="numpy.ndarray",
        make="frozen = np.arange(3)\nfrozen.flags.writeable = False\nfrozen",
        check="not x.flags.writeable and x.tolist() == [0, 1, 2]",
        keeps="exact",
        note="read-only",
    ),
    Value(
        cls="numpy.ndarray",
        make="Tagged([1, 2], tag={'unit': 'm'})",
        check="type(x) is Tagged and x.tag == {'unit': 'm'} and x.tolist() == [1, 2] and x[:1].tag is x.tag",
        keeps="exact",
        note="a subclass with attributes, which numpy's own pickling leaves out",
    ),
    Value(
        cls="numpy.ma.MaskedArray",
        make="ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False], fill_value=-9)",
        check="x.mask.tolist() == [False, True, False] and x.sum() == 4 and x.fill_value == -9"
        " and x.data.tolist() == [1, 2, 3]",
        keeps="exact",
    ),
    Value(
        cls="numpy.ma.MaskedArray",
        make="plain = np.arange(3.0)\nma.array(plain, mask=[1, 0, 0])",
        check="x.mask.tolist() == [True, False, False] and np.shares_memory(x.data, plain)"
        " and [x.__setitem__(1, 8), plain[1], x.sum()][1:] == [8, 10]",
        keeps="exact",
        note="on the memory of another array",
    ),
    Value(
        cls="numpy.ma.core.MaskedConstant",
        make="ma.masked",
        check="x is ma.masked",
        keeps="exact",
    ),
    Value(
        cls="numpy.matrix",
        make="np.asmatrix('1 2; 3 4')",
        check="(x * x).tolist() == [[7, 10], [15, 22]]",
        keeps="exact",
    ),
    Value(
        cls="numpy.recarray",
        make="np.rec.array([(1, 'a'), (2, 'b')], dtype=[('n', int), ('s', 'U1')])",
        check="x.n.tolist() == [1, 2] and x[1].s == 'b' and type(x[0]) is np.record",
        keeps="exact",
    ),
    Value(
        cls="numpy.record",
        make="np.rec.array([(1, 'a')], dtype=[('n', int), ('s', 'U1')])[0]",
        check="x.n == 1 and x.s == 'a'",
        keeps="exact",
    ),
    Value(
        cls="numpy.char.chararray",
        make="np.char.array(['ab ', 'c'])",
        check="x[0] == 'ab' and x.upper()[0] == 'AB' and x.endswith('c').tolist() == [False, True]",
        keeps="exact",
    ),
    Value(
        cls="numpy.memmap",
        make="np.memmap('six.bin', dtype='i4', mode='r+', offset=4, shape=(5,))",
        check="x.tolist() == [1, 2, 3, 4, 5] and x.mode == 'r+' and x.offset == 4 and x.filename.endswith('six.bin')"
        " and x.flush() is None",
        keeps="exact",
        note="opened again by its path, if the file is what it was",
    ),
    Value(
        cls="numpy.memmap",
        make="mapped = np.memmap('six.bin', dtype='i4', mode='r')\n[mapped, mapped[2:4]]",
        check="x[0] is mapped and np.shares_memory(*x) and x[1].tolist() == [2, 3] and not x[1].flags.writeable",
        keeps="exact",
        note="and views of it",
    ),
    Value(
        cls="numpy.memmap",
        make="np.memmap('six.bin', dtype='i4', mode='c')",
        check="x.tolist() == [0, 1, 2, 3, 4, 5]",
        keeps="equal",
        note="a copy-on-write map comes back as the numbers it showed",
    ),
    Value(
        cls="numpy.memmap",
        make="np.lib.format.open_memmap('made.npy', mode='w+', dtype='f8', shape=(2, 2))",
        check="x.tolist() == [[0, 0], [0, 0]] and x.filename.endswith('made.npy')"
        " and np.load('made.npy').shape == (2, 2)",
        keeps="exact",
        note="a .npy file",
    ),
    Value(
        cls="numpy.lib.npyio.NpzFile",
        make="np.load('pair.npz')",
        check="x.files == ['a', 'b'] and x['a'].tolist() == [0, 1, 2]",
        keeps="exact",
        note="opened again by its path, if the file is what it was",
    ),
    Value(
        cls="numpy.lib.npyio.NpzFile",
        make="with np.load('pair.npz') as closed:\n    kept = closed['b']\nclosed",
        check="x.zip is None and x.fid is None and x.files == ['a', 'b'] and kept.shape == (2, 2)",
        keeps="exact",
        note="closed",
    ),
    Value(
        cls="numpy.random.Generator",
        make="rng = np.random.default_rng(3)\nrng.random() < 0\nrng",
        check="[same := np.random.default_rng(3), same.random(), drawn(x) == drawn(same)][2]"
        " and x.spawn(1)[0].random() == np.random.default_rng(3).spawn(1)[0].random()",
        keeps="exact",
        note="goes on where it was",
    ),
    Value(
        cls="numpy.random.Generator",
        make="shared = np.random.PCG64(4)\n[np.random.Generator(shared), np.random.Generator(shared), shared]",
        check="x[0].bit_generator is x[1].bit_generator is x[2] is shared",
        keeps="exact",
        note="two on one stream",
    ),
    *(
        Value(
            cls=f"numpy.random.{name}",
            make=f"np.random.{name}(11)",
            check=f"np.random.Generator(x).random() == np.random.Generator(np.random.{name}(11)).random()",
            keeps="exact",
        )
        for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    ),
    Value(
        cls="numpy.random.SeedSequence",
        make="seeds = np.random.SeedSequence(9)\nseeds.spawn(2) is None\nseeds",
        check="x.entropy == 9 and x.n_children_spawned == 2 and x.spawn(1)[0].spawn_key == (2,)",
        keeps="exact",
    ),
    Value(
        cls="numpy.random.RandomState",
        make="np.random.RandomState(5)",
        check="x.rand(2).tolist() == np.random.RandomState(5).rand(2).tolist()",
        keeps="exact",
    ),
    Value(
        cls="numpy.random.RandomState",
        make="np.random.mtrand._rand",
        check="x is np.random.mtrand._rand",
        keeps="exact",
        note="the global one stays the one that np.random.seed seeds",
    ),
    Value(
        cls="numpy.dtype",
        make="np.dtype([('a', 'i4'), ('b', 'f8', (2,))], align=True)",
        check="x.names == ('a', 'b') and x.itemsize == 24 and x.isalignedstruct",
        keeps="exact",
    ),
    Value(cls="numpy.float64", make="np.float64(0.1)", check="x == 0.1 and x.dtype == 'f8'", keeps="exact"),
    Value(cls="numpy.int8", make="np.int8(-3)", check="x == -3 and x.dtype == 'i1'", keeps="exact"),
    Value(cls="numpy.bool", make="np.True_", check="x is np.True_", keeps="exact"),
    Value(
        cls="numpy.datetime64", make="np.datetime64('2024-02-29T12')", check="str(x) == '2024-02-29T12'", keeps="exact"
    ),
    Value(
        cls="numpy.timedelta64", make="np.timedelta64(90, 'm')", check="x == np.timedelta64(5400, 's')", keeps="exact"
    ),
    Value(
        cls="numpy.void",
        make="np.array([(1, 2.0)], dtype='i4,f8')[0]",
        check="x['f1'] == 2.0 and x.item() == (1, 2.0)",
        keeps="exact",
    ),
    Value(cls="numpy.ufunc", make="np.add", check="x is np.add", keeps="exact"),
    Value(
        cls="numpy.ufunc",
        make="np.frompyfunc(lambda a: a + 1, 1, 1)",
        check="x(1) == 2",
        keeps="reported",
        note="a ufunc made of a Python function does not say of which; use np.vectorize",
    ),
    Value(
        cls="numpy.vectorize",
        make="np.vectorize(lambda a, b=2: a * b, otypes=[float])",
        check="x([1, 2]).tolist() == [2.0, 4.0]",
        keeps="exact",
    ),
    Value(
        cls="numpy.poly1d",
        make="np.poly1d([1, 2, 3], variable='z')",
        check="x(2) == 11 and x.variable == 'z'",
        keeps="exact",
    ),
    Value(
        cls="numpy.polynomial.Chebyshev",
        make="np.polynomial.Chebyshev([1, 2, 3], domain=[0, 1])",
        check="x.domain.tolist() == [0, 1] and x.degree() == 2 and x(1.0) == 6",
        keeps="exact",
    ),
    Value(
        cls="numpy.flatiter",
        make="walk = base.flat\nnext(walk) < 0\nwalk",
        check="x.base is base and x.index == 1 and next(x) == base[0, 1]",
        keeps="exact",
        note="with its position",
    ),
    Value(
        cls="numpy.ndenumerate",
        make="np.ndenumerate(np.arange(4).reshape(2, 2))",
        check="next(x)[0] == (0, 0)",
        keeps="exact",
    ),
    Value(
        cls="numpy.nditer",
        make="np.nditer(np.arange(3))",
        check="x.itersize == 3",
        keeps="reported",
        note="an iterator of numpy that holds buffers; make it again in a cell",
    ),
    Value(
        cls="numpy.broadcast",
        make="np.broadcast(np.ones(2), np.ones((3, 1)))",
        check="x.shape == (3, 2)",
        keeps="reported",
        note="an iterator of numpy that holds buffers; make it again in a cell",
    ),
    Value(
        cls="numpy.ndindex",
        make="np.ndindex(2, 2)",
        check="list(x)[-1] == (1, 1)",
        keeps="exact",
    ),
    Value(cls="numpy.errstate", make="np.errstate(divide='ignore')", check="x.__enter__() is None", keeps="exact"),
    Value(cls="numpy.iinfo", make="np.iinfo('i2')", check="x.max == 32767", keeps="exact"),
    Value(cls="numpy.finfo", make="np.finfo('f4')", check="x.bits == 32 and x.dtype == 'f4'", keeps="exact"),
]
