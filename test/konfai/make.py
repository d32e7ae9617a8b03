"""
Makes what the tests and the bench of KonfAI run on, below the directory that is the only argument: the app with its
checkpoints, one scan in each of the forms that KonfAI reads, a reference, a mask, an inference stack, a data set to
train on. Everything is computed from fixed numbers, so that every run makes the same bytes.
"""

import shutil
import sys
from pathlib import Path

import ngff_zarr
import numpy
import SimpleITK
import torch
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

here = Path(__file__).parent
root = Path(sys.argv[1])


def app(target: Path) -> None:
    """The app beside this file, with two checkpoints that differ."""
    shutil.copytree(here / "app", target, ignore=shutil.ignore_patterns("__pycache__"))
    for name, scale in {"first": 1.0, "second": 1.5}.items():
        weights = {"Line.scale": torch.tensor([scale]), "Line.offset": torch.tensor([0.25])}
        torch.save({"Model": {"Contrast": weights}}, target / f"{name}.pt")


def image(voxels: numpy.ndarray, file: Path) -> None:
    """A volume in the format that the file's name says."""
    file.parent.mkdir(parents=True, exist_ok=True)
    volume = SimpleITK.GetImageFromArray(voxels, isVector=voxels.ndim == 4)
    volume.SetSpacing((1.0, 1.0, 2.0))
    SimpleITK.WriteImage(volume, str(file))


def series(voxels: numpy.ndarray, directory: Path) -> None:
    """A DICOM series: a file for each slice, without an extension on every other, as archives export them."""
    directory.mkdir(parents=True)
    for index, pixels in enumerate(voxels.astype(numpy.int16)):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = f"1.2.826.0.1.3680043.8.498.1.{index + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        file = directory / (f"slice_{index}.dcm" if index % 2 == 0 else f"slice_{index}")
        data = FileDataset(str(file), {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID = meta.MediaStorageSOPClassUID
        data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
        data.StudyInstanceUID = "1.2.826.0.1.3680043.8.498.2"
        data.SeriesInstanceUID = "1.2.826.0.1.3680043.8.498.3"
        data.FrameOfReferenceUID = "1.2.826.0.1.3680043.8.498.4"
        data.Modality = "CT"
        data.PatientID = "TEST"
        data.InstanceNumber = index + 1
        data.ImagePositionPatient = [0.0, 0.0, 2.0 * index]
        data.ImageOrientationPatient = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        data.PixelSpacing = [1.0, 1.0]
        data.SliceThickness = 2.0
        data.RescaleSlope = 1.0
        data.RescaleIntercept = 0.0
        data.SamplesPerPixel = 1
        data.PhotometricInterpretation = "MONOCHROME2"
        data.Rows, data.Columns = pixels.shape
        data.BitsAllocated = data.BitsStored = 16
        data.HighBit = 15
        data.PixelRepresentation = 1
        data.PixelData = pixels.tobytes()
        data.save_as(file, enforce_file_format=True)


def store(voxels: numpy.ndarray, directory: Path) -> None:
    """An OME-Zarr store of one level."""
    volume = ngff_zarr.to_ngff_image(
        voxels,
        dims=["z", "y", "x"],
        scale={"z": 2.0, "y": 1.0, "x": 1.0},
        translation={"z": 0.0, "y": 0.0, "x": 0.0},
    )
    ngff_zarr.to_ngff_zarr(str(directory), ngff_zarr.to_multiscales(volume, scale_factors=[], chunks=8))


slices, side = 3, 16
z, y, x = numpy.meshgrid(*(numpy.arange(n) for n in (slices, side, side)), indexing="ij")
scan = ((x - y) * (z + 1) % 7 - 3).astype(numpy.float32)
reference = (1 / (1 + numpy.exp(-scan))).astype(numpy.float32)

app(root / "Contrast")
image(scan, root / "scan.mha")
image(scan, root / "scan.nii.gz")
series(scan, root / "series")
series(scan, root / "patients" / "first" / "head")
series(scan * 2, root / "patients" / "second" / "head")
store(scan, root / "scan.ome.zarr")
image(reference, root / "reference.mha")
image((x > 4).astype(numpy.uint8), root / "mask.mha")
image(numpy.stack([reference, reference**2, reference**3], axis=-1), root / "stack.mha")
for number in range(4):
    case = root / "dataset" / f"case_{number}"
    image(scan + number, case / "Scan.mha")
    image((1 / (1 + numpy.exp(-2 * (scan + number)))).astype(numpy.float32), case / "Target.mha")
