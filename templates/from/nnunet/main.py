"""A trained nnU-Net as an app of remote-app: `model/` has its plans and the weights of its folds.

The server starts it once, as `python3 main.py resident APP`, and gives it the jobs. One job alone is
`python3 main.py infer APP --output DIR --inputs CHANNEL_0 --inputs CHANNEL_1`, with one `--inputs` for each channel.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import cases
import resident
from cases import read_json, refuse

APP = Path(__file__).resolve().parent
MODEL = APP / "model"


class Network:
    """The network with the weights of all folds, on the first GPU of the job or on the CPU."""

    def __init__(self, on_gpu, threads):
        # nnU-Net warns of these places, which only training uses, and starts as many threads as the last one says.
        for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
            os.environ.setdefault(name, tempfile.gettempdir())
        os.environ["nnUNet_def_n_proc"] = str(threads)
        try:
            import torch
            from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
        except ModuleNotFoundError as error:
            sys.exit(cases.missing_module(error))
        if on_gpu:
            cases.check_gpu(torch)
        else:
            torch.set_num_threads(threads)
        self.names = read_json(APP / "app.json")["models"]
        missing = [name for name in self.names if not (MODEL / name).is_file()]
        if missing:
            sys.exit(f"The weights {', '.join(missing)} are missing in {MODEL}: copy them there, or run 'remote-app init' again")
        # nnU-Net prints what it does for the CPU.
        with contextlib.redirect_stdout(io.StringIO()):
            self.predictor = nnUNetPredictor(device=torch.device("cuda" if on_gpu else "cpu"))
        with tempfile.TemporaryDirectory() as folder:
            for file in ("dataset.json", "plans.json"):
                (Path(folder) / file).symlink_to(MODEL / file)
            folds = [Path(name).stem.removeprefix("fold_") for name in self.names]
            for fold, name in zip(folds, self.names):
                place = Path(folder) / f"fold_{fold}"
                place.mkdir()
                (place / "checkpoint_final.pth").symlink_to(MODEL / name)
            self.predictor.initialize_from_trained_model_folder(folder, tuple(folds), "checkpoint_final.pth")
        self.weights = dict(zip(self.names, self.predictor.list_of_parameters))
        self.axes = tuple(self.predictor.allowed_mirroring_axes or ())
        print(f"Loaded {len(self.names)} of {self.predictor.trainer_name}", flush=True)

    def prepare(self, options):
        """Sets what this job asked for, and says it."""
        patch = list(self.predictor.configuration_manager.patch_size)
        if options.patch_size and options.patch_size != patch:
            refuse(f"The patch size of this network is {' '.join(map(str, patch))}, as it was trained: leave --patch-size out")
        members = [Path(name).name for name in options.ensemble_models] or self.names[: max(options.ensemble, 1)]
        for name in members:
            if name not in self.weights:
                refuse(f"{name} is no fold of this app; it has {', '.join(self.names)}")
        # All flips of k axes are 2^k - 1 passes more.
        count = (min(options.tta, 2 ** len(self.axes) - 1) + 1).bit_length() - 1
        self.members = [self.weights[name] for name in members]
        self.predictor.use_mirroring = count > 0
        self.predictor.allowed_mirroring_axes = self.axes[:count]
        self.predictor.tile_step_size = float(cases.setting(options, "step_size", "0.5"))
        passes = f"{2**count} passes" if count > 0 else "1 pass"
        print(f"{', '.join(members)}; {passes} each, mirroring {count} of {len(self.axes)} axes", flush=True)

    def predict(self, files, truncated, with_stack):
        """Writes the labels of one case beside `truncated`, and the stack of its folds where it is wanted; returns both files."""
        import torch
        from nnunetv2.inference import export_prediction

        predictor = self.predictor
        managers = (predictor.plans_manager, predictor.configuration_manager)
        preprocessor = predictor.configuration_manager.preprocessor_class(verbose=False)
        data, _, properties = preprocessor.run_case([str(file) for file in files], None, *managers, predictor.dataset_json)
        data = torch.from_numpy(data)
        if with_stack:
            each = []
            for member in self.members:
                predictor.list_of_parameters = [member]
                each.append(predictor.predict_logits_from_preprocessed_data(data))
            logits = each[0].clone()
            for other in each[1:]:
                logits += other
            logits /= len(each)
        else:
            predictor.list_of_parameters = self.members
            logits = predictor.predict_logits_from_preprocessed_data(data)
        export_prediction.export_prediction_from_logits(
            logits, properties, managers[1], managers[0], predictor.dataset_json, truncated
        )
        labels = Path(truncated + predictor.dataset_json["file_ending"])
        if not with_stack:
            return labels, None
        convert = export_prediction.convert_predicted_logits_to_segmentation_with_correct_shape
        manager = predictor.label_manager
        _, mean = convert(logits, *managers, manager, properties, True)
        chosen = manager.convert_probabilities_to_segmentation(mean)
        frames = [certainty(convert(one, *managers, manager, properties, True)[1], chosen, manager) for one in each]
        stack = labels.parent / f"{Path(truncated).name}_stack.nii.gz"
        write_stack(frames, labels, stack)
        return labels, stack


def certainty(probabilities, labels, manager):
    """For each voxel, how probable a fold finds the label that all of them chose together."""
    import numpy

    labels = numpy.asarray(labels)
    channels = manager.regions_class_order if manager.has_regions else manager.all_labels
    result = 1 - probabilities.max(0) if manager.has_regions else numpy.zeros(labels.shape, numpy.float32)
    for channel, label in enumerate(channels):
        result[labels == label] = probabilities[channel][labels == label]
    return result.astype(numpy.float32)


def write_stack(frames, like, file):
    """Writes a volume with a value of each fold in each voxel, in the space of another file."""
    import SimpleITK

    space = SimpleITK.ReadImage(str(like))
    images = [SimpleITK.GetImageFromArray(frame.reshape(SimpleITK.GetArrayViewFromImage(space).shape)) for frame in frames]
    for image in images:
        image.CopyInformation(space)
    stack = SimpleITK.Compose(images) if len(images) > 1 else images[0]
    SimpleITK.WriteImage(stack, str(file), useCompression=True)


def regions():
    """For each label of the results its name, and the values that count as it: several for a region."""
    dataset = read_json(MODEL / "dataset.json")
    named = {name: values for name, values in dataset["labels"].items() if name != "ignore" and values not in (0, [0])}
    as_lists = [values if isinstance(values, list) else [values] for values in named.values()]
    if any(len(values) > 1 for values in as_lists):
        keys = dataset["regions_class_order"]
    else:
        keys = [values[0] for values in as_lists]
    return [(int(key), name, [int(each) for each in values]) for key, name, values in zip(keys, named, as_lists)]


def infer(network, options, output):
    """Writes `<case>` with the labels of each case, its stack where it is wanted, and `measurements.json`."""
    dataset = read_json(MODEL / "dataset.json")
    channels = dataset.get("modality") or dataset["channel_names"]
    cases.check_groups(options.inputs, channels.values())
    network.prepare(options)
    output.mkdir(parents=True, exist_ok=True)
    # nnU-Net counts the channels of a case in the names of its files.
    names = cases.case_names([cases.stem_of(each).removesuffix("_0000") or cases.stem_of(each) for each in options.inputs[0]])
    written = []
    for number, (name, *volumes) in enumerate(zip(names, *options.inputs), start=1):
        print(f"Case {number}/{len(names)}: {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            files = [cases.as_expected(each, (dataset["file_ending"],), Path(scratch), at) for at, each in enumerate(volumes)]
            cases.check_together(volumes, files)
            labels, stack = cases.guarded("nnU-Net", name, lambda: network.predict(files, str(output / name), options.uncertainty))
        written.append((name, labels, stack))
    cases.write_measurements([(name, labels) for name, labels, _ in written], output)
    return written


def run(network, arguments):
    """One job."""
    options = parse(arguments)
    if options.operation == "infer":
        infer(network, options, options.output)
        return
    import evaluation

    if options.operation == "eval":
        evaluation.evaluate(options.inputs[0], options, options.output, regions())
    elif options.operation == "uncertainty":
        evaluation.uncertainty(options.inputs[0], options.output)
    else:
        evaluation.check_counts(options.inputs[0], options)
        written = infer(network, options, options.output / "Predictions")
        if options.gt:
            evaluation.evaluate([labels for _, labels, _ in written], options, options.output / "Evaluations", regions())
        if options.uncertainty:
            evaluation.uncertainty([stack for *_, stack in written], options.output / "Uncertainties", alone=True)


def parse(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation", choices=["infer", "eval", "uncertainty", "pipeline"])
    parser.add_argument("--tta", type=int, default=0)
    parser.add_argument("-uncertainty", action="store_true")  # with one dash
    parser.add_argument("--ensemble_models", nargs="+", default=[])
    parser.add_argument("--ensemble", type=int, default=0)
    parser.add_argument("--patch_size", nargs="+", type=int)
    cases.add_arguments(parser)
    return cases.parse(parser, arguments)


def load():
    """Once, on the devices of the words that started the program."""
    options = cases.started_with()
    if options.operation in ("eval", "uncertainty"):
        return None
    return Network(bool(options.gpu), options.cpu)


if __name__ == "__main__":
    resident.serve(load, run)
