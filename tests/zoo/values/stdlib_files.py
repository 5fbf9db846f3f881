"""Values of the standard library: streams, files, the system."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import bz2
import csv
import gzip
import io
import mmap
import os
import pathlib
import selectors
import shelve
import socket
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

Path('kept.txt').write_text('one\\ntwo\\n')
"""
OPEN = "files are not opened again"
VALUES = [
    Value(
        cls="io.BytesIO",
        make="buffer = io.BytesIO(b'abc')\nbuffer.read(1)\nbuffer",
        check="x.tell() == 1 and x.read() == b'bc'",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="io.StringIO",
        make="text = io.StringIO('one\\ntwo')\ntext.readline()\ntext",
        check="x.read() == 'two'",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="io.TextIOWrapper",
        make="open('kept.txt')",
        check="x.read() == 'one\\ntwo\\n'",
        keeps="reported",
        note=f"open: {OPEN}",
    ),
    Value(
        cls="io.BufferedWriter",
        make="open('written.bin', 'wb')",
        check="x.writable()",
        keeps="reported",
        note=f"open for writing: {OPEN}, and nothing is lost in them",
    ),
    Value(
        cls="io.TextIOWrapper",
        make="with open('kept.txt') as file:\n    content = file.read()\nfile",
        check="x.closed and x.name == 'kept.txt' and x.mode == 'r'",
        keeps="exact",
        note="closed",
    ),
    Value(
        cls="ipykernel.iostream.OutStream",
        make="sys.stdout",
        check="x is sys.stdout",
        keeps="exact",
        note="the new kernel's own",
    ),
    Value(cls="gzip.GzipFile", make="gzip.open('kept.gz', 'wb')", check="x.writable()", keeps="reported", note=OPEN),
    Value(cls="bz2.BZ2File", make="bz2.open('kept.bz2', 'wb')", check="x.writable()", keeps="reported", note=OPEN),
    Value(
        cls="zipfile.ZipFile",
        make="zipfile.ZipFile('kept.zip', 'w')",
        check="x.namelist() == []",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="zipfile.ZipInfo",
        make="zipfile.ZipInfo('a.txt', (2024, 1, 2, 3, 4, 6))",
        check="x.filename == 'a.txt' and x.date_time[0] == 2024",
        keeps="exact",
    ),
    Value(
        cls="tarfile.TarFile",
        make="tarfile.open('kept.tar', 'w')",
        check="x.getnames() == []",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="tarfile.TarInfo",
        make="entry = tarfile.TarInfo('a')\nentry.size = 3\nentry",
        check="x.name == 'a' and x.size == 3 and x.isfile()",
        keeps="exact",
    ),
    Value(
        cls="mmap.mmap", make="mmap.mmap(-1, 16)", check="len(x) == 16", keeps="reported", note="memory of the system"
    ),
    Value(
        cls="shelve.DbfilenameShelf",
        make="shelve.open('shelf')",
        check="x.get('a') is None",
        keeps="reported",
        note="an open database",
    ),
    Value(
        cls="tempfile.TemporaryDirectory",
        make="tempfile.TemporaryDirectory()",
        check="Path(x.name).is_dir()",
        keeps="reported",
        note="a second owner would delete the folder; its name can be kept",
    ),
    Value(
        cls="tempfile._TemporaryFileWrapper",
        make="tempfile.NamedTemporaryFile()",
        check="Path(x.name).exists()",
        keeps="reported",
        note="a second owner would delete the file; its name can be kept",
    ),
    Value(
        cls="tempfile.SpooledTemporaryFile",
        make="tempfile.SpooledTemporaryFile()",
        check="x.tell() == 0",
        keeps="exact",
        note="as long as it is in memory",
    ),
    Value(cls="pathlib.PosixPath", make="Path('a') / 'b.txt'", check="x.suffix == '.txt'", keeps="exact"),
    Value(
        cls="pathlib.PurePosixPath",
        make="pathlib.PurePosixPath('/a/b')",
        check="x.parent.name == 'a'",
        keeps="exact",
    ),
    Value(cls="os.stat_result", make="os.stat('kept.txt')", check="x.st_size == 8 and x.st_mtime_ns", keeps="exact"),
    Value(
        cls="os.DirEntry",
        make="next(os.scandir('.'))",
        check="x.name",
        keeps="reported",
        note="an entry of a folder that is being read; its path can be kept",
    ),
    Value(cls="os._Environ", make="os.environ", check="x is os.environ", keeps="exact", note="the new kernel's own"),
    Value(
        cls="socket.socket",
        make="socket.socket()",
        check="x.fileno() > 0",
        keeps="reported",
        note="it is open only in the process that made it",
    ),
    Value(
        cls="selectors.EpollSelector",
        make="selectors.DefaultSelector()",
        check="len(x.get_map()) == 0",
        keeps="reported",
        note="it watches files and sockets of the lost kernel",
    ),
    Value(
        cls="ssl.SSLContext",
        make="ssl.create_default_context()",
        check="x.check_hostname",
        keeps="reported",
        note="its certificates are inside a C library",
    ),
    Value(
        cls="subprocess.Popen",
        make="subprocess.Popen(['true'])",
        check="x.wait(10) == 0",
        keeps="reported",
        note="a child process belongs to the process that started it",
    ),
    Value(
        cls="subprocess.CompletedProcess",
        make="subprocess.run(['echo', 'a'], capture_output=True, text=True)",
        check="x.stdout == 'a\\n' and x.returncode == 0",
        keeps="exact",
    ),
    Value(
        cls="sqlite3.Connection",
        make="sqlite3.connect(':memory:')",
        check="x.execute('select 1').fetchone() == (1,)",
        keeps="reported",
        note="a connection is open only in the process that made it",
    ),
    Value(
        cls="sqlite3.Cursor",
        make="sqlite3.connect(':memory:').execute('select 1')",
        check="x.fetchone() == (1,)",
        keeps="reported",
        note="a cursor is open only in the process that made it",
    ),
    Value(
        cls="sqlite3.Row",
        make="""
def one_row():
    connection = sqlite3.connect(':memory:')
    connection.row_factory = sqlite3.Row
    return connection.execute('select 1 as a, 2 as b').fetchone()

one_row()
""",
        check="x['a'] == 1 and x.keys() == ['a', 'b']",
        keeps="exact",
    ),
    Value(
        cls="csv.DictReader",
        make="csv.DictReader(['a,b', '1,2'])",
        check="next(x) == {'a': '1', 'b': '2'}",
        keeps="reported",
        note="it does not show where it reads from",
    ),
]
