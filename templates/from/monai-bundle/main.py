"""A bundle of MONAI as an app of remote-app: `bundle/` has its configuration, its code and its weights.

The server starts it once, as `python3 main.py resident APP`, and gives it the jobs. One job alone is
`python3 main.py infer APP --output DIR --inputs SCAN`, with one `--inputs` for each channel.
"""

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import cases
import resident
from cases import read_json, refuse

APP = Path(__file__).resolve().parent
BUNDLE = APP / "bundle"


def parts(config, *names):
    """The parts of a configuration that make an object of one of these classes of MONAI."""
    if isinstance(config, dict) and str(config.get("_target_")).rpartition(".")[2] in names:
        yield config
    values = config.values() if isinstance(config, dict) else config if isinstance(config, list) else ()
    for value in values:
        yield from parts(value, *names)


class Certainty:
    """Stands before the transform that makes labels, and keeps how probable the network finds what that decides."""

    def __init__(self, threshold):
        self.threshold = threshold  # None: the most probable channel wins

    def __call__(self, data):
        probable = data["pred"]
        if self.threshold is None:
            self.map = probable.amax(0)
        else:
            self.map = probable.where(probable >= self.threshold, 1 - probable).amin(0)
        return data


class Bundle:
    """The bundle with its network, on the first GPU of the job or on the CPU."""

    def __init__(self, on_gpu, threads):
        # As for `python -m monai.bundle run`, which is started in the bundle; the modules of the app come first.
        sys.path.insert(1, str(BUNDLE))
        try:
            import ignite  # noqa: F401: MONAI says of it only that something is missing
            import nibabel  # noqa: F401: the same
            import torch
            from monai.bundle import ConfigParser
        except ModuleNotFoundError as error:
            sys.exit(cases.missing_module(error))
        if on_gpu:
            cases.check_gpu(torch)
        else:
            torch.set_num_threads(threads)
        self.parser_of = ConfigParser
        self.device = torch.device("cuda:0" if on_gpu else "cpu")
        [self.name] = read_json(APP / "app.json")["models"]
        weights = BUNDLE / "models" / self.name
        if not weights.is_file():
            sys.exit(f"The weights {self.name} are missing in {weights.parent}: copy them there, or run 'remote-app init' again")
        config = self.config()
        [loader] = parts(config, "CheckpointLoader")
        loader.update(load_path=str(weights), map_location=self.device, _disabled_=False)
        config["checkpoint_of_app"] = loader
        parser = ConfigParser(config)
        try:
            evaluator = parser.get_parsed_content("evaluator")
            parser.get_parsed_content("checkpoint_of_app")(evaluator)
        except Exception as error:
            sys.exit(cannot_load(error))
        self.network = evaluator.network
        self.settings = {}
        print(f"Loaded {self.name} of {read_json(BUNDLE / 'configs' / 'metadata.json').get('name', 'the bundle')}", flush=True)

    def config(self):
        """The configuration of the bundle's inference, as its file has it, for this device, with no data."""
        [file] = (BUNDLE / "configs").glob("inference.*")
        config = self.parser_of.load_config_file(file)
        config["_meta_"] = read_json(BUNDLE / "configs" / "metadata.json")
        config.update(bundle_root=str(BUNDLE), device=self.device)
        evaluator = config["evaluator"]
        # Handlers load weights and write reports; metrics need the truth.
        for name in ("key_val_metric", "additional_metrics", "val_handlers"):
            evaluator.pop(name, None)
        evaluator.update(device=self.device, val_data_loader=[], epoch_length=1)
        if self.device.type == "cpu":
            evaluator["amp"] = False  # mixed precision is for CUDA alone, and MONAI warns of it elsewhere
        return config

    def prepare(self, options):
        """Sets what this job asked for."""
        patch = read_json(APP / "app.json").get("patch_size")
        if options.patch_size and options.patch_size != patch:
            told = f"is {' '.join(map(str, patch))}" if patch else "is its own"
            refuse(f"The patch size of this network {told}, as it was trained: leave --patch-size out")
        for name in options.ensemble_models:
            if Path(name).name != self.name:
                refuse(f"{name} is no checkpoint of this app; it has {self.name}")
        if options.uncertainty and not (APP / "Uncertainty.yml").is_file():
            refuse("This bundle has no probabilities on the grid of the scan: leave --uncertainty out")
        self.settings = {}
        for name, convert in (("overlap", float), ("sw_batch_size", int)):
            value = cases.setting(options, name, None)
            if value is not None:
                self.settings[name] = convert(value)

    def predict(self, files, scratch, with_certainty):
        """Returns the file with the labels of one case, and how certain the network is of them where that is wanted."""
        config = self.config()
        file = str(files[0]) if len(files) == 1 else [str(each) for each in files]
        dataset = {"_target_": "monai.data.Dataset", "data": [{"image": file}], "transform": "@preprocessing"}
        loader = {"_target_": "monai.data.DataLoader", "dataset": dataset, "batch_size": 1, "num_workers": 0}
        config["evaluator"].update(val_data_loader=loader, network=self.network)
        [saver] = parts(config["postprocessing"], "SaveImaged")
        for name in ("folder_layout", "output_name_formatter", "data_root_dir"):
            saver.pop(name, None)
        saver.update(output_dir=str(scratch), output_postfix="", output_ext=".nii.gz", separate_folder=False, print_log=False)
        for inferer in parts(config, "SlidingWindowInferer", "SlidingWindowInfererAdapt", "SliceInferer"):
            inferer.update(self.settings, progress=True)
        certainty = None
        if with_certainty:
            transforms = config["postprocessing"]["transforms"]
            discrete = next(parts(transforms, "AsDiscreted"))
            certainty = Certainty(None if discrete.get("argmax") else discrete["threshold"])
            transforms.insert(transforms.index(discrete), certainty)
        evaluator = self.parser_of(config).get_parsed_content("evaluator")
        try:
            evaluator.run()
        except Exception as error:
            raise readable(error) from error
        [labels] = scratch.glob("*.nii.gz")
        return labels, certainty and certainty.map.cpu().numpy()


