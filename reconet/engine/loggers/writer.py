"""What a logger is given, and what it can do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reconet.recipes.schema import Recipe
from reconet.types import Image


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run that is recorded elsewhere too."""

    directory: Path
    recipe: Recipe  # without paths of this machine
    record: str | None  # the id of its record, if it has one already

    @property
    def name(self) -> str:
        """Return the name of the run for people."""
        return self.directory.absolute().name


class Writer(Protocol):
    """An open record. It leaves out values that it has already: a resumed run sends them again."""

    @property
    def record(self) -> str:
        """Return the id of the record, by which a resumed run finds it again."""
        ...

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""

    def add_image(self, name: str, image_hwc: Image, step: int) -> None:
        """Add one image."""

    def close(self, *, failed: bool) -> None:
        """Finish the record. A resumed run opens it again."""
