"""A task of TotalSegmentator as an app of remote-app: `task.json` says which, and `weights/` has its networks.

The server starts it once, as `python3 main.py resident APP`, and gives it the jobs. One job alone is
`python3 main.py infer APP --output DIR --inputs SCAN`, and `python3 main.py fetch` downloads weights that are missing.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import cases
import resident

APP = Path(__file__).resolve().parent
TASK = cases.read_json(APP / "task.json")
WEIGHTS = APP / "weights"


def missing(networks):
    """Those of these networks of which a file is not there."""
    return [each for each in networks if not all((WEIGHTS / file).is_file() for file in each["files"])]


def need(mode):
    """Ends the program where weights are missing for `default` or `fast`."""
    folders = [each["folder"] for each in missing(TASK["networks"][mode])]
    if folders:
        sys.exit(f"The weights {', '.join(folders)} are missing in {WEIGHTS}: run '{sys.executable} main.py fetch' in {APP}")


def use_home(directory):
    """Gives the package a copy of the app's settings, because it writes into them; they say that no statistics are sent."""
    shutil.copyfile(APP / ".totalsegmentator" / "config.json", Path(directory) / "config.json")
    os.environ["TOTALSEG_HOME_DIR"] = str(directory)


class Segmenter:
    """TotalSegmentator, on the first GPU of the job or on the CPU."""

    def __init__(self, on_gpu, threads):
        if all(missing(networks) for networks in TASK["networks"].values()):
            need("default")
        os.environ["TOTALSEG_WEIGHTS_PATH"] = str(WEIGHTS)
        # nnU-Net starts processes for each network, which would repeat what PyTorch warns of.
        os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
        try:
            import torch
            from totalsegmentator.config import setup_nnunet

            setup_nnunet()  # before nnU-Net is imported, which reads where its weights are
            import totalsegmentator.nnunet  # noqa: F401: here, so that no job waits for it
            from totalsegmentator.python_api import totalsegmentator as segment
        except ModuleNotFoundError as error:
            sys.exit(cases.missing_module(error))
        if on_gpu:
            cases.check_gpu(torch)
        elif hasattr(os, "sched_setaffinity"):
            # On the CPU the package starts a thread for each processor of the machine.
            allowed = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, random.sample(allowed, min(threads, len(allowed))))
        # Starts the process with which Python follows those of nnU-Net. One that a job had started would count as left behind.
        multiprocessing.get_context("spawn").Lock()
        self.segment = segment
        self.device = "gpu" if on_gpu else "cpu"
        print(f"Loaded TotalSegmentator for {TASK['task']}", flush=True)

    def predict(self, file, output, fast):
        """Writes the labels of one volume."""
        import nibabel

        try:
            image = nibabel.load(file)
        except nibabel.filebasedimages.ImageFileError as error:
            raise ValueError(str(error)) from error
        # One process each for preparing and for saving: more of them take more memory, and no label changes.
        settings = {"ml": True, "nr_thr_resamp": 1, "nr_thr_saving": 1}
        self.segment(image, output, task=TASK["task"], fast=fast, device=self.device, **settings)


def infer(segmenter, options, output):
    """Writes `<case>.nii.gz` with the labels of each case, and `measurements.json`."""
    cases.check_groups(options.inputs, ["scan"])
    fast = cases.setting(options, "fast", "false") == "true"
    need("fast" if fast else "default")
    output.mkdir(parents=True, exist_ok=True)
    (volumes,) = options.inputs
    names = cases.case_names([cases.stem_of(each) for each in volumes])
    written = []
    for number, (name, volume) in enumerate(zip(names, volumes), start=1):
        print(f"Case {number}/{len(names)}: {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            use_home(scratch)
            file = cases.as_expected(volume, (".nii.gz", ".nii"), Path(scratch), 0)
            cases.check_together([volume], [file])
            labels = output / f"{name}.nii.gz"
            cases.guarded("TotalSegmentator", name, lambda: segmenter.predict(file, labels, fast))
        written.append((name, labels))
    cases.write_measurements(written, output)
    return [labels for _, labels in written]


def run(segmenter, arguments):
    """One job."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation", choices=["infer", "eval", "pipeline"])
    cases.add_arguments(parser)
    options = cases.parse(parser, arguments)
    if options.operation == "infer":
        infer(segmenter, options, options.output)
        return
    import evaluation

    regions = [(label, name, [label]) for label, name in cases.label_names().items()]
    if options.operation == "eval":
        evaluation.evaluate(options.inputs[0], options, options.output, regions)
        return
    evaluation.check_counts(options.inputs[0], options)
    written = infer(segmenter, options, options.output / "Predictions")
    if options.gt:
        evaluation.evaluate(written, options, options.output / "Evaluations", regions)


def remove_incomplete(folder):
    """Removes a directory of this app's `weights/` that lacks files: the package takes one that is there for whole."""
    shutil.rmtree(WEIGHTS / folder, ignore_errors=True)


def fetch():
    """Downloads the weights that are missing, by the package's own function."""
    os.environ["TOTALSEG_WEIGHTS_PATH"] = str(WEIGHTS)
    try:
        from totalsegmentator.libs import download_pretrained_weights
    except ModuleNotFoundError as error:
        sys.exit(cases.missing_module(error))
    wanted = {each["folder"]: each for networks in TASK["networks"].values() for each in missing(networks)}
    with tempfile.TemporaryDirectory() as home:
        use_home(home)
        for folder, network in wanted.items():
            remove_incomplete(folder)
            why = "files of it are missing in what was downloaded"
            try:
                download_pretrained_weights(network["id"])
            except Exception as error:
                why = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            if missing([network]):
                left = [each["url"] or f"{each['folder']} from where it was fetched with your licence" for each in missing(wanted.values())]
                sys.exit(f"{folder} could not be downloaded ({why}); on a machine without network unpack these into {WEIGHTS}: {', '.join(left)}")


def load():
    """Once, on the devices of the words that started the program."""
    options = cases.started_with()
    if options.operation == "eval":
        return None
    return Segmenter(bool(options.gpu), options.cpu)


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        fetch()
    else:
        resident.serve(load, run)
