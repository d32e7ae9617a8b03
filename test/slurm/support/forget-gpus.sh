#!/bin/sh
# A TaskProlog: what it prints changes the environment of a job.
[ "$SLURMD_NODENAME" != n2 ] || printf 'unset SLURM_JOB_GPUS\nunset SLURM_STEP_GPUS\n'
