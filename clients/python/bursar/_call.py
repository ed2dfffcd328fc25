"""Packs the call of a function into the input of a job: the pickled call, and the code that it needs there."""

from __future__ import annotations

import inspect
import io
import pickle
import sys
import sysconfig
import types
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from ._folder import write_entry

#: The oldest protocol that has all we need. The Python of the system may be older than this one.
PROTOCOL = 4
MAX_MODULES_BYTES = 50_000_000


def pack_call(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], target: Path) -> None:
    """Writes the zip of a job that runs the call. Raises pickle.PicklingError if the call cannot be pickled."""
    cloudpickle = _import_cloudpickle()
    files: Dict[str, bytes] = {"main.py": Path(__file__).with_name("_runner.py").read_bytes()}
    if cloudpickle is not None:
        files["call.pickle"] = cloudpickle.dumps((function, args, kwargs), protocol=PROTOCOL)
        files.update(_module_files(_top_modules({"cloudpickle", function.__module__ or ""})))
    else:
        pickled, mains, modules = _pickle((function, args, kwargs))
        files["call.pickle"] = pickled
        if mains:
            files.update(_main_files(mains, modules))
        files.update(_module_files(_top_modules(modules)))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            write_entry(archive, name, files[name])


def _import_cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle


class _RecordingPickler(pickle.Pickler):
    """Records the functions and classes that the pickle names instead of containing them."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, PROTOCOL)
        self.mains: List[Any] = []
        self.modules: Set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, types.FunctionType)):
            module = getattr(value, "__module__", None)
            if module in ("__main__", "__mp_main__"):
                self.mains.append(value)
            elif module:
                self.modules.add(module)
        return NotImplemented


def _pickle(value: Any) -> Tuple[bytes, List[Any], Set[str]]:
    buffer = io.BytesIO()
    pickler = _RecordingPickler(buffer)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f"The call cannot be sent to the system: {error}. Lambdas, and functions inside of functions, need the package "
            "cloudpickle (pip install cloudpickle). Without it, use a function that is defined with def at the top of a "
            "script, a notebook or a module, and arguments that can be pickled."
        ) from error
    return buffer.getvalue(), pickler.mains, pickler.modules


def _main_files(mains: List[Any], modules: Set[str]) -> Dict[str, bytes]:
    """The code behind __main__: the script itself, or the sources of what a notebook has defined and the call uses."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None and not hasattr(main, "get_ipython") and Path(path).is_file():
        modules.update(_loaded_beside(Path(path).resolve().parent))
        return {"caller_main.py": Path(path).read_bytes()}
    sources, values = _collect_sources(mains, modules)
    pickled, _, more = _pickle(values)
    modules.update(more)
    return {"caller_main.py": "\n\n".join(sources).encode(), "caller_values.pickle": pickled}


def _collect_sources(mains: List[Any], modules: Set[str]) -> Tuple[List[str], Dict[str, Any]]:
    """Sources of functions and classes with everything that they use, imports first; and the values of variables."""
    imports: List[str] = []
    definitions: Dict[str, str] = {}
    values: Dict[str, Any] = {}
    namespace = vars(sys.modules["__main__"])
    pending = [getattr(value, "__qualname__", value.__name__).split(".")[0] for value in mains]
    seen: Set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in namespace:
            continue
        seen.add(name)
        value = namespace[name]
        if isinstance(value, types.ModuleType):
            imports.append(f"import {value.__name__} as {name}")
            modules.add(value.__name__)
        elif isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            definitions[name] = _source(value, name)
            pending.extend(_names_in(definitions[name]))
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and value.__module__:
            imports.append(f"from {value.__module__} import {value.__name__} as {name}")
            modules.add(value.__module__)
        else:
            values[name] = value
    # Names are found from the caller inward, so what a definition needs when it is executed comes first this way.
    return [*sorted(imports), *reversed(list(definitions.values()))], values


def _names_in(source: str) -> Set[str]:
    names: Set[str] = set()

    def visit(code: types.CodeType) -> None:
        names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                visit(constant)

    visit(compile(source, "<source>", "exec"))
    return names


def _source(value: Any, name: str) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(value)) + "\n"
    except (OSError, TypeError) as error:
        raise pickle.PicklingError(
            f"The source of {name} is not known here. Install cloudpickle, or put {name} into a module."
        ) from error


def _loaded_beside(folder: Path) -> Set[str]:
    """The modules that the program has loaded from the folder of its script: the script imports them again."""
    return {name for name, path in _loaded_sources() if folder in path.parents}


def _loaded_sources() -> Iterator[Tuple[str, Path]]:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name not in ("__main__", "__mp_main__") and isinstance(path, str) and path.endswith(".py"):
            yield name, Path(path).resolve()


def _top_modules(names: Set[str]) -> Set[str]:
    return {name.split(".")[0] for name in names} - {"", "__main__", "__mp_main__", "builtins"}


def _module_files(names: Set[str]) -> Dict[str, bytes]:
    """The sources of modules that the system will not have: those that are neither of Python itself nor installed."""
    files: Dict[str, bytes] = {}
    for name in names:
        path = _module_path(name)
        if path is None or (name != "cloudpickle" and _is_installed(path)):
            continue
        if path.name == "__init__.py":
            for file in sorted(path.parent.rglob("*.py")):
                files[f"modules/{name}/{file.relative_to(path.parent).as_posix()}"] = file.read_bytes()
        else:
            files[f"modules/{path.name}"] = path.read_bytes()
    size = sum(len(content) for content in files.values())
    if size > MAX_MODULES_BYTES:
        raise ValueError(f"The modules that the call needs have {size:,} bytes. Install them on the system instead.")
    return files


def _module_path(name: str) -> Optional[Path]:
    path = getattr(sys.modules.get(name), "__file__", None)
    return Path(path).resolve() if isinstance(path, str) and path.endswith(".py") else None


def _is_installed(path: Path) -> bool:
    folders = {Path(folder).resolve() for folder in sysconfig.get_paths().values()}
    return any(part in ("site-packages", "dist-packages") for part in path.parts) or any(
        folder in path.parents for folder in folders if folder.name.startswith("python")
    )
