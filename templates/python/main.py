"""An app for remote-app. The server runs: python3 main.py infer APP --output DIR --inputs FILE... (and more flags)."""

import argparse
import os
import sys
from pathlib import Path


def predict(volumes: list[Path], target: Path, options: argparse.Namespace) -> None:
    """YOUR MODEL GOES HERE: reads one case, one volume of each group of inputs, and writes its result to `target`.

    This one copies the first volume, and prints a parameter. A volume is a file, or the directory of a DICOM series or of a
    Zarr store.
    """
    print("threshold:", float(setting(options, "threshold", "0.5")), flush=True)
    source = volumes[0]
    files = [file for file in source.rglob("*") if file.is_file()] if source.is_dir() else [source]
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


def setting(options: argparse.Namespace, name: str, default: str) -> str:
    """What --set NAME=VALUE says. `parameters` of app.json says what it may be: all else is refused before the job."""
    return dict(each.split("=", 1) for each in options.set).get(name, default)


def refuse(sentence: str) -> None:
    """Ends the job with a sentence for the person who sent it: what is wrong with the input, and what to do."""
    place = os.environ.get("REMOTE_APP_REFUSAL_FILE")
    if place:
        Path(place).write_text(sentence, encoding="utf-8")
    sys.exit(sentence)


def parse_arguments() -> argparse.Namespace:
    """Every flag that an inference may come with, in the order in which they come."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("operation", choices=["infer"])
    parser.add_argument("app", help="this directory")
    parser.add_argument("--tta", type=int, default=0)
    parser.add_argument("--mc", type=int, default=0)
    parser.add_argument("--prediction_file", default="Prediction.yml")
    parser.add_argument("-uncertainty", action="store_true")  # with one dash
    parser.add_argument("--ensemble_models", nargs="+", default=[])
    parser.add_argument("--ensemble", type=int, default=0)
    parser.add_argument("--patch_size", nargs="+", type=int)
    parser.add_argument("--max_voxels", type=int)
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--gpu", nargs="+", type=int, default=[])
    parser.add_argument("--cpu", type=int, default=1)
    # Once for each group: [[group 1, case 1], [group 1, case 2]], then [[group 2, case 1], ...].
    parser.add_argument("--inputs", action="append", nargs="+", type=Path, required=True)
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    if len({len(group) for group in options.inputs}) > 1:
        refuse("The groups of inputs have different numbers of volumes: give as many in each")
    cases = list(zip(*options.inputs))
    options.output.mkdir(parents=True, exist_ok=True)
    for number, volumes in enumerate(cases, start=1):
        print(f"Case {number}/{len(cases)}: {volumes[0].name}", flush=True)
        predict(list(volumes), options.output / volumes[0].name, options)


if __name__ == "__main__":
    main()
