/** A letter alone counts in powers of 1024, as in `du -h`, nginx and Docker; only `KB` and its like are powers of 1000. */
const units: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};

/** Bytes of a size such as `2GiB`, `2G`, `500MB` or `1048576`; undefined for any other text, and for 8 PiB and more. */
export function parseSize(text: string): number | undefined {
  const [, digits = '', unit = ''] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  const factor = digits === '' ? undefined : units[unit.toUpperCase()];
  const bytes = factor === undefined ? Number.NaN : Math.floor(Number(digits) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
