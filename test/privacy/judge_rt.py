"""What other implementations read of the RT Structure Sets and the .seg.nrrd files that this program writes.

make HEAD DIRECTORY      series of other geometries, made of the files of a real one
itk SERIES DIRECTORY     writes labels.raw as a mask on the grid that SimpleITK reads of the series, which ignores a tilt
judge CASE...            reads case.json of each directory, and prints a line of JSON for each check
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nrrd
import numpy as np
import pydicom
import SimpleITK as sitk
import slicerio
from dcmrtstruct2nii.adapters.convert.rtstructcontour2mask import DcmPatientCoords2Mask
from platipy.dicom.io.rtstruct_to_nifti import transform_point_set_from_dicom_struct
from rt_utils import RTStructBuilder

# Directions of rows and columns, millimetres between rows, columns and slices, and the place of the first voxel.
turn = np.array([[0.8, -0.6, 0], [0.48, 0.64, -0.6], [0.36, 0.48, 0.8]])
geometries = {
    "sagittal": ([0, 1, 0], [0, 0, -1], (0.9765625, 0.9765625, 1.3), (-80.5, -120.123456, 99.9)),
    "coronal": ([1, 0, 0], [0, 0, -1], (1.1, 0.7, 2), (-100, 33.3, 250)),
    "backwards": ([-1, 0, 0], [0, -1, 0], (0.5, 0.5, 3), (512.25, -99.75, -1000.5)),
    "oblique": (turn[0], turn[1], (0.8203125, 0.4101562, 1.5), (-12.3456789, 234.5678901, -987.654321)),
    "tilted": ([1, 0, 0], [0, 0.96, 0.28], (0.9, 0.9, 5), (-100, -120, 5), 1.8),
    "fine": ([1, 0, 0], [0, 1, 0], (0.041, 0.041, 0.05), (-3.14159, 2.71828, 1.41421)),
}


def text(number):
    return f"{number:.9g}"[:16]


def make(head, directory):
    files = sorted(Path(head).iterdir())
    for name, (row, column, (between_rows, between_columns, step), origin, *shift) in geometries.items():
        target = Path(directory) / name
        target.mkdir(parents=True)
        # Each slice of a tilted gantry is shifted along its columns.
        way = step * np.cross(row, column) + sum(shift) * np.array(column)
        series, frame = pydicom.uid.generate_uid(), pydicom.uid.generate_uid()
        for at, file in enumerate(files):
            data = pydicom.dcmread(file)
            data.SeriesInstanceUID, data.FrameOfReferenceUID = series, frame
            data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
            data.ImageOrientationPatient = [text(part) for part in [*row, *column]]
            data.PixelSpacing = [text(between_rows), text(between_columns)]
            data.SliceThickness = text(step)
            if "SpacingBetweenSlices" in data:
                data.SpacingBetweenSlices = text(step)
            data.ImagePositionPatient = [text(part) for part in np.array(origin) + at * way]
            data.save_as(target / file.name)


def write_as_itk(series, directory):
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(series))
    scan = reader.Execute()
    labels = np.fromfile(Path(directory) / "labels.raw", np.uint8).reshape(scan.GetSize()[::-1])
    mask = sitk.GetImageFromArray(labels)
    mask.CopyInformation(scan)
    sitk.WriteImage(mask, str(Path(directory) / "mask.nii.gz"))


def say(case, check, good, figures):
    print(json.dumps({"case": case, "check": check, "good": bool(good), "figures": figures}), flush=True)


def sorted_images(series):
    """The images of a series in the order of their places along the normal, as the planes of the mask are."""
    images = [pydicom.dcmread(file) for file in Path(series).iterdir() if file.is_file()]
    normal = np.cross(images[0].ImageOrientationPatient[:3], images[0].ImageOrientationPatient[3:])
    return sorted(images, key=lambda image: np.dot(normal, image.ImagePositionPatient))


def sitk_image(images):
    """A grid of SimpleITK at the place of the images, in float64."""
    first, last = images[0], images[-1]
    row, column = (np.array(first.ImageOrientationPatient[at : at + 3], float) for at in (0, 3))
    step = (np.array(last.ImagePositionPatient, float) - np.array(first.ImagePositionPatient, float)) / (
        len(images) - 1
    )
    spacing = np.linalg.norm(step)
    image = sitk.Image(int(first.Columns), int(first.Rows), len(images), sitk.sitkUInt8)
    image.SetSpacing([float(first.PixelSpacing[1]), float(first.PixelSpacing[0]), float(spacing)])
    image.SetOrigin([float(part) for part in first.ImagePositionPatient])
    image.SetDirection(np.stack([row, column, step / spacing], axis=1).ravel().tolist())
    return image


def contours_of(item, instances):
    for contour in item.ContourSequence:
        if contour.ContourImageSequence[0].ReferencedSOPInstanceUID not in instances:
            continue
        points = np.array(contour.ContourData, float).reshape(-1, 3)
        yield {
            "type": contour.ContourGeometricType,
            "points": {"x": points[:, 0], "y": points[:, 1], "z": points[:, 2]},
        }


def differing(found, expected):
    return int(np.count_nonzero(found.astype(bool) != expected))


def judge_structures(case, directory, facts):
    file = str(directory / "mask.rt.dcm")
    structure = pydicom.dcmread(file)
    labels = np.fromfile(directory / "labels.raw", np.uint8).reshape(facts["size"][::-1])
    images = sorted_images(facts["series"])
    names = [roi.ROIName for roi in structure.StructureSetROISequence]
    say(case, "names", names == [each["name"] for each in facts["segments"]], names)
    colours = [[int(part) for part in item.ROIDisplayColor] for item in structure.ROIContourSequence]
    wanted = [[int(each["color"][at : at + 2], 16) for at in (1, 3, 5)] for each in facts["segments"]]
    say(case, "colours", colours == wanted, colours)
    first = images[0]
    same = ["PatientName", "PatientID", "PatientBirthDate", "StudyInstanceUID", "StudyDate", "StudyID"]
    differ = [name for name in same if structure.get(name) != first.get(name)]
    say(case, "patient and study", not differ, differ)
    frames = {structure.ReferencedFrameOfReferenceSequence[0].FrameOfReferenceUID}
    say(case, "frame of reference", frames == {first.FrameOfReferenceUID}, sorted(frames))
    referenced = structure.ReferencedFrameOfReferenceSequence[0].RTReferencedStudySequence[0]
    instances = {
        each.ReferencedSOPInstanceUID
        for each in referenced.RTReferencedSeriesSequence[0].ContourImageSequence
    }
    say(case, "images", instances == {image.SOPInstanceUID for image in images}, len(instances))
    normal = np.cross(first.ImageOrientationPatient[:3], first.ImageOrientationPatient[3:])
    places = {image.SOPInstanceUID: np.dot(normal, image.ImagePositionPatient) for image in images}
    off = 0.0
    for item in structure.ROIContourSequence:
        for contour in item.ContourSequence:
            points = np.array(contour.ContourData, float).reshape(-1, 3)
            place = places[contour.ContourImageSequence[0].ReferencedSOPInstanceUID]
            off = max(off, float(np.abs(points @ normal - place).max()))
    say(case, "contours in the planes of their images", off < 1e-4, f"at most {off:.2g} mm off")
    long = sum(
        len(part) > 16
        for item in structure.ROIContourSequence
        for contour in item.ContourSequence
        for part in map(str, contour.ContourData)
    )
    say(case, "numbers of at most 16 characters", long == 0, long)

    image = sitk_image(images)
    converter = DcmPatientCoords2Mask()
    # It asks for each pixel of an image whether it is within each contour, which takes minutes for all images.
    some = {each.SOPInstanceUID for each in images[::5]}
    totals = {"dcmrtstruct2nii": 0, "rt_utils": 0}
    builder = RTStructBuilder.create_from(dicom_series_path=facts["series"], rt_struct_path=file)
    for item, segment in zip(structure.ROIContourSequence, facts["segments"]):
        expected = labels == segment["value"]
        mask = sitk.GetArrayFromImage(converter.convert(list(contours_of(item, some)), image, 0, 1))
        totals["dcmrtstruct2nii"] += differing(mask[::5], expected[::5])
        read = np.moveaxis(builder.get_roi_mask_by_name(segment["name"]), 2, 0)
        totals["rt_utils"] += differing(read, expected)
    say(case, "dcmrtstruct2nii", totals["dcmrtstruct2nii"] == 0, f"{totals['dcmrtstruct2nii']} voxels differ")
    # It rounds points to pixels of the first image, and takes the distance of rows for that of columns: where images are
    # shifted against each other or pixels are no squares, its figures are told, and not held against the file.
    spacing = np.array(first.PixelSpacing, float)
    row, column = (np.array(first.ImageOrientationPatient[at : at + 3], float) for at in (0, 3))
    way = np.array([image.ImagePositionPatient for image in images], float) - np.array(first.ImagePositionPatient, float)
    shift = max(np.abs(way @ row).max() / spacing[1], np.abs(way @ column).max() / spacing[0])
    fits = spacing[0] == spacing[1] and shift < 0.005
    figures = f"{totals['rt_utils']} voxels differ" + ("" if fits else ", on a grid that it does not place right")
    say(case, "rt_utils", totals["rt_utils"] == 0 or not fits, figures)
    # It rounds points to pixels and leaves out some of those on the outline: told, not held against the file.
    structures, _ = transform_point_set_from_dicom_struct(image, structure)
    count = sum(
        differing(sitk.GetArrayFromImage(found), labels == segment["value"])
        for found, segment in zip(structures, facts["segments"])
    )
    say(case, "platipy reads all", len(structures) == len(facts["segments"]), f"{count} voxels differ")
    if shutil.which("plastimatch"):
        judge_plastimatch(case, directory, facts, labels, image)


def judge_plastimatch(case, directory, facts, labels, image):
    with tempfile.TemporaryDirectory() as work:
        sitk.WriteImage(image, f"{work}/grid.nrrd")
        words = ["plastimatch", "convert", "--input", str(directory / "mask.rt.dcm")]
        words += ["--fixed", f"{work}/grid.nrrd", "--output-prefix", f"{work}/out", "--prefix-format", "nrrd"]
        done = subprocess.run(words, capture_output=True, text=True)
        read = {file.stem: file for file in Path(work, "out").glob("*.nrrd")}
        count = 0
        missing = []
        for segment in facts["segments"]:
            found = [file for stem, file in read.items() if stem == segment["name"].replace("/", "_").replace(" ", "_")]
            if not found:
                found = [file for stem, file in read.items() if stem == segment["name"]]
            if not found:
                missing.append(segment["name"])
                continue
            mask = sitk.GetArrayFromImage(sitk.ReadImage(str(found[0])))
            count += differing(mask, labels == segment["value"])
        figures = f"{count} voxels differ; without {missing}; {sorted(read)}" + (done.stderr[-200:] if done.returncode else "")
        say(case, "plastimatch", count == 0 and not missing, figures)


def judge_nrrd(case, directory, facts):
    file = str(directory / "mask.seg.nrrd")
    labels = np.fromfile(directory / "labels.raw", np.uint8).reshape(facts["size"][::-1])
    read = slicerio.read_segmentation(file)
    names = [segment["name"] for segment in read["segments"]]
    say(case, "slicerio: names", names == [each["name"] for each in facts["segments"]], names)
    codes = [segment.get("terminology", {}).get("type") for segment in read["segments"]]
    wanted = [
        each["snomed"] and ["SCT", each["snomed"]["code"], each["snomed"]["meaning"]] for each in facts["segments"]
    ]
    say(case, "slicerio: codes", codes == wanted, codes)
    colours = [[round(255 * part) for part in segment["color"]] for segment in read["segments"]]
    wanted = [[int(each["color"][at : at + 2], 16) for at in (1, 3, 5)] for each in facts["segments"]]
    say(case, "slicerio: colours", colours == wanted, colours)
    say(case, "slicerio: voxels", np.array_equal(read["voxels"], labels.T), read["voxels"].shape)
    say(case, "pynrrd: voxels", np.array_equal(nrrd.read(file)[0], labels.T), "")
    image = sitk.ReadImage(file)
    say(case, "SimpleITK: voxels", np.array_equal(sitk.GetArrayFromImage(image), labels), image.GetSize())
    grid = sitk_image(sorted_images(facts["series"]))
    corner = [int(each) - 1 for each in image.GetSize()]
    off = max(
        float(np.abs(np.subtract(image.TransformIndexToPhysicalPoint(at), grid.TransformIndexToPhysicalPoint(at))).max())
        for at in ([0, 0, 0], corner)
    )
    say(case, "SimpleITK: place", off < 1e-2 * min(grid.GetSpacing()), f"{off:.2g} mm off")
    layered = slicerio.read_segmentation(str(directory / "layers.seg.nrrd"))
    good = True
    for segment in layered["segments"]:
        mask = layered["voxels"][segment["layer"]] == segment["labelValue"]
        wanted = labels.T == segment["labelValue"] if segment["layer"] == 0 else labels.T > 0
        good = good and np.array_equal(mask, wanted)
    say(case, "slicerio: layers", good and len(layered["voxels"]) == 2, layered["voxels"].shape)


def run(case, check, words, is_fault):
    if not shutil.which(words[0]):
        return
    done = subprocess.run(words, capture_output=True, text=True)
    faults = [line for line in (done.stdout + done.stderr).splitlines() if is_fault(line)]
    say(case, check, not faults, faults[:5])


def judge(directories):
    for each in map(Path, directories):
        facts = json.loads((each / "case.json").read_text())
        file = str(each / "mask.rt.dcm")
        judge_structures(each.name, each, facts)
        judge_nrrd(each.name, each, facts)
        # UIDs of the series are what they are.
        images = sorted_images(facts["series"])
        given = [images[0].StudyInstanceUID, images[0].SeriesInstanceUID, images[0].FrameOfReferenceUID]
        own = [*given, *(image.SOPInstanceUID for image in images)]
        run(
            each.name,
            "dciodvfy",
            ["dciodvfy", "-new", file],
            lambda line: line.startswith(("Error", "Warning")) and not any(uid in line for uid in own),
        )
        run(each.name, "dcmftest", ["dcmftest", file], lambda line: line.startswith("no:"))


if sys.argv[1] == "make":
    make(*sys.argv[2:])
elif sys.argv[1] == "itk":
    write_as_itk(*sys.argv[2:])
else:
    judge(sys.argv[2:])
