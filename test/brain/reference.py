"""
The masks of the package itself: `reference.py DIRECTORY FILE...` writes a mask for each file, and prints a line of JSON for
each with the seconds that it took, and the peak of the memory so far, in bytes.
"""

import json
import resource
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from deepbet.bet import BrainExtraction

torch.set_num_threads(2)
directory, *files = sys.argv[1:]
bet = BrainExtraction(no_gpu=True)
for file in files:
    start = time.monotonic()
    bet.run(file, mask_path=str(Path(directory) / Path(file).name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"file": file, "seconds": time.monotonic() - start, "peak": peak}), flush=True)
