"""Text from traces and users, made fit to be shown."""


def printable(text: str) -> str:
    """Replace what could drive a terminal, turn its direction, or begin a line that only looks like ours."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str, characters_max: int = 160) -> str:
    """Leave out the middle of what is too long to look at: a path's beginning and its end say most."""
    if len(text) <= characters_max:
        return text
    head = characters_max // 3
    return f"{text[:head]} … {text[head + 3 - characters_max :]}"
