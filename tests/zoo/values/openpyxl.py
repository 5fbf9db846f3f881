"""Values of openpyxl."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "openpyxl"
SETUP = """
import io

import openpyxl
import openpyxl.chart
import openpyxl.styles

def saved(book):
    file = io.BytesIO()
    book.save(file)
    return openpyxl.load_workbook(io.BytesIO(file.getvalue()))
"""
VALUES = [
    Value(
        cls="openpyxl.workbook.workbook.Workbook",
        make="book = openpyxl.Workbook()\nsheet = book.active\nsheet.append(['a', 1])\nsheet['C1'] = '=B1*2'\n"
        "sheet['A1'].font = openpyxl.styles.Font(bold=True)\nbook",
        check="saved(x).active['C1'].value == '=B1*2' and x.active is sheet and saved(x).active['A1'].font.b",
        keeps="exact",
    ),
    Value(
        cls="openpyxl.worksheet.worksheet.Worksheet",
        make="sheet",
        check="x is book.active and x.parent is book and x.max_column == 3",
        keeps="exact",
        note="still a part of its book",
    ),
    Value(
        cls="openpyxl.cell.cell.Cell",
        make="sheet['B1']",
        check="x is sheet['B1'] and x.value == 1 and x.coordinate == 'B1'",
        keeps="exact",
        note="still a part of its sheet",
    ),
    Value(
        cls="openpyxl.styles.fonts.Font",
        make="openpyxl.styles.Font(bold=True, size=9)",
        check="x.b and x.sz == 9",
        keeps="exact",
    ),
    Value(
        cls="openpyxl.styles.fills.PatternFill",
        make="openpyxl.styles.PatternFill('solid', fgColor='00FF00')",
        check="x.fgColor.rgb == '0000FF00'",
        keeps="exact",
    ),
    Value(
        cls="openpyxl.chart.bar_chart.BarChart",
        make="chart = openpyxl.chart.BarChart()\nchart.add_data(openpyxl.chart.Reference(sheet, min_col=2, min_row=1))\nchart",
        check="len(x.series) == 1 and x.series[0].val.numRef.f.endswith('$B$1')",
        keeps="exact",
    ),
]
