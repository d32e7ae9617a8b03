"""What other implementations read of the segmentations and the derived series that this program writes.

make HEAD DIRECTORY      cases: a series, label maps of it in several orders of their axes, and its values, by pydicom and nibabel
judge CASE...            prints a line of JSON for each check
"""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import highdicom as hd
import nibabel as nib
import numpy as np
import pydicom

to_ras = np.diag([-1, -1, 1, 1])
names = {1: "Grün", 2: "Brain", 7: "Skull"}
half = np.sqrt(0.5)
turn = np.array([[0.8, -0.6, 0], [0.48, 0.64, -0.6], [0.36, 0.48, 0.8]])


def sorted_images(files):
    images = [pydicom.dcmread(file) for file in files]
    for image in images:
        # The files of the head have elements of a group that pydicom does not write.
        for tag in [tag for tag in image.keys() if tag.group == 0]:
            del image[tag]
    normal = np.cross(images[0].ImageOrientationPatient[:3], images[0].ImageOrientationPatient[3:])
    return sorted(images, key=lambda image: np.dot(normal, image.ImagePositionPatient))


def affine_of(images):
    """From indices of columns, rows and slices to millimetres to the right, to the front and upwards."""
    first, last = images[0], images[-1]
    row, column = (np.array(first.ImageOrientationPatient[at : at + 3], float) for at in (0, 3))
    start = np.array(first.ImagePositionPatient, float)
    step = (np.array(last.ImagePositionPatient, float) - start) / (len(images) - 1)
    affine = np.eye(4)
    affine[:3] = np.stack(
        [row * float(first.PixelSpacing[1]), column * float(first.PixelSpacing[0]), step, start], axis=1
    )
    return to_ras @ affine


def singles_of(labels):
    """What has a mask of its own: each label, all of them, and nothing."""
    return {"body": labels > 0, "brain": labels == 2, "empty": labels > 99, "green": labels == 1, "skull": labels == 7}


def write_case(directory, images, orders, enhanced=False):
    (directory / "series").mkdir(parents=True)
    affine = affine_of(images)
    values = np.stack([image.pixel_array.T for image in images], axis=2).astype(np.int16)
    bounds = np.quantile(values, [0.5, 0.8, 0.95])
    labels = np.array([0, 1, 2, 7], np.uint8)[np.searchsorted(bounds, values)]
    if enhanced:
        images = [
            hd.legacy.LegacyConvertedEnhancedMRImage(
                images, hd.UID(), 3, hd.UID(), 1
            )
        ]
    for at, image in enumerate(images):
        image.save_as(directory / "series" / f"{len(images) - at}.dcm")
    for at, order in enumerate(orders):
        mask = nib.Nifti1Image(labels, affine).as_reoriented(np.array(order))
        nib.save(mask, directory / f"mask-{at}.nii.gz")
    for name, voxels in singles_of(labels).items():
        nib.save(nib.Nifti1Image(voxels.astype(np.uint8), affine).as_reoriented(np.array(orders[-1])), directory / f"single-{name}.nii.gz")
    nib.save(nib.Nifti1Image(values, affine), directory / "scan.nii.gz")
    np.savez(directory / "truth.npz", labels=labels, values=values, affine=affine)


plain = [[0, 1], [1, 1], [2, 1]]
all_orders = [
    list(map(list, zip(axes, flips)))
    for axes in itertools.permutations(range(3))
    for flips in itertools.product([1, -1], repeat=3)
]


def moved(files, orientation, spacing, step, crop, shift=0):
    """A part of a series at another place, with UIDs of its own; of a tilted gantry with a shift of each slice along its columns."""
    way = step * np.cross(orientation[:3], orientation[3:]) + shift * np.array(orientation[3:])
    series, frame, study = hd.UID(), hd.UID(), hd.UID()
    for at, image in enumerate(sorted_images(files)):
        image.StudyInstanceUID, image.SeriesInstanceUID, image.FrameOfReferenceUID = study, series, frame
        image.SOPInstanceUID = image.file_meta.MediaStorageSOPInstanceUID = hd.UID()
        pixels = image.pixel_array[crop]
        image.Rows, image.Columns = pixels.shape
        image.PixelData = pixels.tobytes()
        image.PixelSpacing = list(spacing)
        image.SliceThickness = step
        image.ImageOrientationPatient = [f"{part:.9f}" for part in orientation]
        image.ImagePositionPatient = [f"{part:.6f}" for part in np.array([-12.5, 33.3, -99.9]) + at * way]
        yield image


