"""Prints templates/from/totalsegmentator/tasks.json: facts about the tasks of the installed TotalSegmentator, one task a line."""

import csv
import importlib.metadata
import json
from pathlib import Path

import totalsegmentator
from totalsegmentator.map_tasks_config import DEFAULT_CONFIG, TASK_CONFIGS, TASK_ID_WEIGHTS_CONFIGS
from totalsegmentator.registry import TASKS, get_task_classes, requires_license, task_modality

# What the package says, in its own words, of labels that are no anatomical structures (cysts, implants, fat) is left out:
# `snomed` of a terminology is a code of anatomy.
ANATOMICAL_STRUCTURE = "123037004"

networks = {}


def network(task_id, trainer, model="3d_fullres", folds=(0,), plans="nnUNetPlans"):
    """Notes where the weights of a network are; returns its number."""
    info = TASK_ID_WEIGHTS_CONFIGS[task_id]
    release = info.get("version")
    if release == "TODO":
        raise LookupError(info["foldername"])
    entry = {
        "folder": info["foldername"],
        "release": release,
        "network": f"{trainer}__{plans}__{model}",
        "folds": None if folds is None else list(folds),
    }
    if networks.setdefault(str(task_id), entry) != entry:
        raise ValueError(f"Two networks have the number {task_id}")
    return task_id


def networks_of(task, mode):
    """The numbers of all networks that a task runs, those that find where to crop first."""
    settings = TASK_CONFIGS[task]
    config = {**DEFAULT_CONFIG, **settings.get("sub_modes", {}).get(mode, settings)}
    is_mr = task.endswith("_mr")
    found = []
    if config["crop"]:
        if config["crop_model"]:
            found += networks_of(config["crop_model"], "default")
        elif {"body_trunc", "body_extremities"} & set(config["crop"]):
            found.append(network(300, "nnUNetTrainer"))
        elif is_mr:
            found.append(network(852, "nnUNetTrainer_2000epochs_NoMirroring"))
        else:
            found.append(network(297 if config["robust_crop"] else 298, "nnUNetTrainer_4000epochs_NoMirroring"))
    if task == "vertebrae_pp_refined":
        found.append(network(305, "nnUNetTrainer_DASegOrd0"))
    ids = config["task_id"] if isinstance(config["task_id"], list) else [config["task_id"]]
    more = (config["model"], config["folds"], config["plans"] or "nnUNetPlans")
    return found + [network(each, config["trainer"], *more) for each in ids]


def structures(names):
    """The colours and codes that the package has for these labels."""
    file = Path(totalsegmentator.__file__).parent / "resources" / "totalsegmentator_snomed_mapping.csv"
    with open(file, encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            if row["Structure"] not in names:
                continue
            color = "#" + "".join(f"{int(part):02x}" for part in row["DicomRGBColor"].split(","))
            code, kind = "SegmentedPropertyTypeCodeSequence", "SegmentedPropertyCategoryCodeSequence"
            is_anatomy = row[f"{kind}.CodeValue"] == ANATOMICAL_STRUCTURE and row[f"{code}.CodingSchemeDesignator"] == "SCT"
            snomed = {"snomed": {"code": row[f"{code}.CodeValue"], "meaning": row[f"{code}.CodeMeaning"]}} if is_anatomy else {}
            yield row["Structure"], {"color": color, **snomed}


tasks = {}
for task in TASKS:
    labels = get_task_classes(task)
    if sorted(labels) != list(range(1, len(labels) + 1)):
        raise ValueError(f"The labels of {task} are not 1, 2, 3 and so on")
    settings = TASK_CONFIGS[task]
    try:
        modes = {mode: networks_of(task, mode) for mode in ("default", "fast") if mode == "default" or mode in settings.get("sub_modes", {})}
    except (LookupError, KeyError):
        continue  # weights that were never published
    tasks[task] = {
        "modality": task_modality(task),
        "licence": requires_license(task),
        **modes,
        "labels": [labels[value] for value in sorted(labels)],
    }

facts = {
    "source": "The tables of TotalSegmentator (Apache-2.0), by test/frameworks/totalsegmentator_tasks.py",
    "version": importlib.metadata.version("TotalSegmentator"),
    "releases": "https://github.com/wasserth/TotalSegmentator/releases/download",
    "networks": dict(sorted(networks.items(), key=lambda item: int(item[0]))),
    "tasks": tasks,
    "structures": dict(structures({name for each in tasks.values() for name in each["labels"]})),
}


def on_lines(value):
    """JSON with a line for each entry of each table."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{\n" + ",\n".join(f"    {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()) + "\n  }"


print("{\n" + ",\n".join(f"  {json.dumps(key)}: {on_lines(each)}" for key, each in facts.items()) + "\n}")
