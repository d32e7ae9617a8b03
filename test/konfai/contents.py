"""
Prints what the files of a directory hold, as a JSON object from their names to sums. A sum is that of the file's bytes,
except where KonfAI's engine itself writes other bytes at every run:

- DICOM: everything but the identifiers and the time that the engine makes up;
- checkpoints: every record of the archive, under its name without the archive's own, which is random;
- logs: only that they are there, since their times, speeds and memory differ.
"""

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import pydicom

made_up = {"SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID", "StudyTime", "StudyDate"}


def of_dicom(file: Path) -> bytes:
    elements = [element for element in pydicom.dcmread(file) if element.keyword not in made_up]
    return repr([(str(element.tag), element.VR, element.value) for element in elements]).encode()


def of_checkpoint(file: Path) -> bytes:
    with zipfile.ZipFile(file) as archive:
        records = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
    return b"".join(
        name.encode() + hashlib.sha256(records[name]).digest()
        for name in sorted(records)
        if name != ".data/serialization_id"
    )


def content(file: Path) -> bytes:
    if file.name.startswith("log_"):
        return b"a log"
    if file.suffix == ".dcm":
        return of_dicom(file)
    if file.suffix == ".pt":
        return of_checkpoint(file)
    return file.read_bytes()


def sum_of(file: Path) -> str:
    try:
        return hashlib.sha256(content(file)).hexdigest()
    except Exception as error:
        return f"unreadable: {error}"


root = Path(sys.argv[1])
files = sorted(file for file in root.rglob("*") if file.is_file() and file.name != "result.zip")
print(json.dumps({str(file.relative_to(root)): sum_of(file) for file in files}))
