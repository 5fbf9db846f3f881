"""Values of bs4."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "bs4"
SETUP = "import bs4"
VALUES = [
    Value(
        cls="bs4.BeautifulSoup",
        make="soup = bs4.BeautifulSoup('<p class=\"a b\">t<b>u</b><!--c--></p>', 'html.parser')\nsoup",
        check="x.p['class'] == ['a', 'b'] and x.b.parent is x.p and x.select('p > b')[0].text == 'u' and [type(e).__name__ for e in x.descendants] == "
        "['Tag', 'NavigableString', 'Tag', 'NavigableString', 'Comment'] and x.b.next_sibling.previous_sibling is x.b "
        "and str(x) == '<p class=\"a b\">t<b>u</b><!--c--></p>' and x.new_tag('i').name == 'i'",
        keeps="exact",
    ),
    Value(
        cls="bs4.element.Tag",
        make="tag = soup.b\ntag",
        check="x is soup.b and x.parent.name == 'p' and x.string == 'u'",
        keeps="exact",
        note="still a part of its document",
    ),
    Value(
        cls="bs4.element.NavigableString",
        make="soup.p.contents[0]",
        check="x == 't' and x.parent is soup.p and x is soup.p.contents[0]",
        keeps="exact",
        note="still a part of its document",
    ),
    Value(
        cls="bs4.element.Tag",
        make="torn = bs4.BeautifulSoup('<a><i>1</i><u>2</u></a>', 'html.parser').i.extract()\ntorn",
        check="x.parent is None and x.next_element == '1' and x.next_element.next_element is None "
        "and [soup.p.append(x), soup.p.contents[-1] is x, soup.p.i is x][1:] == [True, True]",
        keeps="exact",
        note="taken out of its document",
    ),
    Value(
        cls="bs4.element.Comment", make="soup.p.contents[2]", check="x == 'c' and x.parent.name == 'p'", keeps="exact"
    ),
    Value(
        cls="bs4.element.ResultSet",
        make="soup.find_all('b')",
        check="x[0] is soup.b and len(x) == 1",
        keeps="exact",
    ),
    Value(
        cls="bs4.filter.SoupStrainer",
        make="bs4.SoupStrainer('b')",
        check="len(bs4.BeautifulSoup('<a></a><b></b>', 'html.parser', parse_only=x).find_all(True)) == 1",
        keeps="exact",
    ),
]
