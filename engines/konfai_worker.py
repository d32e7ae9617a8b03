"""
KonfAI's engine, loaded once: `remote-app serve --engine-resident` starts `PYTHON konfai_worker.py resident --gpu 0` (or
`--cpu 4`) with the Python of `konfai-apps`. What the server and this file say to each other: docs/resident.md.

KonfAI and PyTorch are imported once. Each job then runs in a process that is forked from this one, and does there what
`konfai-apps` does with the same arguments. So a job finds KonfAI as a fresh start does, whatever earlier jobs have
changed (modules of their apps, random generators, settings of PyTorch), and a job that crashes takes nothing with it.
CUDA is first used in the forked process: between two jobs no GPU memory is held.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings

#: What the operations import when they run, as far as it is installed.
_LATER = ("konfai.predictor", "konfai.evaluator", "konfai.trainer", "konfai.utils.dicom", "zarr")

#: Variables that belong to one job, and that nothing reads when it is imported.
_OF_JOB = ("TMPDIR", "HOME", "PWD", "KONFAI_APPS_REFUSAL_FILE")

_PR_SET_PDEATHSIG = 1

_child = 0


def _answer(answers, value):
    os.write(answers, json.dumps(value).encode() + b"\n")


def _stop(number, _frame):
    """SIGTERM: the job ends as it does without this process, which then ends as well."""
    if _child:
        os.kill(_child, number)
        os.waitpid(_child, 0)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _packages():
    """When something was last installed in, or removed from, the directories that modules come from."""
    return {place: os.stat(place).st_mtime_ns for place in sys.path if os.path.isdir(place)}


def _reason_to_start_anew(environment, packages):
    """Why what was imported is not what this job needs; empty if it is."""
    changed = [
        name
        for name, value in environment.items()
        if name not in _OF_JOB and not name.startswith("REMOTE_APP_") and os.environ.get(name) != value
    ]
    if changed:
        return f"{', '.join(changed)} differ from what it was loaded with"
    if _packages() != packages:
        return "packages were installed or removed since it was loaded"
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        return "it has used the GPU when it was loaded"
    return ""


def _run(arguments, environment, reason):
    """Does what the command does, in the job's own process. Returns the exit code."""
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = ["konfai-apps", *arguments]
    if reason:
        print(f"The loaded engine is not used: {reason}", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "konfai_apps", *arguments])
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()  # a fresh start is seeded by the system; Python's own generator sees to that itself
    try:
        importlib.import_module("konfai_apps.cli").main_apps()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _in_child(job, channels, parent, packages):
    """The whole life of a job's process: it ends here."""
    exit_code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before that
            os._exit(1)
        for channel in channels:
            os.close(channel)
        os.chdir(job["directory"])
        reason = _reason_to_start_anew(job["environment"], packages)
        exit_code = _run(job["arguments"], job["environment"], reason)
        # What the end of Python does, but for the release of every object, which takes a second after a fork.
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        ctypes.CDLL(None).fflush(None)
        os._exit(exit_code)


def _fork():
    with warnings.catch_warnings():
        # Python 3.12 and later warn of threads. Those of OpenBLAS, which numpy starts, are made for a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _open_channels():
    """Where the jobs come from and the answers go; stdin is empty from then on."""
    name = os.environ.pop("REMOTE_APP_ANSWERS", "")
    if not name:
        sys.exit("Only the server starts this program: remote-app serve --engine-resident")
    answers = os.open(name, os.O_WRONLY)
    if name.startswith("/dev/fd/"):
        os.close(int(name[len("/dev/fd/") :]))
    jobs = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return jobs, answers


def main():
    global _child
    jobs, answers = _open_channels()
    sys.path[0] = os.path.dirname(sys.executable)  # where `konfai-apps` is
    importlib.import_module("konfai_apps.cli")
    importlib.import_module("konfai_apps.app")
    for name in _LATER:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not there, or another version of KonfAI
            pass
    packages = _packages()
    gc.collect()
    gc.freeze()  # what is there now is shared with the forked processes, which look at none of it again
    signal.signal(signal.SIGTERM, _stop)
    _answer(answers, {"ready": True})
    for line in jobs:
        job = json.loads(line)
        parent = os.getpid()
        pid = _fork()
        if pid == 0:
            _in_child(job, (answers, jobs.fileno()), parent, packages)
        _child = pid
        _, status = os.waitpid(pid, 0)
        _child = 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        _answer(answers, {"job": job["job"], "exit_code": code})


if __name__ == "__main__":
    main()
