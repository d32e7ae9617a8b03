"""Writes small networks of nnU-Net with seeded random weights, by nnU-Net's own trainer, and cases for them.

    make_nnunet.py DIRECTORY SERIES

DIRECTORY gets `results/DatasetNNN_NAME/...`, as nnU-Net's training writes it, and `cases/NAME/CASE_0000.nii.gz`; SERIES is a
directory with a DICOM series, which becomes a case of Dataset901 too.
"""

import json
import os
import sys
from pathlib import Path

root, series = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["nnUNet_raw"] = os.environ["nnUNet_preprocessed"] = str(root / "none")
os.environ["nnUNet_results"] = str(root / "results")

import numpy  # noqa: E402: nnU-Net reads the places above when it is imported
import SimpleITK  # noqa: E402
import torch  # noqa: E402
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer  # noqa: E402


def resampling(name, order):
    return {
        f"resampling_fn_{name}": "resample_data_or_seg_to_shape",
        f"resampling_fn_{name}_kwargs": {"is_seg": name == "seg", "order": order, "order_z": 0, "force_separate_z": None},
    }


def plans_of(dataset, configuration, patch, spacing, schemes):
    axes = len(patch)
    architecture = {
        "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
        "arch_kwargs": {
            "n_stages": 3,
            "features_per_stage": [6, 8, 8],
            "conv_op": f"torch.nn.modules.conv.Conv{axes}d",
            "kernel_sizes": [[3] * axes] * 3,
            "strides": [[1] * axes, [2] * axes, [2] * axes],
            "n_conv_per_stage": [1, 1, 1],
            "n_conv_per_stage_decoder": [1, 1],
            "conv_bias": True,
            "norm_op": f"torch.nn.modules.instancenorm.InstanceNorm{axes}d",
            "norm_op_kwargs": {"eps": 1e-05, "affine": True},
            "dropout_op": None,
            "dropout_op_kwargs": None,
            "nonlin": "torch.nn.LeakyReLU",
            "nonlin_kwargs": {"inplace": True},
        },
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
    }
    intensity = {"mean": 200.0, "std": 150.0, "percentile_00_5": -100.0, "percentile_99_5": 900.0, "min": -200.0, "max": 1500.0, "median": 180.0}
    return {
        "dataset_name": dataset,
        "plans_name": "nnUNetPlans",
        "original_median_spacing_after_transp": [2.0, 1.0, 1.0],
        "original_median_shape_after_transp": [20, 40, 36],
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "transpose_backward": [0, 1, 2],
        "configurations": {
            configuration: {
                "data_identifier": f"nnUNetPlans_{configuration}",
                "preprocessor_name": "DefaultPreprocessor",
                "batch_size": 2,
                "patch_size": patch,
                "median_image_size_in_voxels": [20.0, 40.0, 36.0][-axes:],
                "spacing": spacing,
                "normalization_schemes": schemes,
                "use_mask_for_norm": [False] * len(schemes),
                **resampling("data", 3),
                **resampling("seg", 1),
                **resampling("probabilities", 1),
                "architecture": architecture,
                "batch_dice": False,
            }
        },
        "experiment_planner_used": "ExperimentPlanner",
        "label_manager": "LabelManager",
        "foreground_intensity_properties_per_channel": {str(at): intensity for at in range(len(schemes))},
    }


def make(dataset, configuration, channels, labels, folds, patch, spacing, regions_class_order=None):
    schemes = ["CTNormalization" if name == "CT" else "ZScoreNormalization" for name in channels]
    description = {
        "name": dataset,
        "description": "Seeded random weights",
        "licence": "CC0-1.0",
        "channel_names": {str(at): name for at, name in enumerate(channels)},
        "labels": labels,
        "numTraining": 4,
        "file_ending": ".nii.gz",
        **({"regions_class_order": regions_class_order} if regions_class_order else {}),
    }
    for fold in folds:
        torch.manual_seed(100 + fold)
        plans = plans_of(dataset, configuration, patch, spacing, schemes)
        trainer = nnUNetTrainer({**plans, "continue_training": False}, configuration, fold, description, torch.device("cpu"))
        trainer.enable_deep_supervision = False
        trainer.network = trainer.build_network_architecture(
            trainer.plans_manager,
            trainer.configuration_manager,
            len(channels),
            trainer.label_manager.num_segmentation_heads,
            enable_deep_supervision=False,
        )
        for weights in trainer.network.parameters():  # those of a new network hardly tell one voxel from another
            if weights.ndim > 1:
                torch.nn.init.normal_(weights, std=0.4)
            if len(weights) == trainer.label_manager.num_segmentation_heads:  # so that no label wins everywhere
                weights.data -= weights.data.mean(dim=tuple(range(1, weights.ndim)), keepdim=True)
        trainer.optimizer, _ = trainer.configure_optimizers()
        trainer.configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        trainer.save_checkpoint(str(Path(trainer.output_folder) / "checkpoint_final.pth"))
        folder = Path(trainer.output_folder_base)
    (folder / "plans.json").write_text(json.dumps(plans))
    (folder / "dataset.json").write_text(json.dumps(description))


def case(dataset, name, channels, seed, size=(20, 40, 36)):
    random = numpy.random.default_rng(seed)
    grid = numpy.stack(numpy.meshgrid(*(numpy.linspace(-1, 1, each) for each in size), indexing="ij"))
    for channel in range(channels):
        ball = 800 * (numpy.sqrt((grid**2).sum(0)) < 0.6 + 0.1 * channel)
        image = SimpleITK.GetImageFromArray((ball + random.normal(0, 120, size)).astype(numpy.float32))
        image.SetSpacing((1.7, 1.4, 4.5))
        image.SetOrigin((-30.0, 12.5, 400.0))
        file = root / "cases" / dataset / f"{name}_{channel:04}.nii.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        SimpleITK.WriteImage(image, str(file))


make("Dataset901_CT", "3d_fullres", ["CT"], {"background": 0, "liver": 1, "tumour": 2}, [0, 1], [16, 32, 32], [4.0, 2.0, 2.0])
make("Dataset902_MR", "2d", ["T1", "FLAIR"], {"background": 0, "edema": 1, "core": 2, "enhancing": 3}, [0, 1], [32, 32], [1.0, 1.0])
make(
    "Dataset903_Regions",
    "3d_fullres",
    ["T1", "FLAIR"],
    {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3},
    [0, 1],
    [16, 24, 24],
    [2.0, 1.0, 1.0],
    [1, 2, 3],
)
case("Dataset901_CT", "one", 1, 1)
case("Dataset901_CT", "two", 1, 2, (17, 31, 45))
case("Dataset902_MR", "sub-01", 2, 3)
case("Dataset903_Regions", "sub-01", 2, 4)

# The first case in other formats; a header has its voxels in a file of its own.
(root / "formats").mkdir()
one = SimpleITK.ReadImage(str(root / "cases" / "Dataset901_CT" / "one_0000.nii.gz"))
for file in ("a.mha", "b.nrrd", "c.mhd"):
    SimpleITK.WriteImage(one, str(root / "formats" / file))

reader = SimpleITK.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(series)))
SimpleITK.WriteImage(reader.Execute(), str(root / "cases" / "Dataset901_CT" / "volume_0000.nii.gz"))
