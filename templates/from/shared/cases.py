"""Reads the cases of a job, names their results, and says what is wrong with a case in a sentence."""

import argparse
import json
import os
import re
import sys
from pathlib import Path

APP = Path(__file__).resolve().parent
ENDINGS = (".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".gipl.gz", ".gipl", ".dcm", ".img.gz", ".img", ".hdr")


def refuse(sentence):
    """Ends the job with a sentence for the person who sent it: what is wrong, and what to do."""
    place = os.environ.get("REMOTE_APP_REFUSAL_FILE")
    if place:
        Path(place).write_text(sentence, encoding="utf-8")
    sys.exit(sentence)


def read_json(file):
    return json.loads(file.read_text(encoding="utf-8"))


def terminology():
    """What app.json says of the labels of the results, by their values."""
    return {int(label): each for label, each in read_json(APP / "app.json").get("terminology", {}).items()}


def label_names():
    """The names of the labels of the results, by their values."""
    return {label: each["name"] for label, each in terminology().items()}


def missing_module(error):
    """What to do about a package that is not installed."""
    return f"The module {error.name} is missing: run '{sys.executable} -m pip install -r requirements.txt' in {APP}"


def check_gpu(torch):
    """Ends the program where PyTorch cannot use the GPU that the job has."""
    if torch.cuda.is_available():
        return
    how = f"run '{sys.executable} -m pip install --force-reinstall torch'" if torch.version.cuda is None else "see nvidia-smi"
    sys.exit(f"torch {torch.__version__} cannot use the GPU of this job: {how}")


def stem_of(volume):
    """The name of a file without its ending."""
    name = volume.name
    ending = next((each for each in ENDINGS if name.lower().endswith(each)), "")
    return name[: len(name) - len(ending)]


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


def check_groups(groups, channels):
    """Refuses inputs that are not one group for each channel, with as many volumes in each."""
    if len(groups) != len(channels):
        wanted = "one group of inputs" if len(channels) == 1 else f"{len(channels)} groups of inputs, in this order"
        refuse(f"Give {wanted}: {', '.join(channels)}; got {len(groups)}")
    if len({len(group) for group in groups}) > 1:
        refuse("The groups of inputs have different numbers of volumes: give as many in each")


def case_names(stems):
    """A name for each case, none of them twice."""
    names = []
    for stem in stems:
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}_{number}", number + 1
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


def as_expected(volume, endings, scratch, index):
    """A file that the network reads: the person's own, or another with the first of these endings."""
    import SimpleITK

    try:
        if not volume.is_dir() and volume.name.lower().endswith(endings):
            return volume
        image = read_series(volume) if volume.is_dir() else SimpleITK.ReadImage(str(volume))
    except RuntimeError as error:
        why = str(error).strip().splitlines()[-1]
        refuse(f"{volume.name} cannot be read: convert it, or export it again ({why})")
    file = scratch / f"case_{index:04}{endings[0]}"
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
            continue  # the framework's own reader may read it, and says why if not
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


def guarded(framework, name, predict):
    """Runs it; a lack of memory, and a file that the framework does not read, are sentences."""
    try:
        return predict()
    except MemoryError:
        lacking = "memory"
    except (RuntimeError, OSError, ValueError) as error:
        text = str(error)
        if not any(each in text for each in ("out of memory", "allocate", "workers died")):
            print(text, file=sys.stderr)
            refuse(f"{framework} does not take {name}: {(text.strip() or type(error).__name__).splitlines()[-1]}")
        lacking = "GPU memory" if "CUDA" in text else "memory"
    import torch

    torch.cuda.empty_cache()
    refuse(f"There is too little {lacking} for {name}: crop it, or run it on a larger GPU (--gpu), or on the CPU (--cpu)")


def write_measurements(cases, output):
    """Writes `measurements.json`: the volume of each label, for each case and the file of its labels."""
    import numpy
    import SimpleITK

    measured = []
    for case, file in cases:
        image = SimpleITK.ReadImage(str(file))
        voxel = float(numpy.prod(image.GetSpacing())) / 1000
        values, counts = numpy.unique(SimpleITK.GetArrayViewFromImage(image), return_counts=True)
        found = dict(zip(values.tolist(), counts.tolist()))
        labels = {}
        for label, each in terminology().items():
            # A region has several values, and counts each of them.
            voxels = sum(found.get(value, 0) for value in each.get("values", [label]))
            labels[str(label)] = {"name": each["name"], "ml": round(voxels * voxel, 3)}
        measured.append({"case": case, "labels": labels})
    (output / "measurements.json").write_text(json.dumps({"cases": measured}, indent=2) + "\n", encoding="utf-8")


def setting(options, name, default):
    """What --set NAME=VALUE says."""
    return dict(each.split("=", 1) for each in options.set).get(name, default)


def add_arguments(parser):
    """The words that every operation has."""
    parser.add_argument("app", help="this directory")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--evaluation_file", default="Evaluation.yml")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--inputs", action="append", nargs="+", type=Path, required=True)
    parser.add_argument("--gt", action="append", nargs="+", type=Path, default=[])
    parser.add_argument("--mask", action="append", nargs="+", type=Path, default=[])


def parse(parser, arguments):
    """The options of a job, with volumes alone among its files."""
    options, _ = parser.parse_known_args(arguments)  # devices, and flags that an app has no use for
    for groups in (options.inputs, options.gt, options.mask):
        groups[:] = [without_data_files(group) for group in groups]
    return options


def started_with():
    """The operation and the devices of the words that started the program: GPUs, and threads of the CPU, at least one."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation")
    parser.add_argument("--gpu", nargs="+", default=[])
    parser.add_argument("--cpu", type=int, default=os.cpu_count() or 1)
    options, _ = parser.parse_known_args(sys.argv[1:])
    options.cpu = max(options.cpu, 1)
    return options
