"""Write counts for people."""


def counted(count: int, noun: str) -> str:
    """Join a count and its noun: 1 image, 2 images, 1,464 images, 0 classes, 3 entries."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"
