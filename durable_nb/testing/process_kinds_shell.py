"""Rows of the table of process state: what a notebook sets in IPython.

Used by `process_kinds` alone; data, nothing else.
"""

from __future__ import annotations

from durable_nb.testing.process_kinds import RESTORED, Kind

__all__ = ["SHELL"]

_I = "IPython"
_IP = "get_ipython()"

SHELL: tuple[Kind, ...] = (
    Kind(
        group=_I,
        what="line and cell magics that the notebook registered, by function or name",
        promise=RESTORED,
        makes="from IPython.core.magic import register_line_magic, register_cell_magic, register_line_cell_magic\n"
        "@register_line_magic\ndef twice(line):\n    return line * 2\n@register_cell_magic\ndef shout(line, cell):\n"
        "    return cell.upper()\n@register_line_cell_magic\ndef both(line, cell=None):\n    return cell is None\n"
        "del twice\nget_ipython().register_magic_function(lambda line: 'bare', 'line', 'bare')",
        holds=f"{_IP}.run_line_magic('twice', 'ab') == 'abab' and {_IP}.run_cell_magic('shout', '', 'x') == 'X'"
        f" and {_IP}.run_line_magic('both', '') is True and {_IP}.run_line_magic('bare', '') == 'bare'"
        f" and {_IP}.find_cell_magic('shout') is shout",
    ),
    Kind(
        group=_I,
        what="classes of magics that the notebook registered",
        promise=RESTORED,
        makes="from IPython.core.magic import Magics, magics_class, line_magic\n@magics_class\nclass Mine(Magics):\n"
        "    n = 0\n    @line_magic\n    def count(self, line):\n        self.n += 1\n        return self.n\n"
        "get_ipython().register_magics(Mine)\n_old = get_ipython().run_line_magic('count', '')",
        holds=f"{_IP}.find_line_magic('count').__self__.n >= 1 and {_IP}.run_line_magic('count', '') >= 2",
    ),
    Kind(
        group=_I,
        what="aliases (`%alias`, `%alias_magic`)",
        promise=RESTORED,
        makes="%alias greet echo hello %s\n%alias_magic tt timeit",
        holds=f"{_IP}.alias_manager.retrieve_alias('greet') == 'echo hello %s'"
        f" and {_IP}.find_line_magic('tt').magic_name == 'timeit'",
    ),
    Kind(
        group=_I,
        what="macros (`%macro`)",
        promise=RESTORED,
        makes="%macro -q again 1",
        holds="type(again).__name__ == 'Macro'",
    ),
    Kind(
        group=_I,
        what="display formatters of the notebook, functions with and without a name",
        promise=RESTORED,
        makes="class Shown:\n    pass\nget_ipython().display_formatter.formatters['text/html'].for_type("
        "Shown, lambda s: '<b>shown</b>')\ndef plain(o, p, cycle):\n    p.text('SHOWN')\n"
        "get_ipython().display_formatter.formatters['text/plain'].for_type(Shown, plain)",
        holds=f"{_IP}.display_formatter.format(Shown())[0] == {{'text/plain': 'SHOWN', 'text/html': '<b>shown</b>'}}",
    ),
    Kind(
        group=_I,
        what="extensions, and autoreload's mode",
        promise=RESTORED,
        makes="%load_ext autoreload\n%autoreload 2",
        holds=f"'autoreload' in ' '.join({_IP}.extension_manager.loaded) and "
        f"{_IP}.magics_manager.registry['AutoreloadMagics']._reloader.check_all",
    ),
    Kind(
        group=_I,
        what="callbacks of events (`events.register`)",
        promise=RESTORED,
        makes="log = []\ndef on_cell(*_):\n    log.append(1)\nget_ipython().events.register('post_run_cell', on_cell)\n"
        "class Counter:\n    n = 0\n    def before(self, info):\n        self.n += 1\n"
        "counter = Counter()\nget_ipython().events.register('pre_run_cell', counter.before)",
        holds=f"{_IP}.events.callbacks['post_run_cell'].count(on_cell) == 1 and "
        f"any(getattr(f, '__self__', None) is counter for f in {_IP}.events.callbacks['pre_run_cell'])",
    ),
    Kind(
        group=_I,
        what="input transformers",
        promise=RESTORED,
        makes="def dollar(lines):\n    return [l.replace('$$', '1') for l in lines]\n"
        "get_ipython().input_transformers_cleanup.append(dollar)\n"
        "get_ipython().input_transformers_post.append(dollar)",
        holds=f"{_IP}.input_transformers_cleanup[-1] is dollar and dollar in {_IP}.input_transformers_post",
    ),
    Kind(
        group=_I,
        what="transformers of syntax trees (`ast_transformers`)",
        promise=RESTORED,
        makes="import ast\nclass Same(ast.NodeTransformer):\n    def visit_Constant(self, node):\n        return node\n"
        "get_ipython().ast_transformers.append(Same())",
        holds=f"[type(t) for t in {_IP}.ast_transformers if type(t).__module__ == '__main__'] == [Same]",
    ),
    Kind(
        group=_I,
        what="handlers of exceptions (`set_custom_exc`)",
        promise=RESTORED,
        makes="class Own(Exception):\n    pass\ndef handle(shell, kind, value, tb, tb_offset=None):\n    print('own')\n"
        "get_ipython().set_custom_exc((Own,), handle)",
        holds=f"{_IP}.custom_exceptions == (Own,) and {_IP}.CustomTB('k', 'v', None) == []",
    ),
    Kind(
        group=_I,
        what="options of `%config` and what `%precision`, `%xmode`, `%pdb`, `%colors`, `%automagic` set",
        promise=RESTORED,
        makes="from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.ast_node_interactivity = 'all'\n%config Completer.use_jedi = False\n%precision 3\n"
        "%xmode Plain\n%automagic off\n%pdb on",
        holds=f"({_IP}.ast_node_interactivity, {_IP}.Completer.use_jedi, "
        f"{_IP}.display_formatter.formatters['text/plain'].float_precision, {_IP}.InteractiveTB.mode, "
        f"{_IP}.automagic, {_IP}.call_pdb) == ('all', False, '3', 'Plain', False, True)",
    ),
    Kind(
        group=_I,
        what="features of `from __future__ import …`, which IPython keeps on for later cells",
        promise=RESTORED,
        makes="from __future__ import annotations",
        holds=f"{_IP}.compile.flags & annotations.compiler_flag and "
        f"{_IP}.compile.ast_parse('def f(a: Undefined): pass') is not None",
    ),
    Kind(
        group=_I,
        what="`In`, `Out`, `_`, `_n`, `_in`, and the folders that `%cd` went through",
        promise=RESTORED,
        makes="40 + 2",
        holds="42 in Out.values() and '40 + 2' in In",
    ),
    Kind(
        group=_I,
        what="variables kept by `%store`",
        promise=RESTORED,
        makes="keepsake = 5\n%store keepsake",
        holds=f"{_IP}.db['autorestore/keepsake'] == 5",
        note="IPython itself keeps them on disk",
    ),
)