def origins(error):
    """An error, and those that led to it."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def cannot_load(error):
    """Why the network is not loaded: a module that the code of the bundle imports, or whatever else it meets."""
    for each in origins(error):
        if isinstance(each, ModuleNotFoundError):
            return f"{cases.missing_module(each)}; if requirements.txt lacks its package, add it first"
    traceback.print_exception(error)
    return f"The bundle cannot be loaded: {type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"


def readable(error):
    """What went wrong: MONAI tells of the transform around it."""
    *_, error = origins(error)
    if isinstance(error, (MemoryError, RuntimeError, OSError)):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def check_readable(volume, file):
    """Refuses what is no NIfTI: MONAI would tell of all its readers."""
    import nibabel

    try:
        nibabel.load(file)
    except (nibabel.filebasedimages.ImageFileError, OSError, EOFError, ValueError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[-1].replace(str(file), volume.name)
        refuse(f"{volume.name} cannot be read: convert it, or export it again ({why})")


def write_map(values, like, file):
    """Writes a value for each voxel, on the grid of a file of labels."""
    import nibabel

    labels = nibabel.load(like)
    image = nibabel.Nifti1Image(values.astype("float32").reshape(labels.shape), labels.affine)
    nibabel.save(image, file)


def infer(bundle, options, output):
    """Writes `<case>.nii.gz` with the labels of each case, `<case>_stack.nii.gz` where it is wanted, and `measurements.json`."""
    cases.check_groups(options.inputs, [each["display_name"] for each in read_json(APP / "app.json")["inputs"].values()])
    bundle.prepare(options)
    output.mkdir(parents=True, exist_ok=True)
    names = cases.case_names([cases.stem_of(each) for each in options.inputs[0]])
    written = []
    for number, (name, *volumes) in enumerate(zip(names, *options.inputs), start=1):
        print(f"Case {number}/{len(names)}: {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            files = [cases.as_expected(each, (".nii.gz", ".nii"), Path(scratch), at) for at, each in enumerate(volumes)]
            for volume, file in zip(volumes, files):
                check_readable(volume, file)
            cases.check_together(volumes, files)
            place = Path(scratch) / "result"
            place.mkdir()
            found, certain = cases.guarded("MONAI", name, lambda: bundle.predict(files, place, options.uncertainty))
            labels = Path(shutil.move(found, output / f"{name}.nii.gz"))
        stack = None
        if options.uncertainty:
            stack = output / f"{name}_stack.nii.gz"
            write_map(certain, labels, stack)
        written.append((name, labels, stack))
    cases.write_measurements([(name, labels) for name, labels, _ in written], output)
    return written


def uncertainty(stacks, output):
    """Writes how uncertain the network is of each voxel, which is 1 less the probability of its label; and `Uncertainty.json`."""
    import evaluation
    import numpy
    import SimpleITK

    output.mkdir(parents=True, exist_ok=True)
    found = []
    for file in stacks:
        image = evaluation.read(file)
        if image.GetNumberOfComponentsPerPixel() > 1:
            refuse(f"{file.name} has {image.GetNumberOfComponentsPerPixel()} values in each voxel: give a stack of this app")
        values = 1 - SimpleITK.GetArrayFromImage(image).astype(numpy.float32)
        result = SimpleITK.GetImageFromArray(values)
        result.CopyInformation(image)
        name = cases.stem_of(file).removesuffix("_stack")
        SimpleITK.WriteImage(result, str(output / f"{name}_uncertainty.nii.gz"), useCompression=True)
        found.append({"case": name, "mean": float(values.mean()), "max": float(values.max())})
        print(f"{name}: mean {values.mean():.5f}, greatest {values.max():.4f}", flush=True)
    evaluation.write(output / "Uncertainty.json", {"cases": found})


def regions():
    """For each label of the results its value, its name, and the values that count as it."""
    names = cases.label_names()
    if not names:
        refuse("This app does not know the names of its labels: add a 'terminology' to its app.json")
    return [(label, name, [label]) for label, name in names.items()]


def run(bundle, arguments):
    """One job."""
    options = parse(arguments)
    if options.operation == "infer":
        infer(bundle, options, options.output)
        return
    import evaluation

    if options.operation == "eval":
        evaluation.evaluate(options.inputs[0], options, options.output, regions())
    elif options.operation == "uncertainty":
        uncertainty(options.inputs[0], options.output)
    else:
        evaluation.check_counts(options.inputs[0], options)
        labels = regions() if options.gt else []
        written = infer(bundle, options, options.output / "Predictions")
        if options.gt:
            evaluation.evaluate([file for _, file, _ in written], options, options.output / "Evaluations", labels)
        if options.uncertainty:
            uncertainty([stack for *_, stack in written], options.output / "Uncertainties")


def parse(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation", choices=["infer", "eval", "uncertainty", "pipeline"])
    parser.add_argument("-uncertainty", action="store_true")  # with one dash
    parser.add_argument("--ensemble_models", nargs="+", default=[])
    parser.add_argument("--patch_size", nargs="+", type=int)
    cases.add_arguments(parser)
    return cases.parse(parser, arguments)


def load():
    """Once, on the devices of the words that started the program."""
    options = cases.started_with()
    if options.operation in ("eval", "uncertainty"):
        return None
    return Bundle(bool(options.gpu), options.cpu)


if __name__ == "__main__":
    resident.serve(load, run)
