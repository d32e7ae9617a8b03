"""The network of the test's app: a scale and an offset for all voxels, then a sigmoid."""

import torch
from konfai.network import network


class Line(torch.nn.Module):
    """Element by element, so that a value gives the same bits whatever the shape of its patch."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.offset = torch.nn.Parameter(torch.zeros(1))

    def forward(self, voxels: torch.Tensor) -> torch.Tensor:
        return voxels * self.scale + self.offset


class Contrast(network.Network):
    def __init__(
        self,
        optimizer: network.OptimizerLoader = network.OptimizerLoader(),
        schedulers: dict[str, network.LRSchedulersLoader] = {"default|ConstantLR": network.LRSchedulersLoader(0)},
        outputs_criterions: dict[str, network.TargetCriterionsLoader] = {"Squash": network.TargetCriterionsLoader()},
        gain: float = 1.0,
    ) -> None:
        super().__init__(
            in_channels=1, optimizer=optimizer, schedulers=schedulers, outputs_criterions=outputs_criterions, dim=2
        )
        self.add_module("Line", Line())
        self.add_module("Gain", Gain(gain))
        self.add_module("Squash", torch.nn.Sigmoid())


class Gain(torch.nn.Module):
    """What `--set` and `config_overrides` tune: a factor that is not trained."""

    def __init__(self, gain: float):
        super().__init__()
        self.gain = gain

    def forward(self, voxels: torch.Tensor) -> torch.Tensor:
        return voxels * self.gain
