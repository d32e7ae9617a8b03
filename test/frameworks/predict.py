"""Runs `nnUNetv2_predict` for each line of JSON on stdin, a list of its arguments, by the function that the command is."""

import json
import multiprocessing
import sys

# The command takes all cores, and the numbers are the same with one.
multiprocessing.cpu_count = lambda: 1

from nnunetv2.inference.predict_from_raw_data import predict_entry_point  # noqa: E402

for line in sys.stdin:
    sys.argv = ["nnUNetv2_predict", *json.loads(line)]
    predict_entry_point()
