"""A trained nnU-Net as an app of remote-app: `model/` has its plans and the weights of its folds.

The server starts it once, as `python3 main.py resident APP`, and gives it the jobs. One job alone is
`python3 main.py infer APP --output DIR --inputs CHANNEL_0 --inputs CHANNEL_1`, with one `--inputs` for each channel.
"""

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import resident

APP = Path(__file__).resolve().parent
MODEL = APP / "model"
ENDINGS = (".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".gipl.gz", ".gipl", ".dcm", ".img.gz", ".img", ".hdr")


def refuse(sentence):
    """Ends the job with a sentence for the person who sent it: what is wrong, and what to do."""
    place = os.environ.get("REMOTE_APP_REFUSAL_FILE")
    if place:
        Path(place).write_text(sentence, encoding="utf-8")
    sys.exit(sentence)


def read_json(file):
    return json.loads(file.read_text(encoding="utf-8"))


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
            sys.exit(f"The module {error.name} is missing: run '{sys.executable} -m pip install -r requirements.txt' in {APP}")
        if on_gpu and not torch.cuda.is_available():
            how = f"run '{sys.executable} -m pip install --force-reinstall torch'" if torch.version.cuda is None else "see nvidia-smi"
            sys.exit(f"torch {torch.__version__} cannot use the GPU of this job: {how}")
        if not on_gpu:
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
        self.predictor.tile_step_size = float(setting(options, "step_size", "0.5"))
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


def stem_of(volume):
    """The name of a case: without the ending of the file, and without the number of its channel."""
    name = volume.name
    ending = next((each for each in ENDINGS if name.lower().endswith(each)), "")
    return name[: len(name) - len(ending)].removesuffix("_0000") or name


def without_data_files(group):
    """The volumes of a group, without the files of voxels that a header among them names."""
    named = set()
    for file in group:
        if file.name.lower().endswith((".mhd", ".nhdr")):
            lines = file.read_text(encoding="latin-1").splitlines()
            named.update(re.split(r"[=:]", line, maxsplit=1)[-1].strip() for line in lines)
        elif file.name.lower().endswith(".hdr"):
            named.update(file.name[:-4] + ending for ending in (".img", ".IMG", ".img.gz"))
    return [file for file in group if file.name not in named]


def case_names(volumes):
    """A name for each case, none of them twice."""
    names = []
    for volume in volumes:
        name, number = stem_of(volume), 2
        while name in names:
            name, number = f"{stem_of(volume)}_{number}", number + 1
        names.append(name)
    return names


def read_series(directory):
    """The volume of a DICOM series."""
    import numpy
    import SimpleITK

    reader = SimpleITK.ImageSeriesReader()
    series = reader.GetGDCMSeriesIDs(str(directory))
    if len(series) != 1:
        refuse(f"{directory.name} has {len(series)} DICOM series: send one series, or a volume in a file")
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(directory), series[0]))
    reader.MetaDataDictionaryArrayUpdateOn()
    image = reader.Execute()
    if image.GetDimension() == 3 and image.GetDepth() > 2 and reader.HasMetaDataKey(0, "0020|0032"):
        places = [[float(each) for each in reader.GetMetaData(at, "0020|0032").split("\\")] for at in range(image.GetDepth())]
        steps = numpy.linalg.norm(numpy.diff(places, axis=0), axis=1)
        if abs(steps - numpy.median(steps)).max() > numpy.median(steps) / 10:
            refuse(f"Slices of {directory.name} are missing, or not evenly spaced: send the whole series")
    return image


def as_expected(volume, ending, scratch, index):
    """A file that nnU-Net reads: the person's own, or another of the ending that the network was trained with."""
    import SimpleITK

    try:
        if not volume.is_dir() and volume.name.lower().endswith(ending):
            return volume
        image = read_series(volume) if volume.is_dir() else SimpleITK.ReadImage(str(volume))
    except RuntimeError as error:
        why = str(error).strip().splitlines()[-1]
        refuse(f"{volume.name} cannot be read: convert it, or export it again ({why})")
    file = scratch / f"case_{index:04}{ending}"
    SimpleITK.WriteImage(image, str(file))
    return file


def check_together(volumes, files):
    """Refuses volumes of more than one time point, and channels that are not on the same grid."""
    import SimpleITK

    grids = []
    for volume, file in zip(volumes, files):
        reader = SimpleITK.ImageFileReader()
        reader.SetFileName(str(file))
        try:
            reader.ReadImageInformation()
        except RuntimeError:
            continue  # nnU-Net's own reader may read it, and says why if not
        size = reader.GetSize()
        if len(size) > 3:
            refuse(f"{volume.name} has {len(size)} dimensions ({' x '.join(map(str, size))}): send one volume of three")
        if reader.GetNumberOfComponents() > 1:
            refuse(f"{volume.name} has {reader.GetNumberOfComponents()} values in each voxel: send a volume of one")
        grids.append((volume.name, size, tuple(round(step, 3) for step in reader.GetSpacing())))
    for name, *grid in grids[1:]:
        first, *other = grids[0]
        if grid != other:
            words = ["{} voxels of {} mm".format(*(" x ".join(map(str, each)) for each in one)) for one in (other, grid)]
            refuse(f"{first} has {words[0]} and {name} {words[1]}: resample all channels of a case to one grid")


