/** `serve --slurm-*`: what the admin asks Slurm for, for every job. */
export interface SlurmOptions {
  readonly partition: string | null;
  readonly account: string | null;
  readonly qos: string | null;
  /** A time limit as sbatch spells it. */
  readonly time: string | null;
  readonly constraint: string | null;
  /** Further words for sbatch, each whole: `--mem=16G`. */
  readonly args: readonly string[];
}

/** The options as words for sbatch, which also narrow down what sinfo lists. */
export function optionWords({ partition, account, qos, time, constraint, args }: SlurmOptions): string[] {
  const named = { partition, account, qos, time, constraint };
  const given = Object.entries(named).flatMap(([name, value]) =>
    value === null ? [] : [`--${name}=${value}`],
  );
  return [...args, ...given];
}
