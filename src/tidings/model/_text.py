"""Text that can leave this process."""


def encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form; a lone surrogate has none, and no engine could hold it."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
