"""Plants words in DICOM files, and judges what becomes of them with pydicom.

plant DIRECTORY        copies of the files of pydicom and pydicom-data, as they are and with a word in every text; prints them
sources                the files of pydicom, pydicom-data and nibabel; prints them
send FILE              copies of the files of a list with [file, target, whether it is a slice of a series, word, digits] as JSON, with
                       the word in every text; prints the targets
others FILE            what other tools would still remove or replace in the files of a list as JSON: their attributes, by tool
judge FILE             a list of [file, the same de-identified] as JSON; prints what is wrong with the pixels of each
"""

import copy
import gzip
import importlib.util
import io
import json
import os
import random
import string
import sys
from pathlib import Path

import numpy
import pydicom
from deid.config import DeidRecipe
from deid.dicom import replace_identifiers
from dicomanonymizer.simpledicomanonymizer import anonymize_dataset, initialize_actions
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


DEEP = 2


def plant(dataset, word, digits, kept, depth=0):
    for element in list(dataset):
        if element.tag in kept:
            continue
        if element.VR == "SQ":
            for at, item in enumerate(element.value):
                # Of frames there are hundreds: to the first two attributes are added, in the others texts are replaced.
                plant(item, word, digits, kept, depth + 1 if at < 2 else DEEP + 1)
        elif element.VR in TEXTS:
            write(dataset, element.tag, element.VR, word_in(element.VR, word, digits))
    if depth > DEEP:
        return
    for tag, vr in [(0x00104000, "LT"), (0x00081030, "LO"), (0x00080201, "SH"), (0x00400275, "SQ"), (0x00181250, "SH"),
                    (0x00180015, "CS"), (0x00189005, "SH"), (0x00280303, "CS"), (0x00120063, "LO"), (0x00181210, "SH"),
                    (0x00080104, "LO"), (0x00080100, "SH"), (0x00180010, "LO"), (0x00081072, "SQ"), (0x00082218, "SQ"),
                    (0x00080021, "DA"), (0x00080031, "TM"), (0x0008002A, "DT"), (0x00101030, "DS"), (0x00089215, "SQ")]:
        if tag in dataset or tag in kept:
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
    for at, vr in enumerate(sorted(TEXTS)):
        write(dataset, 0x00991010 + at, vr, word_in(vr, word, digits))
    for at, encoding in enumerate(("utf-16-le", "utf-16-be")):
        block.add_new(0x40 + at, "UN", word.encode(encoding) * 2)
    dataset.add_new(0x60000022, "LO", word)
    dataset.add_new(0x50002600, "LO", word)


def new_words():
    return "QX" + "".join(random.choices(string.ascii_uppercase, k=8)), "".join(random.choices("123456789", k=12))


