"""Compares labels with the truth, and folds with each other; with numpy, scipy and SimpleITK alone."""

import json

import numpy
import SimpleITK
from cases import APP, read_series, refuse
from scipy import ndimage


def settings_of(name):
    """The lines `name: number` of a file of settings."""
    settings = {"tolerance_mm": 1.0, "percentile": 95.0}
    file = APP / name
    if not file.is_file():
        refuse(f"There is no file {name} in this app")
    for line in file.read_text(encoding="utf-8").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        if not colon:
            continue
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if key.strip() not in settings or number < 0:
            refuse(f"{name} has '{line.strip()}': it takes {' and '.join(settings)}, each with a number")
        settings[key.strip()] = number
    return settings


def check_counts(volumes, options):
    """Refuses before the work is done what would be refused after it."""
    for flag, groups in (("--gt", options.gt), ("--mask", options.mask)):
        if groups and len(groups[0]) != len(volumes):
            refuse(f"{flag} has {len(groups[0])} volumes, and there are {len(volumes)} cases: give one for each")


def read(file):
    try:
        return read_series(file) if file.is_dir() else SimpleITK.ReadImage(str(file))
    except RuntimeError as error:
        refuse(f"{file.name} cannot be read: {str(error).strip().splitlines()[-1]}")


def read_labels(file, like):
    """A volume of labels and its values, on the grid of another."""
    image = read(file)
    if like is not None:
        sizes = [" x ".join(map(str, each.GetSize())) for each in (image, like)]
        if image.GetSize() != like.GetSize():
            refuse(f"{file.name} has {sizes[0]} voxels, and its prediction {sizes[1]}: resample it first")
        apart = max(abs(one - other) for one, other in zip(image.GetOrigin(), like.GetOrigin()))
        is_same = numpy.allclose(image.GetSpacing(), like.GetSpacing(), atol=1e-3) and numpy.allclose(image.GetDirection(), like.GetDirection(), atol=1e-2)
        if not is_same or apart > min(like.GetSpacing()) / 2:
            refuse(f"{file.name} lies elsewhere in space than its prediction: resample it first")
    return image, SimpleITK.GetArrayFromImage(image)


def labels_of(file, values, known):
    """The values of a volume as labels. What is no label is refused; labels that the app does not know are refused or, beside known ones, reported."""
    if values.dtype.kind == "f":
        # A slope in the header leaves 0.996 of a 1.
        numbers = numpy.nan_to_num(values)
        values = numpy.rint(numbers)
        worst = numpy.abs(numbers - values).argmax()
        if abs(numbers.flat[worst] - values.flat[worst]) > 0.01:
            refuse(f"{file.name} has the value {numbers.flat[worst]:g}, which is not a label: give a volume of labels")
    found = {int(value) for value in numpy.unique(values)} - {0}
    strange = sorted(found - known)
    if strange:
        words = ", ".join(map(str, strange[:5])) + (", ..." if len(strange) > 5 else "")
        if len(strange) == len(found):
            refuse(f"{file.name} has the values {words}, and the labels of this app are {', '.join(map(str, sorted(known)))}: give its labels these values")
        print(f"{file.name} has the values {words}, which are not labels of this app: they are not compared", flush=True)
    return values


def box_of(mask):
    """The least box that holds all of a mask, with one voxel around it."""
    places = ndimage.find_objects(mask.astype(numpy.uint8))[0]
    return tuple(slice(max(place.start - 1, 0), place.stop + 1) for place in places)


def surface_distances(one, other, spacing):
    """The distances of the voxels at the surface of one mask to that of the other, in mm, and back."""
    box = box_of(one | other)
    edges = []
    for mask in (one[box], other[box]):
        # What ends at the border of the volume has its surface there.
        edges.append(mask & ~ndimage.binary_erosion(mask))
    there = ndimage.distance_transform_edt(~edges[1], sampling=spacing)[edges[0]]
    back = ndimage.distance_transform_edt(~edges[0], sampling=spacing)[edges[1]]
    return there, back


