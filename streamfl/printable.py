"""The one way in which text of others is shown to people: on one line, without characters that control a screen."""

from unicodedata import category

# Join letters or keep them apart: Persian and the scripts of India are written with them.
JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    r"""Return the text with all that is not visible escaped: control characters, line ends, marks of direction.

    Spaces of any kind become plain ones; what joins letters stays between letters. Whatever a program shows to people
    passes here last, whoever wrote it.

    >>> printable("line 3: \x1b[2Jnot a number"), printable("a\nb \u202egnp.exe"), printable("Größe 7")
    ('line 3: \\x1b[2Jnot a number', 'a\\nb \\u202egnp.exe', 'Größe 7')
    >>> printable("10\xa0kg"), printable("a\u200c"), printable("می\u200cخواهم") == "می\u200cخواهم"
    ('10 kg', 'a\\u200c', True)
    """
    if text.isprintable():
        return text
    return "".join(_shown(text, at) for at in range(len(text)))


def _shown(text: str, at: int) -> str:
    character = text[at]
    if character.isprintable():
        return character
    if category(character) == "Zs":
        return " "
    if character in JOINERS and 0 < at < len(text) - 1 and _are_of_letters(text[at - 1] + text[at + 1]):
        return character
    return character.encode("unicode_escape").decode("ascii")


def _are_of_letters(characters: str) -> bool:
    """Tell whether characters are letters or marks on letters."""
    return all(category(character)[0] in "LM" for character in characters)
