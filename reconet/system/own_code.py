"""Import modules of the user: own datasets, contexts, backbones and networks.

Only the command line's --import and Python do this. No file that is opened can ask for it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

from reconet.errors import RecipeError, first_line, pick

# Names of modules and of files without their folders, which files may remember. And what imports
# the same in another process.
_imported: dict[str, str] = {}


def import_own(name: str) -> None:
    """Import a module by its name, or a file that ends in .py.

    The folder of the file, or the working directory, is searched last for what it imports itself.
    """
    path = Path(name)
    try:
        if path.suffix == ".py":
            _import_file(path)
        else:
            _search(Path.cwd())
            import_module(name)
    except RecipeError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise RecipeError(f"--import {name}: {describe_error(error)}") from error
    _imported[path.name] = str(path.resolve()) if path.suffix == ".py" else name


def find_own(place: str, flag: str) -> Callable[..., object]:
    """Import what FILE.py:NAME or MODULE:NAME names: a class, or a function."""
    source, _, name = place.rpartition(":")
    if not source or not name:
        raise RecipeError(f"{flag} {place}: name a file and what is in it, FILE.py:NAME.")
    import_own(source)
    module = sys.modules[Path(source).stem if source.endswith(".py") else source]
    table: dict[str, Callable[..., object]] = {
        key: value for key, value in vars(module).items() if callable(value)
    }
    return pick(table, name, f"class or function in {source}:")


def imported_names() -> tuple[str, ...]:
    """Return the names of all modules and files that were imported so, without their folders."""
    return tuple(_imported)


def imported_sources() -> tuple[str, ...]:
    """Return what another process has to import to know the same."""
    return tuple(_imported.values())


@contextmanager
def explain_missing_import(names: Iterable[str], source: object) -> Iterator[None]:
    """Add to an error that `source` was made with --import, if those modules are not imported."""
    missing = [name for name in names if name not in _imported]
    try:
        yield
    except RecipeError as error:
        if not missing:
            raise
        options = " ".join(f"--import {name}" for name in missing)
        raise RecipeError(f"{error} {source} was made with {options}: add that.") from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise RecipeError(f"--import {path}: there is no such file.")
    name, place = path.stem, str(path.resolve())
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == place:
            return
        raise RecipeError(f"--import {path}: there is another module {name!r}; rename the file.")
    _search(path.resolve().parent)  # so that worker processes find it by its name
    spec = spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def describe_error(error: Exception) -> str:
    """Describe an error of the user's code in one line, with the line that raised it."""
    frame = extract_tb(error.__traceback__)[-1]
    place = "" if "importlib" in frame.filename else f" ({frame.filename}, line {frame.lineno})"
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
        return f"SyntaxError: {error.msg}{place}."
    return f"{type(error).__name__}: {first_line(error)}{place}."
