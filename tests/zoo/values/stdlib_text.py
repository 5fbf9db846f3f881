"""Values of the standard library: text, its formats and its tools."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import argparse
import configparser
import csv
import difflib
import email.message
import email.mime.text
import email.policy
import gettext
import html.parser
import http.cookiejar
import http.cookies
import ipaddress
import json
import mimetypes
import plistlib
import pprint
import re
import shlex
import string
import sys
import textwrap
import urllib.parse
import urllib.request
import urllib.robotparser
import uuid
import xml.dom.minidom
import xml.etree.ElementTree as ET
"""
VALUES = [
    Value(
        cls="re.Pattern",
        make="re.compile(r'(?P<word>\\w+)', re.IGNORECASE)",
        check="x.match('Ab').groupdict() == {'word': 'Ab'} and x.flags & re.I",
        keeps="exact",
    ),
    Value(
        cls="re.Match",
        make="re.match('a', 'ab')",
        check="x.span() == (0, 1)",
        keeps="reported",
        note="its groups and span can be kept instead",
    ),
    Value(
        cls="string.Template",
        make="string.Template('$a and ${b}')",
        check="x.substitute(a=1, b=2) == '1 and 2'",
        keeps="exact",
    ),
    Value(cls="string.Formatter", make="string.Formatter()", check="x.format('{:>3}', 1) == '  1'", keeps="exact"),
    Value(
        cls="textwrap.TextWrapper",
        make="textwrap.TextWrapper(width=7, initial_indent='> ')",
        check="x.fill('aa bb cc') == '> aa bb\\ncc'",
        keeps="exact",
    ),
    Value(
        cls="difflib.SequenceMatcher",
        make="difflib.SequenceMatcher(None, 'abcd', 'bcde')",
        check="x.ratio() == 0.75 and x.find_longest_match().size == 3",
        keeps="exact",
    ),
    Value(
        cls="difflib.Differ",
        make="difflib.Differ()",
        check="[line[0] for line in x.compare(['a\\n'], ['b\\n'])] == ['-', '+']",
        keeps="exact",
    ),
    Value(
        cls="json.encoder.JSONEncoder",
        make="json.JSONEncoder(sort_keys=True, indent=1)",
        check="x.encode({'b': 1, 'a': 2}) == '{\\n \"a\": 2,\\n \"b\": 1\\n}'",
        keeps="exact",
    ),
    Value(
        cls="json.decoder.JSONDecoder",
        make="json.JSONDecoder(parse_float=str)",
        check="x.decode('[1.50, 2]') == ['1.50', 2]",
        keeps="exact",
    ),
    Value(
        cls="argparse.ArgumentParser",
        make="""
parser = argparse.ArgumentParser('tool', exit_on_error=False)
parser.add_argument('--count', type=int, default=3)
parser.add_argument('--kind', choices=['a', 'b'])
commands = parser.add_subparsers(dest='command')
commands.add_parser('go').add_argument('where')
parser
""",
        check="vars(x.parse_args(['--kind', 'b', 'go', 'home'])) "
        "== {'count': 3, 'kind': 'b', 'command': 'go', 'where': 'home'}",
        keeps="exact",
    ),
    Value(
        cls="argparse.Namespace", make="argparse.Namespace(a=1, b=[2])", check="x.a == 1 and x.b == [2]", keeps="exact"
    ),
    Value(
        cls="configparser.ConfigParser",
        make="config = configparser.ConfigParser()\nconfig.read_string('[one]\\na = 1\\nb = %(a)s2')\nconfig",
        check="x['one']['b'] == '12' and x.getint('one', 'a') == 1",
        keeps="exact",
    ),
    Value(
        cls="configparser.SectionProxy",
        make="section = config['one']\nsection",
        check="x['a'] == '1' and x.parser is config",
        keeps="exact",
        note="still a view of its parser",
    ),
    Value(
        cls="email.message.EmailMessage",
        make="""
message = email.message.EmailMessage()
message['Subject'] = 'Grüße'
message.set_content('text')
message.add_attachment(b'1', maintype='a', subtype='b', filename='f')
message
""",
        check="x['Subject'] == 'Grüße' and [p.get_content_type() for p in x.walk()][1:] == ['text/plain', 'a/b']",
        keeps="exact",
    ),
    Value(
        cls="email.mime.text.MIMEText",
        make="email.mime.text.MIMEText('hello', 'html')",
        check="x.get_payload() == 'hello' and x.get_content_subtype() == 'html'",
        keeps="exact",
    ),
    Value(
        cls="email.policy.EmailPolicy",
        make="email.policy.default.clone(max_line_length=50)",
        check="x.max_line_length == 50",
        keeps="exact",
    ),
    Value(
        cls="gettext.NullTranslations",
        make="gettext.NullTranslations()",
        check="x.gettext('a') == 'a'",
        keeps="exact",
    ),
    Value(
        cls="html.parser.HTMLParser",
        make="""
class Links(html.parser.HTMLParser):
    found = ()

    def handle_starttag(self, tag, attrs):
        self.found += ((tag, dict(attrs)),)

links = Links()
links.feed('<a href="1"><b')
links
""",
        check="[x.feed('>'), x.found][1] == (('a', {'href': '1'}), ('b', {}))",
        keeps="exact",
        note="in the middle of a tag",
    ),
    Value(
        cls="http.cookiejar.CookieJar",
        make="""
jar = http.cookiejar.CookieJar()
jar.set_cookie(http.cookiejar.Cookie(
    0, 'name', 'value', None, False, 'site.test', True, False, '/', True, False, None, True, None, None, {}
))
jar
""",
        check="[(c.name, c.value, c.domain) for c in x] == [('name', 'value', 'site.test')]",
        keeps="exact",
    ),
    Value(
        cls="http.cookies.SimpleCookie",
        make="cookie = http.cookies.SimpleCookie('a=1; b=2')\ncookie['a']['path'] = '/p'\ncookie",
        check="x['a'].value == '1' and x['a']['path'] == '/p' and len(x) == 2",
        keeps="exact",
    ),
    Value(
        cls="ipaddress.IPv4Network",
        make="ipaddress.ip_network('10.0.0.0/30')",
        check="x.num_addresses == 4 and ipaddress.ip_address('10.0.0.2') in x",
        keeps="exact",
    ),
    Value(cls="ipaddress.IPv6Address", make="ipaddress.ip_address('::1')", check="x.is_loopback", keeps="exact"),
    Value(
        cls="mimetypes.MimeTypes",
        make="kinds = mimetypes.MimeTypes()\nkinds.add_type('a/b', '.abz')\nkinds",
        check="x.guess_type('f.abz') == ('a/b', None)",
        keeps="exact",
    ),
    Value(cls="plistlib.UID", make="plistlib.UID(3)", check="x.data == 3", keeps="exact"),
    Value(
        cls="pprint.PrettyPrinter",
        make="pprint.PrettyPrinter(width=8)",
        check="x.pformat([1111, 2222]) == '[1111,\\n 2222]' and x._stream is sys.stdout",
        keeps="exact",
        note="prints to the new kernel's console",
    ),
    Value(
        cls="shlex.shlex",
        make="words = shlex.shlex('a \"b c\" d', posix=True)\nwords.get_token()\nwords",
        check="list(x) == ['b c', 'd']",
        keeps="exact",
        note="where it was in the text",
    ),
    Value(
        cls="urllib.parse.ParseResult",
        make="urllib.parse.urlparse('http://u@h:1/p?q#f')",
        check="(x.port, x.username, x.fragment) == (1, 'u', 'f')",
        keeps="exact",
    ),
    Value(
        cls="urllib.request.Request",
        make="urllib.request.Request('http://site.test/p', data=b'1', headers={'A-b': 'c'}, method='PUT')",
        check="(x.get_method(), x.host, x.get_header('A-b'), x.data) == ('PUT', 'site.test', 'c', b'1')",
        keeps="exact",
    ),
    Value(
        cls="urllib.request.OpenerDirector",
        make="urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))",
        check="any(getattr(h, 'cookiejar', None) is jar for h in x.handlers) and x.handle_open",
        keeps="exact",
        note="with the cookie jar that another variable holds",
    ),
    Value(
        cls="urllib.robotparser.RobotFileParser",
        make="robots = urllib.robotparser.RobotFileParser()\n"
        "robots.parse(['User-agent: *', 'Disallow: /private'])\nrobots",
        check="x.can_fetch('me', '/a') and not x.can_fetch('me', '/private')",
        keeps="exact",
    ),
    Value(cls="uuid.UUID", make="uuid.uuid5(uuid.NAMESPACE_DNS, 'a')", check="x.version == 5", keeps="exact"),
    Value(
        cls="xml.etree.ElementTree.Element",
        make="root = ET.fromstring('<a k=\"1\"><b>t</b>u</a>')\nroot",
        check="ET.tostring(x) == b'<a k=\"1\"><b>t</b>u</a>'",
        keeps="exact",
    ),
    Value(
        cls="xml.etree.ElementTree.ElementTree",
        make="ET.ElementTree(root)",
        check="x.getroot() is root and x.find('b').text == 't'",
        keeps="exact",
        note="shares its elements with other variables",
    ),
    Value(
        cls="xml.etree.ElementTree.XMLParser",
        make="ET.XMLParser()",
        check="x.feed('<a/>') is None",
        keeps="reported",
        note="a parser at work holds the state of a C library",
    ),
    Value(
        cls="xml.dom.minidom.Document",
        make="xml.dom.minidom.parseString('<a k=\"1\"><b>t</b></a>')",
        check="x.documentElement.firstChild.firstChild.data == 't' and x.documentElement.parentNode is x",
        keeps="exact",
    ),
    Value(
        cls="_csv.reader",
        make="csv.reader(['a,b', 'c,d'])",
        check="next(x) == ['a', 'b']",
        keeps="reported",
        note="it does not show where it reads from",
    ),
    Value(
        cls="_csv.writer",
        make="import io\ncsv.writer(io.StringIO())",
        check="x.writerow([1]) > 0",
        keeps="reported",
        note="it does not show where it writes to",
    ),
    Value(
        cls="_csv.Dialect",
        make="csv.get_dialect('excel-tab')",
        check="x.delimiter == '\\t'",
        keeps="exact",
    ),
    Value(
        cls="csv.Sniffer",
        make="csv.Sniffer()",
        check="x.sniff('a;b\\nc;d').delimiter == ';'",
        keeps="exact",
    ),
]