def make(head, directory):
    files = sorted(Path(head).iterdir())
    directory = Path(directory)
    write_case(directory / "head", sorted_images(files), [plain, all_orders[13], all_orders[42]])
    small = (slice(100, 107), slice(90, 99))
    geometry = ([*turn[0], *turn[1]], (0.82, 0.41), 1.5)
    write_case(directory / "oblique", list(moved(files[:5], *geometry, small)), all_orders)
    write_case(directory / "tilted", list(moved(files[:5], *geometry, small, shift=0.57)), all_orders)
    coronal = ([1, 0, 0, 0, half, -half], (1.1, 0.7), 2.0)
    some = (slice(60, 161), slice(80, 181))
    write_case(directory / "enhanced", list(moved(files, *coronal, some)), [plain, all_orders[30]], enhanced=True)


def say(case, check, good, figures):
    print(json.dumps({"case": case, "check": check, "good": bool(good), "figures": figures}), flush=True)


def on_grid(array, affine, truth):
    """An array of highdicom on the grid of the truth."""
    way = np.linalg.inv(truth["affine"]) @ affine
    indices = np.indices(array.shape).reshape(3, -1)
    places = np.rint(way[:3, :3] @ indices + way[:3, 3:]).astype(int)
    placed = np.zeros_like(truth["labels"])
    placed[tuple(places)] = array.ravel()
    return placed


def uids_of(images):
    normal = np.cross(images[0].ImageOrientationPatient[:3], images[0].ImageOrientationPatient[3:])
    return [image.SOPInstanceUID for image in sorted(images, key=lambda each: np.dot(normal, each.ImagePositionPatient))]


def judge_singles(case, file, truth, images):
    seg = hd.seg.segread(file)
    wanted = {name: voxels for name, voxels in singles_of(truth["labels"]).items() if voxels.any()}
    called = {number: str(seg.get_segment_description(number).segment_label) for number in seg.segment_numbers}
    differ = 0
    for number, name in called.items():
        if case == "tilted":
            found = seg.get_pixels_by_source_instance(uids_of(images), segment_numbers=[number], assert_missing_frames_are_empty=True)
            placed = found[..., 0].transpose(2, 1, 0)
        else:
            volume = seg.get_volume(segment_numbers=[number], combine_segments=True, relabel=True)
            placed = on_grid(volume.array, to_ras @ volume.affine, truth)
        differ += int(np.count_nonzero((placed > 0) != wanted.get(name, placed < 0)))
    return differ, sorted(called.values()) == sorted(wanted)


def judge_tilted(seg, truth, images, value_of):
    """highdicom makes no volume of slices that are shifted against each other: their labels are asked for by the images."""
    uids = uids_of(images)
    found = seg.get_pixels_by_source_instance(uids, combine_segments=True, assert_missing_frames_are_empty=True)
    labels = np.vectorize(value_of.get)(found).astype(np.uint8).transpose(2, 1, 0)
    places = {image.SOPInstanceUID: np.array(image.ImagePositionPatient, float) for image in images}
    aside = 0
    for frame in seg.PerFrameFunctionalGroupsSequence:
        of = places[frame.DerivationImageSequence[0].SourceImageSequence[0].ReferencedSOPInstanceUID]
        at = np.array(frame.PlanePositionSequence[0].ImagePositionPatient, float)
        aside += int(np.abs(of - at).max() > 1e-4)
    return int(np.count_nonzero(labels != truth["labels"])) + aside


