"""How an answer's text becomes what the reader sees."""

from __future__ import annotations

from tests.browser.reader import Reader, until
from tests.browser.scripted import ScriptedServer, answer

READ_BLOCKS = """
const flat = ({ kind, language, text, pieces }) =>
  kind === "code"
    ? `<${language}>${text}`
    : pieces.map((piece) => (piece.kind === "inline" ? `[${piece.text}]` : piece.text)).join("");
return import("/markup.js").then(({ blocksOf }) => blocksOf(arguments[0]).map(flat));
"""

BLOCKS = {
    "plain": ("two  spaces\n\n\tand a tab", ["two  spaces\n\n\tand a tab"]),
    "code": ("a\n\n```python\nx = 1\n\ny\n```\n\nb", ["a", "<python>x = 1\n\ny", "b"]),
    "unclosed": ("```\nx", ["<>x"]),
    "tildes": ("~~~ sh -e\nls ``` \n~~~", ["<sh>ls ``` "]),
    "longer fence": ("````\n```\nx\n```\n````", ["<>```\nx\n```"]),
    "in a list": ("1. a\n   ```c\n   int x;\n     y\n   ```", ["1. a", "<c>int x;\n  y"]),
    "not a fence": ("```inline``` words", ["[inline] words"]),
    "inline": ("use `a b` and ``c ` d`` and `e", ["use [a b] and [c ` d] and `e"]),
    "inline on one line": ("a ` b\nc ` d", ["a ` b\nc ` d"]),
    "only backticks": ("`` ```` `", ["`` ```` `"]),
    "nothing": (" \n", []),
    "two blocks": ("```\na\n```\n```\nb\n```", ["<>a", "<>b"]),
}


def test_code_is_found_and_everything_else_stays_as_it_is(play_reader: Reader) -> None:
    read = {name: play_reader.run(READ_BLOCKS, text) for name, (text, _) in BLOCKS.items()}
    assert read == {name: blocks for name, (_, blocks) in BLOCKS.items()}


def test_an_answer_never_becomes_markup(play_reader: Reader, scripted: ScriptedServer) -> None:
    hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script> &amp; `<b>` **bold**'
    scripted.plan(answer(hostile, f"\n```html\n{hostile}\n```"))
    play_reader.send(hostile)
    play_reader.growth()
    assert play_reader.text(".question .words") == hostile
    assert play_reader.text(".prose") == hostile.replace("`", "")
    assert play_reader.text(".block code") == hostile
    assert play_reader.all("main img, main script, main b") == []
    assert play_reader.complaints() == []


def test_code_grows_in_place(play_reader: Reader, scripted: ScriptedServer) -> None:
    pieces = ["Look:\n", "`", "``", "py", "thon\n", "a = 1\n", "b = 2\n", "``", "`", "\nDone."]
    scripted.plan(answer(*pieces))
    play_reader.run(
        "window.seen = new Set();"
        "new MutationObserver(() => document.querySelectorAll('pre')"
        ".forEach((pre) => seen.add(pre))).observe(document.body, {childList: true, subtree: true})"
    )
    play_reader.send("Show me")
    states = play_reader.growth()
    assert play_reader.run("return seen.size") == 1
    assert not any("`" in state for state in states)
    assert play_reader.text(".language") == "python"
    assert play_reader.text(".block code") == "a = 1\nb = 2"
    assert play_reader.text(".prose") == "Look:\nDone."


def test_copy_puts_the_code_on_the_clipboard(play_reader: Reader, scripted: ScriptedServer) -> None:
    play_reader.tell(
        "Browser.grantPermissions",
        origin=play_reader.origin,
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
    )
    scripted.plan(answer("```\na\n  b\n```"))
    play_reader.send("Show me")
    play_reader.growth()
    play_reader.click(".block button")
    until(lambda: play_reader.text(".block button") == "Copied code", what="Copied")
    assert play_reader.run("return navigator.clipboard.readText()") == "a\n  b"
    until(lambda: play_reader.text(".block button") == "Copy code", what="Copy")


def test_without_a_clipboard_copy_selects_the_code(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("```\na\n  b\n```"))
    play_reader.send("Show me")
    play_reader.growth()
    play_reader.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    play_reader.click(".block button")
    until(lambda: play_reader.text(".block button") == "Selected code", what="Selected")
    assert play_reader.run("return getSelection().toString()") == "a\n  b"
