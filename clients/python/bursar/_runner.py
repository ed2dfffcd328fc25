"""Runs one call of an Executor, as a job. This file is the main.py of the job: it imports nothing of this package.

It must work with every Python 3.6 or newer, because the system may have an older one than the caller.
"""

import os
import pickle
import runpy
import sys
import traceback
import types
from typing import Any, Callable, Tuple


def prepare_main(folder: str) -> None:
    """Makes the names of the caller's script or notebook available as __main__, as multiprocessing does."""
    path = os.path.join(folder, "caller_main.py")
    if not os.path.exists(path):
        return
    # The name is not "__main__", so that a script does not start again.
    content = runpy.run_path(path, run_name="__mp_main__")
    module = types.ModuleType("__mp_main__")
    module.__dict__.update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def add_values(folder: str) -> None:
    """The values of a notebook's variables that the function uses."""
    path = os.path.join(folder, "caller_values.pickle")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        values = pickle.load(file)
    vars(sys.modules["__main__"]).update(values)
    for value in list(vars(sys.modules["__main__"]).values()):
        if isinstance(value, types.FunctionType) and value.__module__ in ("__main__", "__mp_main__"):
            value.__globals__.update(values)


def call(folder: str) -> Any:
    sys.path.insert(0, os.path.join(folder, "modules"))
    prepare_main(folder)
    add_values(folder)
    with open(os.path.join(folder, "call.pickle"), "rb") as file:
        function, args, kwargs = pickle.load(file)
    return function(*args, **kwargs)


def dump_result(result: Tuple[str, Any, str]) -> bytes:
    """A result that cannot be pickled becomes an error that says so."""
    dumps = pickle.dumps  # type: Callable[..., bytes]
    try:
        import cloudpickle

        dumps = cloudpickle.dumps
    except ImportError:
        pass
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
    content = dump_result(result)
    # A result that is cut off must not look like a result.
    with open("result.pickle.part", "wb") as file:
        file.write(content)
    os.rename("result.pickle.part", "result.pickle")
    if result[0] != "value":
        sys.stderr.write(result[2])
        sys.exit(1)


if __name__ == "__main__":
    main()