def judge_seg(case, file, truth, images):
    seg = hd.seg.segread(file)
    numbers = [number for number in seg.segment_numbers if number > 0]
    described = {number: seg.get_segment_description(number) for number in numbers}
    value_of = {0: 0, **{n: int(str(each.SegmentDescription).split()[-1]) for n, each in described.items()}}
    if case == "tilted":
        differ = judge_tilted(seg, truth, images, value_of)
    else:
        volume = seg.get_volume(combine_segments=True)
        array = np.vectorize(value_of.get)(volume.array).astype(np.uint8)
        differ = int(np.count_nonzero(on_grid(array, to_ras @ volume.affine, truth) != truth["labels"]))
    called = {value_of[number]: str(each.segment_label) for number, each in described.items()}
    same = ["PatientName", "PatientID", "PatientBirthDate", "StudyInstanceUID", "StudyDate", "StudyID"]
    other = [name for name in same if seg.get(name) != images[0].get(name)]
    referred = {
        image.ReferencedSOPInstanceUID for image in seg.ReferencedSeriesSequence[0].ReferencedInstanceSequence
    }
    is_all = referred == {image.SOPInstanceUID for image in images}
    return differ, called == names and not other and is_all and seg.FrameOfReferenceUID == images[0].FrameOfReferenceUID


def faults_of(words, is_fault):
    if not shutil.which(words[0]):
        return []
    done = subprocess.run(words, capture_output=True, text=True)
    return [line for line in (done.stdout + done.stderr).splitlines() if is_fault(line)]


def judge_form(case, name, file, known):
    # What the series says itself, and what an older dciodvfy does not know yet.
    def is_fault(line):
        if not line.startswith("Error") or any(uid in line for uid in known):
            return False
        return "invalid data values for Value Representations" not in line and "Information Object Not" not in line
    faults = faults_of(["dciodvfy", "-new", str(file)], is_fault)
    faults += faults_of(["dcmftest", str(file)], lambda line: line.startswith("no:"))
    if faults:
        say(case, f"form of {name}", False, faults[:5])
    return not faults


def judge(directories):
    for directory in map(Path, directories):
        case, truth = directory.name, np.load(directory / "truth.npz")
        images = [pydicom.dcmread(file) for file in sorted((directory / "series").iterdir())]
        known = {image.get(key) for image in images for key in ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")}
        segs = sorted(directory.glob("*.seg.dcm"))
        results = [judge_seg(case, file, truth, images) for file in segs]
        count = len(results)
        say(case, "highdicom: voxels of segmentations", all(differ == 0 for differ, _ in results), f"{count} orders of axes")
        say(case, "highdicom: names, patient, study, references", all(good for _, good in results), f"{count} files")
        for file in directory.glob("*.map.dcm"):
            differ, good = judge_seg(case, file, truth, images)
            say(case, "highdicom: map of labels", differ == 0 and good, f"{differ} voxels differ")
        differ, good = judge_singles(case, directory / "segments.dcm", truth, images)
        say(case, "highdicom: masks of single segments in one file", differ == 0 and good, f"{differ} voxels differ")
        segs.insert(0, directory / "segments.dcm")
        say(case, "dciodvfy and dcmftest: segmentations", all(judge_form(case, file.name, file, known) for file in segs[:4]), "")
        derived = sorted_images(sorted((directory / "derived").iterdir()))
        values = np.stack([image.pixel_array.T * image.RescaleSlope + image.RescaleIntercept for image in derived], axis=2)
        say(case, "pydicom: values of the derived series", np.array_equal(values, truth["values"]), values.shape)
        off = float(np.abs(affine_of(derived) - truth["affine"]).max())
        say(case, "pydicom: place of the derived series", off < 1e-4, f"{off:.2g} mm off")
        say(case, "dciodvfy and dcmftest: derived series", judge_form(case, "derived", directory / "derived" / "0001.dcm", known), "")


if sys.argv[1] == "make":
    make(*sys.argv[2:])
else:
    judge(sys.argv[2:])
