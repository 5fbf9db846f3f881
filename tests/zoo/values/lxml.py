"""Values of lxml."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "lxml"
SETUP = "import lxml.html\nfrom lxml import etree, objectify"
NEW = "its document was written out and read again: line numbers are new"
VALUES = [
    Value(
        cls="lxml.etree._Element",
        make="root = etree.fromstring('<a k=\"1\"><b>t</b>u</a>')\nroot",
        check="etree.tostring(x) == b'<a k=\"1\"><b>t</b>u</a>' and x.xpath('//b')[0].text == 't'",
        keeps="equal",
        note=NEW,
    ),
    Value(
        cls="lxml.etree._Element",
        make="inner = root[0]\ninner",
        check="x.getparent() is root and x.tail == 'u'",
        keeps="equal",
        note=f"still a part of its document; {NEW}",
    ),
    Value(
        cls="lxml.etree._ElementTree",
        make="etree.ElementTree(root)",
        check="x.getroot() is root and x.find('b').text == 't'",
        keeps="equal",
        note=NEW,
    ),
    Value(
        cls="lxml.html.HtmlElement",
        make="lxml.html.fromstring('<div><a href=\"x\">t</a><br></div>')",
        check="x.cssselect is not None and list(x.iterlinks())[0][2] == 'x' "
        "and lxml.html.tostring(x) == b'<div><a href=\"x\">t</a><br></div>'",
        keeps="equal",
        note=NEW,
    ),
    Value(
        cls="lxml.objectify.ObjectifiedElement",
        make="objectify.fromstring('<a><n>3</n></a>')",
        check="x.n == 3 and x.n + 1 == 4",
        keeps="equal",
        note=NEW,
    ),
    Value(
        cls="lxml.etree.XPath",
        make="etree.XPath('//b/text()')",
        check="x(root) == ['t']",
        keeps="reported",
        note="it is compiled inside a C library",
    ),
    Value(
        cls="lxml.etree.XSLT",
        make='etree.XSLT(etree.XML(\'<s:stylesheet version="1.0" xmlns:s="http://www.w3.org/1999/XSL/Transform"/>\'))',
        check="x(root) is not None",
        keeps="reported",
        note="it is compiled inside a C library",
    ),
    Value(
        cls="lxml.etree.XMLParser",
        make="etree.XMLParser(remove_blank_text=True)",
        check="len(etree.fromstring('<a> </a>', x)) == 0",
        keeps="reported",
        note="it is made inside a C library",
    ),
]
