"""
Imitates two GPUs for KonfAI's server, which lists those of CUDA_VISIBLE_DEVICES and asks PyTorch for their names. Python
reads this file at its start, where PYTHONPATH names this directory.
"""

import torch.cuda

torch.cuda.get_device_name = lambda device=None: "NVIDIA H200"
