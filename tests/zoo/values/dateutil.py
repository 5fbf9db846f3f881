"""Values of dateutil."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "dateutil"
SETUP = "import datetime\n\nimport dateutil.parser\nimport dateutil.relativedelta\nimport dateutil.rrule\nimport dateutil.tz"
VALUES = [
    Value(
        cls="dateutil.relativedelta.relativedelta",
        make="dateutil.relativedelta.relativedelta(months=1, weekday=dateutil.relativedelta.MO)",
        check="datetime.date(2024, 1, 31) + x == datetime.date(2024, 3, 4)",
        keeps="exact",
    ),
    Value(
        cls="dateutil.rrule.rrule",
        make="dateutil.rrule.rrule(dateutil.rrule.MONTHLY, count=3, dtstart=datetime.datetime(2024, 1, 31))",
        check="[d.month for d in x] == [1, 3, 5]",
        keeps="exact",
    ),
    Value(
        cls="dateutil.tz.tz.tzfile",
        make="dateutil.tz.gettz('Europe/Berlin')",
        check="datetime.datetime(2024, 7, 1, tzinfo=x).utcoffset() == datetime.timedelta(hours=2)",
        keeps="exact",
    ),
    Value(
        cls="dateutil.tz.tz.tzutc",
        make="dateutil.tz.UTC",
        check="x is dateutil.tz.UTC",
        keeps="exact",
        note="the one of the process",
    ),
    Value(
        cls="dateutil.parser._parser.parser",
        make="dateutil.parser.parser()",
        check="x.parse('3 May 2024').month == 5",
        keeps="exact",
    ),
]
