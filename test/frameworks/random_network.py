"""Writes networks of nnU-Net with seeded random weights, by nnU-Net's own trainers.

Whoever imports it has set `nnUNet_results`, which nnU-Net reads when it is imported.
"""

import json
from pathlib import Path

import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


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


def make(dataset, configuration, channels, labels, folds, patch, spacing, regions_class_order=None, trainer_class=nnUNetTrainer):
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
        trainer = trainer_class({**plans, "continue_training": False}, configuration, fold, description, torch.device("cpu"))
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