def millilitres(file, names):
    """The volume of each label in a file."""
    import numpy
    import SimpleITK

    image = SimpleITK.ReadImage(str(file))
    voxel = float(numpy.prod(image.GetSpacing())) / 1000
    values, counts = numpy.unique(SimpleITK.GetArrayViewFromImage(image), return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist()))
    return {str(label): {"name": name, "ml": round(found.get(label, 0) * voxel, 3)} for label, name in names.items()}


def label_names():
    return {int(label): each["name"] for label, each in read_json(APP / "app.json").get("terminology", {}).items()}


def infer(network, options, output):
    """Writes `<case>` with the labels of each case, its stack where it is wanted, and `measurements.json`."""
    dataset = read_json(MODEL / "dataset.json")
    channels = dataset.get("modality") or dataset["channel_names"]
    if len(options.inputs) != len(channels):
        refuse(f"Give {len(channels)} groups of inputs, in this order: {', '.join(channels.values())}; got {len(options.inputs)}")
    if len({len(group) for group in options.inputs}) > 1:
        refuse("The groups of inputs have different numbers of volumes: give as many in each")
    network.prepare(options)
    output.mkdir(parents=True, exist_ok=True)
    cases = list(zip(*options.inputs))
    written, measured = [], []
    for number, (name, volumes) in enumerate(zip(case_names(options.inputs[0]), cases), start=1):
        print(f"Case {number}/{len(cases)}: {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            files = [as_expected(each, dataset["file_ending"], Path(scratch), at) for at, each in enumerate(volumes)]
            check_together(volumes, files)
            labels, stack = guarded(name, lambda: network.predict(files, str(output / name), options.uncertainty))
        written.append((name, labels, stack))
        measured.append({"case": name, "labels": millilitres(labels, label_names())})
    (output / "measurements.json").write_text(json.dumps({"cases": measured}, indent=2) + "\n", encoding="utf-8")
    return written


def guarded(name, predict):
    """Runs it; a lack of memory, and a file that nnU-Net does not read, are sentences."""
    try:
        return predict()
    except MemoryError:
        lacking = "memory"
    except (RuntimeError, OSError) as error:
        text = str(error)
        if "out of memory" not in text and "allocate" not in text:
            print(text, file=sys.stderr)
            refuse(f"nnU-Net does not take {name}: {(text.strip() or type(error).__name__).splitlines()[-1]}")
        lacking = "GPU memory" if "CUDA" in text else "memory"
    import torch

    torch.cuda.empty_cache()
    refuse(f"There is too little {lacking} for {name}: crop it, or run it on a larger GPU (--gpu), or on the CPU (--cpu)")


def run(network, arguments):
    """One job."""
    options = parse(arguments)
    if options.operation == "infer":
        infer(network, options, options.output)
        return
    import evaluation

    if options.operation == "eval":
        groups = options.inputs
        evaluation.evaluate(groups[0], options, options.output, refuse)
    elif options.operation == "uncertainty":
        evaluation.uncertainty(options.inputs[0], options.output, refuse)
    else:
        evaluation.check_counts(options.inputs[0], options, refuse)
        written = infer(network, options, options.output / "Predictions")
        if options.gt:
            evaluation.evaluate([labels for _, labels, _ in written], options, options.output / "Evaluations", refuse)
        if options.uncertainty:
            evaluation.uncertainty([stack for *_, stack in written], options.output / "Uncertainties", refuse, alone=True)


def setting(options, name, default):
    """What --set NAME=VALUE says."""
    return dict(each.split("=", 1) for each in options.set).get(name, default)


def parse(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation", choices=["infer", "eval", "uncertainty", "pipeline"])
    parser.add_argument("app", help="this directory")
    parser.add_argument("--tta", type=int, default=0)
    parser.add_argument("-uncertainty", action="store_true")  # with one dash
    parser.add_argument("--ensemble_models", nargs="+", default=[])
    parser.add_argument("--ensemble", type=int, default=0)
    parser.add_argument("--patch_size", nargs="+", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--evaluation_file", default="Evaluation.yml")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--inputs", action="append", nargs="+", type=Path, required=True)
    parser.add_argument("--gt", action="append", nargs="+", type=Path, default=[])
    parser.add_argument("--mask", action="append", nargs="+", type=Path, default=[])
    options, _ = parser.parse_known_args(arguments)  # devices, and flags that this app has no use for
    for groups in (options.inputs, options.gt, options.mask):
        groups[:] = [without_data_files(group) for group in groups]
    return options


def load():
    """Once. The devices are those of the words that started the program."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation")
    parser.add_argument("--gpu", nargs="+", default=[])
    parser.add_argument("--cpu", type=int, default=os.cpu_count() or 1)
    options, _ = parser.parse_known_args(sys.argv[1:])
    if options.operation in ("eval", "uncertainty"):
        return None
    return Network(bool(options.gpu), max(options.cpu, 1))


if __name__ == "__main__":
    resident.serve(load, run)
