"""Values of flask."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "flask"
SETUP = "import flask\nimport werkzeug.datastructures\nimport werkzeug.routing\nimport werkzeug.test\nimport werkzeug.wrappers"
VALUES = [
    Value(
        cls="flask.app.Flask",
        make="""
app = flask.Flask("zoo")
app.config["A"] = [1]

@app.route("/hello/<name>")
def hello(name):
    return flask.jsonify(hello=name, a=flask.current_app.config["A"])

app
""",
        check="x.test_client().get('/hello/b').json == {'hello': 'b', 'a': [1]} "
        "and x.view_functions['hello'] is hello and x.test_client().get('/no').status_code == 404",
        keeps="exact",
        note="with its routes and the functions of the notebook",
    ),
    Value(
        cls="flask.blueprints.Blueprint",
        make="part = flask.Blueprint('part', 'zoo', url_prefix='/p')\n\n@part.get('/a')\ndef shown():\n    return 'a'\n\npart",
        check="[(lambda a: [a.register_blueprint(x), a.test_client().get('/p/a').text])(flask.Flask('b'))][0][1] == 'a'",
        keeps="exact",
    ),
    Value(
        cls="flask.config.Config",
        make="app.config",
        check="x is app.config and x['A'] == [1] and x.get_namespace('SESSION_')",
        keeps="exact",
        note="the one of its application",
    ),
    Value(
        cls="flask.wrappers.Response",
        make="flask.Response('text', 201, {'A': 'b'})",
        check="x.status_code == 201 and x.get_data() == b'text' and x.headers['a'] == 'b'",
        keeps="exact",
    ),
    Value(
        cls="flask.testing.FlaskClient",
        make="client = app.test_client()\nclient",
        check="x.get('/hello/c').json['hello'] == 'c' and x.application is app",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.datastructures.structures.MultiDict",
        make="werkzeug.datastructures.MultiDict([('a', 1), ('a', 2)])",
        check="x.getlist('a') == [1, 2]",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.datastructures.headers.Headers",
        make="werkzeug.datastructures.Headers([('A', 'b')])",
        check="x['a'] == 'b'",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.routing.map.Map",
        make="werkzeug.routing.Map([werkzeug.routing.Rule('/a/<int:n>', endpoint='e')])",
        check="x.bind('site.test').match('/a/3') == ('e', {'n': 3})",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.test.EnvironBuilder",
        make="werkzeug.test.EnvironBuilder('/p', data={'a': '1'})",
        check="x.get_request().form['a'] == '1'",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.wrappers.request.Request",
        make="werkzeug.test.EnvironBuilder('/p?q=1').get_request()",
        check="x.args['q'] == '1' and x.path == '/p'",
        keeps="exact",
    ),
    Value(
        cls="werkzeug.local.LocalProxy",
        make="flask.current_app",
        check="x is flask.current_app",
        keeps="exact",
        note="the one that the module has",
    ),
]
