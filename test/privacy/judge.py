"""Plants words in DICOM files, and judges what becomes of them with pydicom.

plant DIRECTORY        copies of the files of pydicom and pydicom-data, as they are and with a word in every text; prints them
judge FILE             a list of [file, the same de-identified] as JSON; prints what is wrong with the pixels of each
"""

import copy
import importlib.util
import json
import random
import string
import sys
from pathlib import Path

import numpy
import pydicom
from pydicom import config
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset
from pydicom.encaps import generate_fragments
from pydicom.sequence import Sequence
from pydicom.tag import Tag

config.settings.reading_validation_mode = config.IGNORE
config.settings.writing_validation_mode = config.IGNORE

TEXTS = {"AE", "AS", "CS", "DA", "DS", "DT", "IS", "LO", "LT", "PN", "SH", "ST", "TM", "UC", "UI", "UR", "UT"}
# Without these, a file cannot be read at all.
STRUCTURE = {0x00020010, 0x00020000, 0x00080005}
CLASS = {0x00080016, 0x00020002}
ENDS = {"1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2", "1.2.840.10008.1.2.1.99"}


def files():
    for name in ("pydicom", "data_store"):
        root = Path(importlib.util.find_spec(name).origin or "").parent / "data"
        yield from (file for file in sorted(root.rglob("*")) if file.is_file() and file.suffix not in {".py", ".pyc"})


def word_in(vr, word, digits):
    if vr == "UI":
        return [f"1.2.840.10008.5.1.4.{digits}", f"1.2.3.{word}"]
    if vr == "PN":
        return f"{word}^{word}={word}"
    return word if vr == "AS" or random.random() < 0.5 else [word, word]


def write(dataset, tag, vr, value):
    """Sets an element; what pydicom takes for no number is set as the bytes that it writes."""
    if vr in {"DS", "IS"}:
        text = value if isinstance(value, str) else "\\".join(value)
        raw = (text + " " * (len(text) % 2)).encode()
        dataset[tag] = RawDataElement(Tag(tag), vr, len(raw), raw, 0, False, True)
    else:
        dataset.add_new(tag, vr, value)


def plant(dataset, word, digits, kept, depth=0):
    for element in list(dataset):
        if element.tag in kept:
            continue
        if element.VR == "SQ":
            for item in element.value:
                plant(item, word, digits, kept, depth + 1)
        elif element.VR in TEXTS:
            write(dataset, element.tag, element.VR, word_in(element.VR, word, digits))
    if depth > 3:
        return
    for tag, vr in [(0x00104000, "LT"), (0x00081030, "LO"), (0x00080201, "SH"), (0x00400275, "SQ"), (0x00181250, "SH"),
                    (0x00180015, "CS"), (0x00189005, "SH"), (0x00280303, "CS"), (0x00120063, "LO"), (0x00181210, "SH"),
                    (0x00080104, "LO"), (0x00080100, "SH"), (0x00180010, "LO"), (0x00081072, "SQ"), (0x00082218, "SQ"),
                    (0x00080021, "DA"), (0x00080031, "TM"), (0x0008002A, "DT"), (0x00101030, "DS"), (0x00089215, "SQ")]:
        if tag in dataset:
            continue
        value = word_in(vr, word, digits) if vr != "SQ" else None
        if vr == "SQ":
            item = Dataset()
            plant(item, word, digits, kept, depth + 1)
            value = Sequence([item])
        write(dataset, tag, vr, value)
    block = dataset.private_block(0x0099, word, create=True)
    block.add_new(1, "LO", word)
    block.add_new(2, "OB", word.encode() * 2)
    block.add_new(3, "SQ", Sequence([Dataset()]))
    dataset.add_new(0x60000022, "LO", word)
    dataset.add_new(0x50002600, "LO", word)


def planted(file, target, kept):
    """A copy of a file with a word in it, or None where it cannot be written with one."""
    word = "QX" + "".join(random.choices(string.ascii_uppercase, k=8))
    digits = "".join(random.choices("123456789", k=12))
    dataset = pydicom.dcmread(file, force=True)
    if not any(tag in dataset for tag in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        return None
    dataset = copy.deepcopy(dataset)
    plant(dataset, word, digits, STRUCTURE | kept)
    if hasattr(dataset, "file_meta"):
        for element in list(dataset.file_meta):
            if element.tag not in STRUCTURE | kept:
                value = word.encode() if element.VR == "OB" else word
                dataset.file_meta[element.tag] = DataElement(element.tag, element.VR, value)
        dataset.file_meta.add_new(0x00020016, "AE", word)
        dataset.preamble = (word.encode() * 20)[:128]
    dataset.add_new(0xFFFCFFFC, "OB", word.encode() * 10)
    dataset.save_as(target)
    if dataset.file_meta.TransferSyntaxUID != "1.2.840.10008.1.2.1.99":
        with open(target, "ab") as stream:
            stream.write(word.encode())
    return [word, digits]


def main_plant(directory):
    random.seed(int.from_bytes(random.SystemRandom().randbytes(4), "big"))
    rows = []
    for number, file in enumerate(files()):
        row = {"file": str(file), "planted": []}
        for way, kept in (("class", CLASS | {0x00080060}), ("all", set())):
            target = Path(directory) / f"{number:04d}-{way}.dcm"
            try:
                words = planted(file, target, kept)
            except Exception as error:  # What pydicom cannot read or write is no file for this test.
                row["unread"] = f"{type(error).__name__}: {error}"[:200]
                continue
            if words:
                row["planted"].append({"file": str(target), "words": words})
        rows.append(row)
    print(json.dumps(rows))


def pixels_of(dataset):
    for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData"):
        if name in dataset:
            element = dataset[name]
            return element, element.value
    return None, b""


def described(dataset):
    """Bytes that pixels have by their description, with the padding: what a file has behind them is left out."""
    bits = dataset.Rows * dataset.Columns * dataset.SamplesPerPixel * dataset.BitsAllocated
    length = -(-bits * int(dataset.get("NumberOfFrames") or 1) // 8)
    return length + length % 2


def compare(before, after):
    """What differs between the pixels of two files."""
    one, other = (pydicom.dcmread(file, force=True) for file in (before, after))
    (element, first), (_, second) = pixels_of(one), pixels_of(other)
    syntax = str(getattr(one.file_meta, "TransferSyntaxUID", ""))
    if element is not None and element.is_undefined_length:
        # The first part is the table of offsets.
        parts = [[bytes(part) for part in generate_fragments(value)][1:] for value in (first, second)]
        if parts[0] != parts[1]:
            return "fragments differ"
    elif first[: len(second)] != second or (len(first) - len(second) > 1 and len(second) != described(one)):
        return f"pixels differ: {len(first)} bytes, {len(second)} bytes"
    if syntax in ENDS or syntax == "1.2.840.10008.1.2.5":
        try:
            array = one.pixel_array
        except Exception:  # Not readable before either.
            return None
        if not numpy.array_equal(array, other.pixel_array):
            return "pixel_array differs"
    for keyword in ("PixelSpacing", "ImagePositionPatient", "ImageOrientationPatient", "RescaleSlope", "RescaleIntercept"):
        if one.get(keyword) != other.get(keyword):
            return f"{keyword} differs: {one.get(keyword)} {other.get(keyword)}"
    return None


def main_judge(file):
    rows = json.loads(Path(file).read_text())
    print(json.dumps([compare(before, after) for before, after in rows]))


{"plant": main_plant, "judge": main_judge}[sys.argv[1]](sys.argv[2])
