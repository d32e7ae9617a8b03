"""Runs `TotalSegmentator` for each line of JSON on stdin, a list of its arguments, by the function that the command is."""

import json
import multiprocessing
import sys

if __name__ == "__main__":  # its worker processes import this file too
    # The command takes all cores, and the numbers are the same with one.
    multiprocessing.cpu_count = lambda: 1

    from totalsegmentator.bin.TotalSegmentator import main

    for line in sys.stdin:
        sys.argv = ["TotalSegmentator", *json.loads(line)]
        main()
