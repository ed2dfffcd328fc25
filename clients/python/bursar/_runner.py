"""Runs one call of an Executor, as a job. This file is the main.py of the job: it imports nothing of this package.

It must work with every Python 3.7 or newer, because the system may have an older one than the caller.
"""

import os
import pickle
import sys
import traceback
import types
from typing import Any, Callable, Tuple


original_main = sys.modules["__main__"]


def load(folder: str, name: str) -> Any:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        return pickle.load(file)


def prepare_main(folder: str) -> None:
    """Defines what the call uses of the caller's script or notebook, in a module __main__ as there."""
    path = os.path.join(folder, "caller_main.py")
    if not os.path.exists(path):
        return
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    namespace = vars(module)
    namespace.update(load(folder, "values.pickle"))
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), namespace)
    namespace.update(load(folder, "instances.pickle"))


class MissingPackage(types.ModuleType):
    """Stands for the package bursar, which a module of the caller imports and the job does not need."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def fail(*_: Any, **__: Any) -> None:
            raise ImportError("The package bursar is not installed on this system, so a job cannot use it.")

        return type(name, (Exception,), {"__init__": fail})


def call(folder: str) -> Any:
    sys.path.insert(0, os.path.join(folder, "modules"))
    try:
        __import__("bursar")
    except ImportError:
        sys.modules["bursar"] = MissingPackage("bursar")
    prepare_main(folder)
    function, args, kwargs = load(folder, "call.pickle")
    return function(*args, **kwargs)


def dump_result(folder: str, result: Tuple[str, Any, str]) -> bytes:
    """A result that cannot be pickled becomes an error that says so."""
    dumps = pickle.dumps  # type: Callable[..., bytes]
    # Only if the caller has it too, and has sent it.
    if os.path.isdir(os.path.join(folder, "modules", "cloudpickle")):
        import cloudpickle

        dumps = cloudpickle.dumps
    try:
        return dumps(result, protocol=4)
    except Exception as error:
        if result[0] == "value":
            text = "The result of type %s cannot be sent back: %s" % (type(result[1]).__name__, error)
        else:
            text = "%s: %s" % (type(result[1]).__name__, result[1])
        return pickle.dumps(("text", text, result[2]), protocol=4)


def main() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        result = ("value", call(folder), "")  # type: Tuple[str, Any, str]
    except BaseException as error:
        result = ("error", error, traceback.format_exc())
    content = dump_result(folder, result)
    # A result that is cut off must not look like a result.
    with open("result.pickle.part", "wb") as file:
        file.write(content)
    os.rename("result.pickle.part", "result.pickle")
    if result[0] != "value":
        sys.stderr.write(result[2])
        sys.exit(1)


if __name__ == "__main__":
    main()