def planted(file, target, kept, words):
    """A copy of a file with a word in it, or None where it cannot be written with one."""
    word, digits = words
    dataset = pydicom.dcmread(file, force=True)
    if not any(tag in dataset for tag in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        return None
    dataset = copy.deepcopy(dataset)
    # pydicom does not write these.
    for element in list(dataset.group_dataset(0)):
        del dataset[element.tag]
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
            stream.write(word.encode() + word.encode("utf-16-le") + word.encode("utf-16-be"))
    return words


def needed():
    """Attributes with numbers and times that readers need: a file with a word in their place is refused."""
    return {int(tag, 16) for tag in os.environ["NEEDED_ATTRIBUTES"].split()}


def main_plant(directory):
    random.seed(int.from_bytes(random.SystemRandom().randbytes(4), "big"))
    rows = []
    for number, file in enumerate(files()):
        row = {"file": str(file), "planted": []}
        for way, kept in (("class", CLASS | {0x00080060} | needed()), ("all", needed())):
            target = Path(directory) / f"{number:04d}-{way}.dcm"
            try:
                words = planted(file, target, kept, new_words())
            except Exception as error:  # What pydicom cannot read or write is no file for this test.
                row["unread"] = f"{type(error).__name__}: {error}"[:200]
                continue
            if words:
                row["planted"].append({"file": str(target), "words": words})
        rows.append(row)
    print(json.dumps(rows))


# Without these, the slices of a series are none.
SERIES = {0x00080018, 0x0020000D, 0x0020000E, 0x00200052, 0x00200013, 0x00200032, 0x00200037, 0x00280030}


def main_sources():
    nibabel = Path(importlib.util.find_spec("nibabel").origin).parent
    data = [path for name in ("tests", "nicom/tests") for path in sorted((nibabel / name / "data").iterdir())]
    print(json.dumps([str(file) for file in (*files(), *data) if file.suffix not in {".py", ".pyc"} and file.is_file()]))


def main_send(file):
    sent = []
    for source, target, series, word, digits in json.loads(Path(file).read_text()):
        # Slices of a series have the same word, and the same number of it in each attribute.
        random.seed(word)
        kept = CLASS | {0x00080060} | needed() | (SERIES if series else set())
        stream = source
        if source.endswith(".gz"):
            stream = io.BytesIO(gzip.decompress(Path(source).read_bytes()))
        try:
            if planted(stream, target, kept, (word, digits)) is None:
                continue
        except Exception:  # What pydicom cannot read or write is no file for this test.
            continue
        if series:
            with_uids(target, digits)
        sent.append(target)
    print(json.dumps(sent))


def with_uids(file, digits):
    """Gives a slice of a series UIDs with the digits: what they were is told by their ends."""
    dataset = pydicom.dcmread(file)
    for keyword in ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID"):
        if keyword in dataset:
            setattr(dataset, keyword, f"1.2.3.{digits}.{dataset[keyword].value[-24:].lstrip('.0')}")
    dataset.save_as(file)


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


def items_of(dataset):
    """A data set and the items of its sequences, at every depth."""
    yield dataset
    for element in dataset:
        if element.VR == "SQ":
            for item in element.value:
                yield from items_of(item)


def differing(before, after):
    """The attributes that have a value before and another one, or none, after."""
    return {
        f"{element.tag.group:04x}{element.tag.element:04x}"
        for element in before
        if element.VR != "SQ" and not element.is_empty and element != after.get(element.tag)
    }


def by_dicom_anonymizer(file):
    found = set()
    # Its rules are for the data set itself: they are applied to the items of sequences as well.
    for before in items_of(pydicom.dcmread(file)):
        after = copy.deepcopy(before)
        anonymize_dataset(after, base_rules_gen=lambda: initialize_actions("dicomfields_2026c"))
        found |= differing(before, after)
    return found


def by_deid(file):
    before = pydicom.dcmread(file)
    (after,) = replace_identifiers([file], save=False, deid=DeidRecipe(), strip_sequences=False)
    found = differing(before, after)
    # Those of sequences it names by their own words.
    for element in before:
        if element.VR == "SQ":
            there = after.get(element.tag)
            if there is None:
                found.add(f"{element.tag.group:04x}{element.tag.element:04x}")
                continue
            for old, new in zip(element.value, there.value):
                for one, other in zip(items_of(old), items_of(new)):
                    found |= differing(one, other)
    return found


def main_others(file):
    rows = {"dicom-anonymizer": {}, "deid": {}}
    for each in json.loads(Path(file).read_text()):
        for tool, judge in (("dicom-anonymizer", by_dicom_anonymizer), ("deid", by_deid)):
            for tag in judge(each):
                rows[tool].setdefault(tag, []).append(each)
    print(json.dumps(rows))


def main_judge(file):
    rows = json.loads(Path(file).read_text())
    print(json.dumps([compare(before, after) for before, after in rows]))


{"plant": main_plant, "sources": main_sources, "send": main_send, "others": main_others, "judge": main_judge}[sys.argv[1]](*sys.argv[2:])
