"""Makes an app resident: the server starts it once, it loads its model once, and then it runs job after job.

    import resident

    def load():                  # once: returns the model
    def run(model, arguments):   # for each job: `arguments` is what sys.argv[1:] is

    if __name__ == "__main__":
        resident.serve(load, run)

The same program still runs one job from its command line. Needs Python 3.8 and nothing else. What the server and this
file say to each other: docs/resident.md of remote-app.
"""

import gc
import json
import os
import sys
import tempfile
import traceback


def serve(load, run):
    """Runs the job of the command line, or each job that comes where the server started the program with `resident`.

    A job succeeds when `run` returns. sys.exit ends the job alone, with that exit code; an exception ends it with 1, and
    its traceback is in the log. A process that `run` forks ends where the job would.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if sys.argv[1:2] != ["resident"]:
        run(load(), sys.argv[1:])
        return
    jobs, answers = _open_channels()
    model = load()
    own = os.getpid()
    _answer(answers, {"ready": True})
    for line in jobs:  # until the server closes it
        job = json.loads(line)
        exit_code = _run_job(run, model, job)
        if os.getpid() != own:  # a child that the job has forked: it has no part in the jobs
            sys.exit(exit_code)
        _answer(answers, {"job": job["job"], "exit_code": exit_code})
        gc.collect()  # now, while nobody waits for it


def _open_channels():
    """Where the jobs come from and the answers go. Nothing else can use them: not the app, and no process that it starts."""
    name = os.environ.pop("REMOTE_APP_ANSWERS", "")
    if not name:
        sys.exit("Only the server starts this program with `resident`. By hand it runs one job: infer APP --output ...")
    answers = os.open(name, os.O_WRONLY)
    if name.startswith("/dev/fd/"):
        os.close(int(name[len("/dev/fd/") :]))
    jobs = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # the app's stdin
    os.close(empty)
    channels = [answers, jobs.fileno()]

    def close_in_child():
        while channels:
            os.close(channels.pop())

    os.register_at_fork(after_in_child=close_in_child)
    return jobs, answers


def _run_job(run, model, job):
    """Runs one job in its directory and environment, and puts back what was there before. Returns its exit code."""
    directory, environment = os.getcwd(), dict(os.environ)
    words, streams = sys.argv, (sys.stdout, sys.stderr)
    try:
        os.chdir(job["directory"])
        os.environ.update(job["environment"])
        tempfile.tempdir = None  # Python looks it up again, in this job's TMPDIR
        sys.argv = [words[0], *job["arguments"]]
        run(model, job["arguments"])
        end = 0
    except SystemExit as exit:
        end = exit.code
    except BaseException:  # also KeyboardInterrupt and asyncio.CancelledError: the job has raised it
        end = traceback.format_exc()
    _flush()  # also what the job has put in the place of the streams
    sys.argv, (sys.stdout, sys.stderr) = words, streams
    exit_code = _exit_code(end)
    _flush()
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    os.chdir(directory)
    return exit_code


def _exit_code(end):
    """What Python does with the value of sys.exit: a text goes to stderr, and the exit code is 1."""
    if end is None:
        return 0
    if isinstance(end, int):
        return end & 0xFF
    print(str(end).rstrip("\n"), file=sys.stderr)
    return 1


def _flush():
    """All that was printed is in the log before the answer is sent, also what a library in C has printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, or none at all
            pass
    try:
        import ctypes

        ctypes.CDLL(None).fflush(None)
    except (ImportError, OSError, AttributeError):
        pass


def _answer(answers, value):
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]
