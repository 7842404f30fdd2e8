"""The one way in which text of others is shown to people: on one line, without characters that control a screen."""


def printable(text: str) -> str:
    r"""Return the text with all that is not visible escaped: control characters, line ends, marks of direction.

    Whatever a program shows to people passes here last, whoever wrote it.

    >>> printable("line 3: \x1b[2Jnot a number"), printable("a\nb \u202egnp.exe"), printable("Größe 7")
    ('line 3: \\x1b[2Jnot a number', 'a\\nb \\u202egnp.exe', 'Größe 7')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
