"""Packs the call of a function into the input of a job: the pickled call, and the code that it needs there."""

from __future__ import annotations

import __future__
import inspect
import io
import pickle
import sys
import sysconfig
import textwrap
import types
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ._folder import write_entry

#: The oldest protocol that has all we need. The Python of the system may be older than this one.
PROTOCOL = 4
MAX_MODULES_BYTES = 50_000_000


def pack_call(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], target: Path) -> None:
    """Writes the zip of a job that runs the call. Raises pickle.PicklingError if the call cannot be pickled."""
    files: Dict[str, bytes] = {"main.py": Path(__file__).with_name("_runner.py").read_bytes()}
    pickled = _pickle((function, args, kwargs))
    files["call.pickle"] = pickled.content
    modules = set(pickled.modules)
    if pickled.main_names:
        main = _MainCode(modules)
        for name in pickled.main_names:
            main.add(name)
        files.update(main.files())
    files.update(_module_files({name.split(".")[0] for name in modules}))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            write_entry(archive, name, files[name])


class _Pickled(NamedTuple):
    content: bytes
    #: The pickle has only the names of these, not their code: names of __main__, and other modules.
    main_names: List[str]
    modules: Set[str]


def _pickle(value: Any) -> _Pickled:
    """Pickles by cloudpickle, if it is installed. The job then gets cloudpickle as well."""
    main_names: List[str] = []
    modules: Set[str] = set()
    base, is_cloud = _pickler_class()

    class Recorder(base):  # type: ignore[misc, valid-type]
        def reducer_override(self, item: Any) -> Any:
            module = item.__name__ if isinstance(item, types.ModuleType) else _defining_module(item)
            if module != "__main__":
                modules.add(module or "")
            # cloudpickle packs functions and classes, but not the objects that decorators make of them.
            elif not is_cloud or not isinstance(item, (type, types.FunctionType)):
                main_names.append(item.__qualname__.split(".")[0])
            return super().reducer_override(item) if is_cloud else NotImplemented

    buffer = io.BytesIO()
    try:
        Recorder(buffer, PROTOCOL).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(f"The call cannot be sent to the system: {error}. {_advice(is_cloud)}") from error
    return _Pickled(buffer.getvalue(), main_names, modules | ({"cloudpickle"} if is_cloud else set()))


def _pickler_class() -> Tuple[Any, bool]:
    try:
        import cloudpickle
    except ImportError:
        return pickle.Pickler, False
    return cloudpickle.Pickler, True


def _advice(is_cloud: bool) -> str:
    if is_cloud:
        return "Use arguments and variables that can be pickled."
    return (
        "Lambdas, and functions inside of functions, need the package cloudpickle (pip install cloudpickle). Without it, use "
        "a function that is defined with def at the top of a script, a notebook or a module, and arguments that can be pickled."
    )


class _MainCode:
    """The code behind __main__ that a call uses: sources of functions and classes, imports, and values of variables.

    Not the whole script: it would import this package and start its jobs again.
    """

    def __init__(self, modules: Set[str]) -> None:
        self._modules = modules
        self._namespace = vars(sys.modules["__main__"])
        self._seen: Set[str] = set()
        self._sources: List[str] = []
        self._values: Dict[str, Any] = {}
        self._instances: Dict[str, Any] = {}

    def add(self, name: str) -> None:
        """Adds a name after everything that it uses, because decorators, bases and defaults are needed at its definition."""
        if name in self._seen or name not in self._namespace:
            return
        self._seen.add(name)
        value = self._namespace[name]
        if isinstance(value, types.ModuleType):
            self._add_import(
                value.__name__, f"import {value.__name__}", f"{name} = __import__('sys').modules[{value.__name__!r}]"
            )
        elif _defining_module(value) == "__main__":
            source = _source(value, name)
            for used in sorted(_names_in(source)):
                self.add(used)
            self._add_submodules(source)
            self._sources.append(source if value.__name__ == name else f"{source}{name} = {value.__name__}")
        elif _defining_module(value) == "builtins":
            self._sources.append(f"from builtins import {value.__name__} as {name}")
        elif _defining_module(value) is not None and "." not in value.__qualname__:
            self._add_import(value.__module__, f"from {value.__module__} import {value.__name__} as {name}")
        else:
            self._add_value(name, value)

    def _add_import(self, module: str, *lines: str) -> None:
        self._modules.add(module)
        self._sources.append("\n".join(lines))

    def _add_submodules(self, source: str) -> None:
        """`import a.b` binds only `a`: the code uses `b` as its attribute, which exists only if `a.b` was imported."""
        names = _names_in(source)
        for name in sorted(names):
            module = self._namespace.get(name)
            if isinstance(module, types.ModuleType):
                found = [f"{module.__name__}.{other}" for other in sorted(names)]
                self._sources.extend(f"import {full}" for full in found if full in sys.modules)

    def _add_value(self, name: str, value: Any) -> None:
        pickled = _pickle(value)
        self._modules.update(pickled.modules)
        for used in pickled.main_names:
            self.add(used)
        (self._instances if pickled.main_names else self._values)[name] = value

    def files(self) -> Dict[str, bytes]:
        # Annotations stay texts: they may use names that exist only for a type checker.
        lines = ["from __future__ import annotations", *self._sources]
        return {
            "caller_main.py": ("\n\n".join(lines) + "\n").encode(),
            "values.pickle": _pickle(self._values).content,
            "instances.pickle": _pickle(self._instances).content,
        }


def _defining_module(value: Any) -> Optional[str]:
    """The module in which a function or a class has its name. None for any other value.

    A decorator such as lru_cache returns an object that has the name of its function.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return module if found is value else None


def _names_in(source: str) -> Set[str]:
    names: Set[str] = set()

    def visit(code: types.CodeType) -> None:
        names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                visit(constant)

    visit(compile(source, "<source>", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True))
    return names


def _source(value: Any, name: str) -> str:
    try:
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError) as error:
        raise pickle.PicklingError(
            f"The source of {name} is not known here. Install cloudpickle, or put {name} into a module."
        ) from error


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