def compare(one, other, spacing, settings):
    """The metrics of one label; null where a volume lacks it."""
    percentile = settings["percentile"]
    distance = f"hausdorff{percentile:g}_mm".replace(".", "_")
    voxel = float(numpy.prod(spacing)) / 1000
    total = int(one.sum()) + int(other.sum())
    metrics = {
        "dice": 2 * int((one & other).sum()) / total if total else None,
        "surface_dice": None,
        "mean_surface_mm": None,
        distance: None,
        "volume_ml": round(int(one.sum()) * voxel, 3),
        "truth_volume_ml": round(int(other.sum()) * voxel, 3),
    }
    if one.any() and other.any():
        there, back = surface_distances(one, other, spacing)
        both = numpy.concatenate([there, back])
        metrics["surface_dice"] = float((both <= settings["tolerance_mm"]).mean())
        metrics["mean_surface_mm"] = float(both.mean())
        metrics[distance] = float(max(numpy.percentile(there, percentile), numpy.percentile(back, percentile)))
    elif total:
        metrics["surface_dice"] = 0.0
    return metrics


def evaluate(predictions, options, output, regions):
    """Compares each volume of labels with the truth of the same place in the list; writes `Evaluation.json`.

    `regions` has the value of each label, its name, and the values that count as it: several for a region.
    """
    settings = settings_of(options.evaluation_file)
    check_counts(predictions, options)
    if not options.gt:
        refuse("Name the true labels with --gt")
    masks = options.mask[0] if options.mask else [None] * len(predictions)
    known = {value for _, _, values in regions for value in values}
    cases = []
    for file, truth, mask in zip(predictions, options.gt[0], masks):
        image, found = read_labels(file, None)
        _, expected = read_labels(truth, image)
        found, expected = labels_of(file, found, known), labels_of(truth, expected, known)
        where = True if mask is None else numpy.nan_to_num(read_labels(mask, image)[1]) != 0
        spacing = image.GetSpacing()[::-1]
        labels = {}
        for key, name, values in regions:
            pair = [numpy.isin(each, values) & where for each in (found, expected)]
            labels[str(key)] = {"name": name, **compare(*pair, spacing, settings)}
        cases.append({"case": file.name, "ground_truth": truth.name, "labels": labels})
        scores = [f"{each['name']} {'absent' if each['dice'] is None else format(each['dice'], '.3f')}" for each in labels.values()]
        print(f"{file.name} against {truth.name}: Dice {', '.join(scores)}", flush=True)
    write(output / "Evaluation.json", {"settings": settings, "cases": cases, "aggregate": summary(cases, regions)})


def summary(cases, regions):
    """The mean, least and greatest of each metric, for each label."""
    result = {}
    for key, name, _ in regions:
        rows = [case["labels"][str(key)] for case in cases]
        result[str(key)] = {"name": name}
        for metric in rows[0]:
            values = [row[metric] for row in rows if isinstance(row[metric], (int, float))]
            if values:
                result[str(key)][metric] = {"mean": sum(values) / len(values), "min": min(values), "max": max(values), "count": len(values)}
    return {"labels": result}


def uncertainty(stacks, output, alone=False):
    """Writes how far the folds disagree about each voxel, as a standard deviation; and `Uncertainty.json`."""
    output.mkdir(parents=True, exist_ok=True)
    cases = []
    for file in stacks:
        image = read(file)
        folds = image.GetNumberOfComponentsPerPixel()
        if folds < 2 and not alone:
            refuse(f"{file.name} has one fold, which cannot disagree with itself: use 'infer --uncertainty --ensemble 2' or more")
        values = SimpleITK.GetArrayViewFromImage(image)
        deviation = values.std(axis=-1) if folds > 1 else numpy.zeros(values.shape, numpy.float32)
        result = SimpleITK.GetImageFromArray(deviation.astype(numpy.float32))
        result.CopyInformation(image)
        name = file.name.removesuffix(".nii.gz").removesuffix("_stack")
        SimpleITK.WriteImage(result, str(output / f"{name}_uncertainty.nii.gz"), useCompression=True)
        cases.append({"case": name, "components": folds, "mean": float(deviation.mean()), "max": float(deviation.max())})
        print(f"{name}: {folds} folds, mean {deviation.mean():.5f}, greatest {deviation.max():.4f}", flush=True)
    write(output / "Uncertainty.json", {"cases": cases})


def write(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    print(f"Wrote {file.name}", flush=True)
