"""Words that every room says in the same way."""


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: ``1 hole``, ``1,204 holes``. ``many`` is given where it is not ``one`` and an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
