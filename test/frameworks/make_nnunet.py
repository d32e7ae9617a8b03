"""Writes small networks of nnU-Net with seeded random weights, by nnU-Net's own trainer, and cases for them.

    make_nnunet.py DIRECTORY SERIES

DIRECTORY gets `results/DatasetNNN_NAME/...`, as nnU-Net's training writes it, and `cases/NAME/CASE_0000.nii.gz`; SERIES is a
directory with a DICOM series, which becomes a case of Dataset901 too.
"""

import os
import sys
from pathlib import Path

root, series = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["nnUNet_raw"] = os.environ["nnUNet_preprocessed"] = str(root / "none")
os.environ["nnUNet_results"] = str(root / "results")

import numpy  # noqa: E402: nnU-Net reads the places above when it is imported
import SimpleITK  # noqa: E402
from random_network import make  # noqa: E402


def case(dataset, name, channels, seed, size=(20, 40, 36)):
    random = numpy.random.default_rng(seed)
    grid = numpy.stack(numpy.meshgrid(*(numpy.linspace(-1, 1, each) for each in size), indexing="ij"))
    for channel in range(channels):
        ball = 800 * (numpy.sqrt((grid**2).sum(0)) < 0.6 + 0.1 * channel)
        image = SimpleITK.GetImageFromArray((ball + random.normal(0, 120, size)).astype(numpy.float32))
        image.SetSpacing((1.7, 1.4, 4.5))
        image.SetOrigin((-30.0, 12.5, 400.0))
        file = root / "cases" / dataset / f"{name}_{channel:04}.nii.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        SimpleITK.WriteImage(image, str(file))


make("Dataset901_CT", "3d_fullres", ["CT"], {"background": 0, "liver": 1, "tumour": 2}, [0, 1], [16, 32, 32], [4.0, 2.0, 2.0])
make("Dataset902_MR", "2d", ["T1", "FLAIR"], {"background": 0, "edema": 1, "core": 2, "enhancing": 3}, [0, 1], [32, 32], [1.0, 1.0])
make(
    "Dataset903_Regions",
    "3d_fullres",
    ["T1", "FLAIR"],
    {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3},
    [0, 1],
    [16, 24, 24],
    [2.0, 1.0, 1.0],
    [1, 2, 3],
)
case("Dataset901_CT", "one", 1, 1)
case("Dataset901_CT", "two", 1, 2, (17, 31, 45))
case("Dataset902_MR", "sub-01", 2, 3)
case("Dataset903_Regions", "sub-01", 2, 4)

# The first case in other formats; a header has its voxels in a file of its own.
(root / "formats").mkdir()
one = SimpleITK.ReadImage(str(root / "cases" / "Dataset901_CT" / "one_0000.nii.gz"))
for file in ("a.mha", "b.nrrd", "c.mhd"):
    SimpleITK.WriteImage(one, str(root / "formats" / file))

reader = SimpleITK.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(series)))
SimpleITK.WriteImage(reader.Execute(), str(root / "cases" / "Dataset901_CT" / "volume_0000.nii.gz"))
