"""Writes the networks of some tasks of TotalSegmentator with seeded random weights, where the package looks for them.

    make_totalsegmentator.py DIRECTORY TASKS SERIES TASK...

DIRECTORY gets `weights/DatasetNNN_NAME/...`, as the package's downloads are, and `cases/`; TASKS is the table of tasks of
`init --from totalsegmentator`; SERIES is a directory with a DICOM series, which becomes a case.
"""

import json
import os
import sys
from pathlib import Path

root, table, series, *tasks = sys.argv[1:]
root = Path(root)
os.environ["nnUNet_raw"] = os.environ["nnUNet_preprocessed"] = str(root / "none")
os.environ["nnUNet_results"] = str(root / "weights")

import numpy  # noqa: E402: nnU-Net reads the places above when it is imported
import SimpleITK  # noqa: E402
from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name  # noqa: E402
from random_network import make  # noqa: E402
from totalsegmentator.map_to_binary import class_map, class_map_5_parts, map_taskid_to_partname_ct  # noqa: E402

facts = json.loads(Path(table).read_text(encoding="utf-8"))


def classes(task, number):
    """The names of what a network finds."""
    if number in map_taskid_to_partname_ct:
        return class_map_5_parts[map_taskid_to_partname_ct[number]].values()
    if number == 298:
        return list(class_map["total"].values())[:24]  # so few that each is found somewhere
    return class_map[task].values()


for task in tasks:
    for number in {*facts["tasks"][task]["default"], *facts["tasks"][task].get("fast", [])}:
        network = facts["networks"][str(number)]
        trainer, _, configuration = network["network"].split("__")
        labels = {"background": 0, **{name: value for value, name in enumerate(classes(task, number), start=1)}}
        spacing = [6.0, 6.0, 6.0]  # few patches
        trainer_class = recursive_find_trainer_class_by_name(trainer)
        make(network["folder"], configuration, ["CT"], labels, network["folds"], [16, 32, 32], spacing, trainer_class=trainer_class)

cases = root / "cases"
cases.mkdir()
random = numpy.random.default_rng(7)
size = (24, 60, 50)
grid = numpy.stack(numpy.meshgrid(*(numpy.linspace(-1, 1, each) for each in size), indexing="ij"))
ball = 800 * (numpy.sqrt((grid**2).sum(0)) < 0.7)
image = SimpleITK.GetImageFromArray((ball + random.normal(0, 120, size)).astype(numpy.float32))
image.SetSpacing((2.7, 2.4, 5.5))
image.SetOrigin((-30.0, 12.5, 400.0))
turned = (0.0, 1.0, 0.0, -0.96, 0.0, 0.28, 0.28, 0.0, 0.96)
image.SetDirection(turned)
for name in ("ct.v1_0000.nii.gz", "other.nrrd"):
    SimpleITK.WriteImage(image, str(cases / name))
reader = SimpleITK.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(series))
SimpleITK.WriteImage(reader.Execute(), str(cases / "volume.nii.gz"))
