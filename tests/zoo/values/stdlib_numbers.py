"""Values of the standard library: numbers, time, bytes."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import array
import calendar
import datetime
import decimal
import fractions
import hashlib
import hmac
import random
import statistics
import struct
import time
import zlib
import zoneinfo
"""
VALUES = [
    Value(
        cls="decimal.Decimal",
        make="decimal.Decimal('1.10')",
        check="str(x) == '1.10' and x.as_tuple().exponent == -2",
        keeps="exact",
    ),
    Value(
        cls="decimal.Context",
        make="context = decimal.Context(prec=3, rounding=decimal.ROUND_UP)\n"
        "context.divide(decimal.Decimal(1), 3)\ncontext",
        check="str(x.divide(decimal.Decimal(2), 3)) == '0.667' and x.flags[decimal.Inexact]",
        keeps="exact",
    ),
    Value(cls="fractions.Fraction", make="fractions.Fraction(3, 9)", check="x.denominator == 3", keeps="exact"),
    Value(cls="complex", make="complex(1, -0.0)", check="str(x) == '(1-0j)'", keeps="exact"),
    Value(cls="datetime.date", make="datetime.date(2024, 2, 29)", check="x.isoweekday() == 4", keeps="exact"),
    Value(
        cls="datetime.time",
        make="datetime.time(1, 2, 3, tzinfo=datetime.timezone.utc)",
        check="x.isoformat() == '01:02:03+00:00'",
        keeps="exact",
    ),
    Value(
        cls="datetime.datetime",
        make="datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))",
        check="x.fold == 1 and x.utcoffset() == datetime.timedelta(hours=1)",
        keeps="exact",
        note="with its zone and fold",
    ),
    Value(cls="datetime.timedelta", make="datetime.timedelta(1, 2, 3)", check="x.microseconds == 3", keeps="exact"),
    Value(
        cls="datetime.timezone",
        make="datetime.timezone(datetime.timedelta(hours=2), 'mine')",
        check="x.tzname(None) == 'mine'",
        keeps="exact",
    ),
    Value(
        cls="zoneinfo.ZoneInfo",
        make="zoneinfo.ZoneInfo('Europe/Berlin')",
        check="x is zoneinfo.ZoneInfo('Europe/Berlin')",
        keeps="exact",
        note="the one that the process has",
    ),
    Value(
        cls="calendar.TextCalendar",
        make="calendar.TextCalendar(6)",
        check="x.getfirstweekday() == 6 and 'Su Mo' in x.formatmonth(2024, 1)",
        keeps="exact",
    ),
    Value(
        cls="time.struct_time",
        make="time.gmtime(0)",
        check="x.tm_year == 1970 and x.tm_zone in ('UTC', 'GMT')",
        keeps="exact",
    ),
    Value(
        cls="statistics.NormalDist",
        make="statistics.NormalDist(1, 2)",
        check="x.mean == 1 and x.stdev == 2 and x.cdf(1) == 0.5",
        keeps="exact",
    ),
    Value(
        cls="random.Random",
        make="r1 = random.Random(5)\nr1.gauss(0, 1)\nr1.label = label = ['mine']\nr1",
        check="(x.gauss(0, 1), x.random(), x.label is label) "
        "== (lambda r: (r.gauss(0, 1), r.gauss(0, 1), r.random())[1:])(random.Random(5)) + (True,)",
        keeps="exact",
        note="the stream goes on, also between the two numbers of gauss(); attributes put on it stay",
    ),
    Value(
        cls="random.Random",
        make="""
class Dice(random.Random):
    def __init__(self, sides, seed):
        super().__init__(seed)
        self.sides = sides

    def roll(self):
        return self.randint(1, self.sides)

dice = Dice(20, 7)
dice.roll()
dice
""",
        check="[x.roll(), x.roll()] == [random.Random(7).randint(1, 20) and n for n in "
        "(lambda r: [r.randint(1, 20) for _ in range(3)][1:])(random.Random(7))]",
        keeps="exact",
        note="a subclass with arguments of its own",
    ),
    Value(
        cls="random.SystemRandom",
        make="system = random.SystemRandom()\nsystem.label = 'mine'\nsystem",
        check="0 <= x.random() < 1 and x.label == 'mine'",
        keeps="exact",
    ),
    Value(
        cls="builtin_function_or_method",
        make="random.random",
        check="[random.seed(3), x()][1] == random.Random(3).random() and x.__self__ is random._inst",
        keeps="exact",
        note="bound to the generator of the process",
    ),
    Value(
        cls="array.array",
        make="numbers = array.array('d', [1.5, 2.5])\nnumbers",
        check="x.typecode == 'd' and x.tolist() == [1.5, 2.5]",
        keeps="exact",
    ),
    Value(cls="bytearray", make="content = bytearray(b'abc')\ncontent", check="x == b'abc'", keeps="exact"),
    Value(
        cls="memoryview",
        make="memoryview(content)[1:]",
        check="x.tobytes() == b'bc' and x.obj is content",
        keeps="equal",
        note="still the memory of its object; an address in it that C code holds is not followed",
    ),
    Value(
        cls="_struct.Struct",
        make="struct.Struct('<IH')",
        check="x.size == 6 and x.unpack(x.pack(7, 8)) == (7, 8)",
        keeps="exact",
    ),
    Value(
        cls="_hashlib.HASH",
        make="hashlib.sha256(b'a')",
        check="x.hexdigest()[:4] == 'ca97'",
        keeps="reported",
        note="the state of a hash is inside a C library; keep its digest",
    ),
    Value(
        cls="_blake2.blake2b",
        make="hashlib.blake2b(b'a')",
        check="x.digest_size == 64",
        keeps="reported",
        note="the state of a hash is inside a C library; keep its digest",
    ),
    Value(
        cls="hmac.HMAC",
        make="hmac.new(b'key', b'text', 'sha256')",
        check="len(x.digest()) == 32",
        keeps="reported",
        note="the state of a hash is inside a C library; keep its digest",
    ),
    Value(
        cls="zlib.Compress",
        make="zlib.compressobj()",
        check="x.compress(b'a') is not None",
        keeps="reported",
        note="the state of a stream is inside a C library",
    ),
]
