/** What exit codes of the engine mean, by the code: what happened, and what to do. */
export const engineExits: Readonly<Record<number, string>> = {
  75:
    'The GPU ran out of memory (exit code 75): ask for less at a time with --patch-size, --max-voxels or --batch-size, ' +
    'or for a GPU with more memory',
};
