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

/** Minutes of a time limit as Slurm spells it: `90`, `90:30`, `4:00:00`, `2-0`, `1-12:30`; null for a text that is none. */
export function minutesOf(text: string): number | null {
  if (/^(infinite|unlimited)$/i.test(text)) return Number.POSITIVE_INFINITY;
  const [, days, rest = ''] = /^(?:(\d+)-)?(\d+(?::\d+){0,2})$/.exec(text) ?? [];
  if (rest === '') return null;
  const [a = 0, b = 0, c = 0] = rest.split(':').map(Number);
  // Two numbers are hours and minutes after a day, else minutes and seconds.
  if (days !== undefined) return Number(days) * 1440 + a * 60 + b + c / 60;
  return rest.split(':').length === 3 ? a * 60 + b + c / 60 : a + b / 60;
}

/** Minutes that the admin lets each job have; null where that is left to Slurm. */
export function minutesAllowed({ time, args }: SlurmOptions): number | null {
  const words = args.flatMap((word) => /^--time=(.*)$/.exec(word)?.[1] ?? []);
  return minutesOf(time ?? words.at(-1) ?? '');
}
