"""Writes small bundles of MONAI with seeded random weights, as its model zoo lays them out, and cases for them.

    make_monai.py DIRECTORY SERIES

DIRECTORY gets `spleen`, whose configuration is JSON, and `tumour`, whose configuration is YAML with code of its own and two
channels; and `cases/spleen/imagesTs` and `cases/tumour`. SERIES is a directory with a DICOM series, which becomes a case of `spleen`.
"""

import json
import sys
from pathlib import Path

import numpy
import SimpleITK
import torch
import yaml
from monai.networks.nets import UNet

root, series = Path(sys.argv[1]), Path(sys.argv[2])
UNET = {"spatial_dims": 3, "channels": [8, 16, 32], "strides": [2, 2], "num_res_units": 1, "norm": "batch"}
CUDA_IF_THERE = "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')"
NETWORK_CODE = """from monai.networks.nets import UNet
from scripts import channels


class TwoScans(UNet):
    def __init__(self, out_channels):
        super().__init__(in_channels=channels.COUNT, out_channels=out_channels, **channels.SHAPE)
"""


def metadata(name, inputs, outputs):
    def data(kind, form, channels):
        shape = {"spatial_shape": [32, 32, 32], "dtype": "float32", "value_range": [0, 1], "is_patch_data": True}
        return {"type": "image", "format": form, "modality": kind, "num_channels": len(channels), "channel_def": channels, **shape}

    return {
        "version": "0.1.0",
        "monai_version": "1.4.0",
        "pytorch_version": "2.4.0",
        "numpy_version": "1.24.4",
        "optional_packages_version": {"nibabel": "5.2.1", "pytorch-ignite": "0.4.11"},
        "name": name,
        "description": "Seeded random weights",
        "copyright": "CC0-1.0",
        "network_data_format": {"inputs": {"image": data(*inputs)}, "outputs": {"pred": data("n/a", "segmentation", outputs)}},
    }


def save_weights(bundle, channels, seed):
    torch.manual_seed(seed)
    network = UNet(in_channels=channels, out_channels=2, **UNET)
    for weights in network.parameters():  # those of a new network hardly tell one voxel from another
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.3)
    last = list(network.parameters())[-1]
    last.data -= last.data.mean()
    (bundle / "models").mkdir(parents=True)
    torch.save(network.state_dict(), bundle / "models" / "model.pt")


def evaluator():
    names = {"network": "@network", "inferer": "@inferer", "postprocessing": "@postprocessing", "val_handlers": "@handlers"}
    return {"_target_": "SupervisedEvaluator", "device": "@device", "val_data_loader": "@dataloader", **names, "amp": True}


def transform(name, keys="@image_key", **more):
    return {"_target_": name, "keys": keys, **more}


