"""Makes images whose slices and weights are told by private attributes, and compares what dcm2niix makes of them."""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel
import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

RANDOM = np.random.default_rng(1)
NORMAL = [0.0, 0.17364817766, 0.98480775301]
B_VALUES = [0, 1000, 1000, 2000]
DIRECTIONS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.6, 0, 0.8]]


def csa(tags):
    """A CSA header of Siemens, with six items for each tag."""
    parts = [b"SV10\x04\x03\x02\x01", struct.pack("<II", len(tags), 77)]
    for name, vr, values in tags:
        count = max(6, len(values))
        parts.append(struct.pack("<64si4siii", name.encode(), len(values), vr.encode(), 0, count, 77))
        for at in range(count):
            text = values[at].encode() + b"\0" if at < len(values) else b""
            parts += [struct.pack("<iiii", len(text), len(text), 77, len(text)), text + b"\0" * (-len(text) % 4)]
    return b"".join(parts)


def image(series, number, size, manufacturer):
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.4"
    data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = f"{series}.{number}"
    data.StudyDate, data.StudyTime, data.SeriesTime, data.AcquisitionTime = "20240102", "101112", "101112", "101112"
    data.Modality, data.Manufacturer = "MR", manufacturer
    data.PatientName, data.PatientID = "Doe^Jane", "ID1"
    data.StudyInstanceUID, data.SeriesInstanceUID, data.FrameOfReferenceUID = "1.2.3", series, "1.2.9"
    data.SeriesNumber, data.InstanceNumber = 5, number
    data.SliceThickness, data.SpacingBetweenSlices, data.PixelSpacing = "3", "3.3", ["2", "2"]
    data.ImageOrientationPatient = [1, 0, 0, 0, NORMAL[2], -NORMAL[1]]
    data.RepetitionTime, data.EchoTime, data.MagneticFieldStrength = "2000", "30", "3"
    data.ScanningSequence, data.SequenceVariant, data.MRAcquisitionType = "EP", "SK", "2D"
    data.InPlanePhaseEncodingDirection, data.NumberOfPhaseEncodingSteps = "COL", 64
    data.Rows = data.Columns = size
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PixelRepresentation = 1, "MONOCHROME2", 0
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.add_new(0x7FE00010, "OW", RANDOM.integers(0, 4000, (size, size)).astype("<u2").tobytes())
    return data


def mosaic(number):
    """14 slices of 32 x 32, in four rows."""
    data = image("1.2.3.8", number, 128, "SIEMENS")
    data.ImageType, data.AcquisitionNumber = ["ORIGINAL", "PRIMARY", "M", "ND", "MOSAIC"], number
    data.ImagePositionPatient = [-128.0, -100.5, 40.25]
    data.private_block(0x19, "SIEMENS MR HEADER", create=True).add_new(0x0A, "US", 14)
    block = data.private_block(0x29, "SIEMENS CSA HEADER", create=True)
    times = [f"{100 * at:.8f}" for at in range(14)]
    tags = [("PatientsName", "LO", ["Doe^Jane"]), ("NumberOfImagesInMosaic", "US", ["14"])]
    tags += [("SliceNormalVector", "FD", [str(each) for each in NORMAL]), ("MosaicRefAcqTimes", "FD", times)]
    block.add_new(0x10, "OB", csa(tags))
    block.add_new(0x20, "OB", b"tPatientName Doe^Jane ")
    return data


def siemens(data, at):
    block = data.private_block(0x19, "SIEMENS MR HEADER", create=True)
    block.add_new(0x0C, "IS", B_VALUES[at])
    if at > 0:
        block.add_new(0x0D, "CS", "DIRECTIONAL")
        block.add_new(0x0E, "FD", DIRECTIONS[at])


def ge(data, at):
    block = data.private_block(0x19, "GEMS_ACQU_01", create=True)
    for axis in range(3):
        block.add_new(0xBB + axis, "DS", str(DIRECTIONS[at][axis]))
    block = data.private_block(0x43, "GEMS_PARM_01", create=True)
    block.add_new(0x39, "IS", [B_VALUES[at] + (1_000_000_000 if at else 0), 8, 0, 0])
    block.add_new(0x62, "SH", "Doe^Jane")


def philips(data, at):
    block = data.private_block(0x2001, "Philips Imaging DD 001", create=True)
    block.add_new(3, "FL", float(B_VALUES[at]))
    block.add_new(4, "CS", "S" if at else "N")
    block = data.private_block(0x2005, "Philips MR Imaging DD 001", create=True)
    for axis in range(3):
        block.add_new(0xB0 + axis, "FL", DIRECTIONS[at][axis])
    block.add_new(0x0D, "FL", 0.0)
    block.add_new(0x0E, "FL", 0.5)
    data.RescaleSlope, data.RescaleIntercept, data.TemporalPositionIdentifier = "2.5", "0", at + 1


VENDORS = {"SIEMENS": siemens, "GE MEDICAL SYSTEMS": ge, "Philips Medical Systems": philips}


def save(data, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(file, enforce_file_format=True)


def main_make(directory):
    for number in range(1, 4):
        save(mosaic(number), Path(directory) / "mosaic" / f"{number}.dcm")
    for series, (manufacturer, add) in enumerate(VENDORS.items()):
        for number in range(12):
            volume, at = divmod(number, 3)
            data = image(f"1.2.3.{20 + series}", number + 1, 32, manufacturer)
            data.ImageType, data.AcquisitionNumber = ["ORIGINAL", "PRIMARY", "DIFFUSION", "NONE", "ND"], volume + 1
            data.ImagePositionPatient = [-32.0, -30 + 3.3 * at * NORMAL[1], 10 + 3.3 * at * NORMAL[2]]
            add(data, volume)
            save(data, Path(directory) / add.__name__ / f"{number + 1}.dcm")


def converted(dcm2niix, directory):
    """The shape, the place, the values, the times of the slices and the weights that dcm2niix finds."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([dcm2niix, "-b", "y", "-z", "n", "-f", "x", "-o", out, directory], check=True, capture_output=True)
        volume = nibabel.load(Path(out) / "x.nii")
        weights = [Path(out) / name for name in ("x.bval", "x.bvec")]
        return {
            "shape": volume.shape,
            "affine": volume.affine.round(4).tolist(),
            "values": float(volume.get_fdata().sum()),
            "times": json.loads((Path(out) / "x.json").read_text()).get("SliceTiming"),
            "weights": [file.read_text().split() for file in weights if file.exists()],
        }


def main_compare(before, after, dcm2niix):
    rows = []
    for directory in sorted(Path(before).iterdir()):
        one, other = (converted(dcm2niix, Path(each) / directory.name) for each in (before, after))
        differences = [f"{name} {one[name]} became {other[name]}" for name in one if one[name] != other[name]]
        if directory.name == "mosaic" and one["shape"] != (32, 32, 14, 3):
            differences.append(f"the mosaic had the shape {one['shape']}")
        if directory.name != "mosaic" and one["weights"][:1] != [[str(each) for each in B_VALUES]]:
            differences.append(f"the b-values were {one['weights']}")
        rows.append({"name": directory.name, "differences": differences, "figures": " x ".join(map(str, one["shape"]))})
    print(json.dumps(rows))


{"make": main_make, "compare": main_compare}[sys.argv[1]](*sys.argv[2:])
