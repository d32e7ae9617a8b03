/** Seconds of each unit, the largest first. */
const units = { d: 86_400, h: 3600, m: 60, s: 1 } as const;
type Unit = keyof typeof units;

/** Longest time, in seconds, that is read: 68 years. */
export const longestDuration = 2 ** 31 - 1;

/** Seconds of a text such as `90`, `90s`, `12h` or `7d`; undefined for any other text. */
export function readDuration(text: string): number | undefined {
  const [, digits = '', unit = 's'] = /^(\d+)\s*([smhd])?$/i.exec(text.trim()) ?? [];
  const seconds = Number(digits) * units[unit.toLowerCase() as Unit];
  return digits === '' || seconds > longestDuration ? undefined : seconds;
}

/** A number of seconds as `readDuration` reads it, in the largest unit that it is a multiple of: `7d`, `36h`, `90s`. */
export function spellDuration(seconds: number): string {
  const [unit, size] = Object.entries(units).find(([, each]) => seconds > 0 && seconds % each === 0) ?? [
    's',
    1,
  ];
  return `${seconds / size}${unit}`;
}