def make_spleen():
    bundle = root / "spleen"
    save_weights(bundle, 1, 1)
    config = {
        "imports": ["$import glob", "$import numpy", "$import os"],
        "bundle_root": ".",
        "image_key": "image",
        "output_dir": "$@bundle_root + '/eval'",
        "output_ext": ".nii.gz",
        "output_dtype": "$numpy.float32",
        "output_postfix": "trans",
        "separate_folder": True,
        "load_pretrain": True,
        "dataset_dir": "/workspace/data/Task09_Spleen",
        "datalist": "$list(sorted(glob.glob(@dataset_dir + '/imagesTs/*.nii.gz')))",
        "device": CUDA_IF_THERE,
        "network_def": {"_target_": "UNet", "in_channels": 1, "out_channels": 2, **UNET},
        "network": "$@network_def.to(@device)",
        "preprocessing": {
            "_target_": "Compose",
            "transforms": [
                transform("LoadImaged"),
                transform("EnsureChannelFirstd"),
                transform("Orientationd", axcodes="RAS"),
                transform("Spacingd", pixdim=[1.5, 1.5, 2.0], mode="bilinear"),
                transform("ScaleIntensityRanged", a_min=-57, a_max=900, b_min=0, b_max=1, clip=True),
                transform("EnsureTyped"),
            ],
        },
        "dataset": {"_target_": "Dataset", "data": "$[{'image': i} for i in @datalist]", "transform": "@preprocessing"},
        "dataloader": {"_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1, "shuffle": False, "num_workers": 4},
        "inferer": {"_target_": "SlidingWindowInferer", "roi_size": [32, 32, 32], "sw_batch_size": 4, "overlap": 0.5},
        "postprocessing": {
            "_target_": "Compose",
            "transforms": [
                transform("Activationsd", "pred", softmax=True),
                transform("Invertd", "pred", transform="@preprocessing", orig_keys="@image_key", nearest_interp=False, to_tensor=True),
                transform("AsDiscreted", "pred", argmax=True),
                transform(
                    "SaveImaged",
                    "pred",
                    output_dir="@output_dir",
                    output_ext="@output_ext",
                    output_dtype="@output_dtype",
                    output_postfix="@output_postfix",
                    separate_folder="@separate_folder",
                ),
            ],
        },
        "handlers": [{"_target_": "StatsHandler", "iteration_log": False}],
        "evaluator": evaluator(),
        "checkpointloader": {
            "_target_": "CheckpointLoader",
            "load_path": "$@bundle_root + '/models/model.pt'",
            "load_dict": {"model": "@network"},
        },
        "initialize": ["$monai.utils.set_determinism(seed=123)", "$@checkpointloader(@evaluator) if @load_pretrain else None"],
        "run": ["$@evaluator.run()"],
    }
    (bundle / "configs").mkdir()
    (bundle / "configs" / "inference.json").write_text(json.dumps(config, indent=4))
    about = metadata("Spleen CT segmentation", ("CT", "hounsfield", {"0": "image"}), {"0": "background", "1": "spleen"})
    (bundle / "configs" / "metadata.json").write_text(json.dumps(about))
    (bundle / "LICENSE").write_text("Creative Commons Zero\n")


def make_tumour():
    bundle = root / "tumour"
    (bundle / "scripts").mkdir(parents=True)
    (bundle / "scripts" / "__init__.py").write_text("")
    (bundle / "scripts" / "channels.py").write_text(f"COUNT = 2\nSHAPE = {UNET!r}\n")
    (bundle / "scripts" / "networks.py").write_text(NETWORK_CODE)
    save_weights(bundle, 2, 2)
    config = {
        "imports": ["$import glob"],
        "bundle_root": ".",
        "image_key": "$monai.utils.CommonKeys.IMAGE",
        "dataset_dir": "$@bundle_root + '/data'",
        "output_dir": "./eval",
        "device": CUDA_IF_THERE,
        "ckpt_path": "$@bundle_root + '/models/model.pt'",
        "cases": "$zip(sorted(glob.glob(@dataset_dir + '/*_T1.nii.gz')), sorted(glob.glob(@dataset_dir + '/*_FLAIR.nii.gz')))",
        "network_def": {"_target_": "scripts.networks.TwoScans", "out_channels": 2},
        "network": "$@network_def.to(@device)",
        "transforms": [
            transform("LoadImaged", image_only=False),
            transform("EnsureChannelFirstd"),
            transform("NormalizeIntensityd", nonzero=True, channel_wise=True),
        ],
        "preprocessing": {"_target_": "Compose", "transforms": "$@transforms"},
        "dataset": {"_target_": "Dataset", "data": "$[{@image_key: list(each)} for each in @cases]", "transform": "@preprocessing"},
        "dataloader": {"_target_": "ThreadDataLoader", "dataset": "@dataset", "batch_size": 1, "num_workers": 0},
        "inferer": {"_target_": "SlidingWindowInferer", "roi_size": [16, 32, 32], "sw_batch_size": 2, "overlap": 0.25, "mode": "gaussian"},
        "postprocessing": {
            "_target_": "Compose",
            "transforms": [
                transform("Activationsd", "pred", sigmoid=True),
                transform("AsDiscreted", "pred", threshold=0.5),
                transform("Lambdad", "pred", func="$lambda x: torch.where(x[[1]] > 0, 4, torch.where(x[[0]] > 0, 1, 0))"),
                transform("SaveImaged", "pred", output_dir="@output_dir", output_dtype="uint8", resample=False),
            ],
        },
        "handlers": [
            {
                "_target_": "CheckpointLoader",
                "_disabled_": "$not os.path.exists(@ckpt_path)",
                "load_path": "@ckpt_path",
                "load_dict": {"model": "@network"},
            },
            {"_target_": "StatsHandler", "iteration_log": False},
        ],
        "evaluator": evaluator(),
        "run": ["$@evaluator.run()"],
    }
    config["imports"].append("$import os")
    (bundle / "configs").mkdir()
    (bundle / "configs" / "inference.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    about = metadata("Tumour MR", ("MR", "magnitude", {"0": "T1", "1": "FLAIR"}), {"0": "core", "1": "whole"})
    (bundle / "configs" / "metadata.json").write_text(json.dumps(about))


def case(file, seed, size=(20, 40, 36), radius=0.6):
    random = numpy.random.default_rng(seed)
    grid = numpy.stack(numpy.meshgrid(*(numpy.linspace(-1, 1, each) for each in size), indexing="ij"))
    ball = 800 * (numpy.sqrt((grid**2).sum(0)) < radius)
    image = SimpleITK.GetImageFromArray((ball + random.normal(0, 120, size)).astype(numpy.float32))
    image.SetSpacing((1.7, 1.4, 4.5))
    image.SetOrigin((-30.0, 12.5, 400.0))
    file.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(image, str(file))


make_spleen()
make_tumour()
scans = root / "cases" / "spleen" / "imagesTs"
case(scans / "one.nii.gz", 1)
case(scans / "two.nii.gz", 2, (17, 31, 45))
for name, seed in (("sub-01", 3), ("sub-02", 5)):
    for channel in range(2):
        case(root / "cases" / "tumour" / f"{name}_{('T1', 'FLAIR')[channel]}.nii.gz", seed + channel, radius=0.6 + 0.1 * channel)

# The first case in other formats; a header has its voxels in a file of its own.
(root / "formats").mkdir()
one = SimpleITK.ReadImage(str(scans / "one.nii.gz"))
for file in ("a.mha", "b.nrrd", "c.mhd"):
    SimpleITK.WriteImage(one, str(root / "formats" / file))

reader = SimpleITK.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(series)))
SimpleITK.WriteImage(reader.Execute(), str(scans / "volume.nii.gz"))
