/** Longest file name, in bytes, on common file systems. */
export const maxNameBytes = 255;

/** The start of a name, cut to so many bytes without splitting a character. */
function startWithin(name: string, bytes: number): string {
  const whole = Buffer.from(name);
  if (whole.length <= bytes) return name;
  let end = Math.max(0, bytes);
  // In UTF-8 a byte that begins with the bits 10 continues a character.
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.toString('utf8', 0, end);
}

/**
 * A name that is not taken yet: `name` itself or a numbered form, `ct_1.nii.gz`, within the length that file systems allow.
 * @param counts the next number to try for each name, so that many files of one name do not each count from 1
 */
export function freeName(
  name: string,
  counts: Map<string, number>,
  isTaken: (name: string) => boolean,
): string {
  const dot = name.indexOf('.', 1);
  const suffix = dot < 0 ? '' : startWithin(name.slice(dot), 64);
  const stem = dot < 0 ? name : name.slice(0, dot);
  const build = (count: number): string => {
    const tail = count === 0 ? suffix : `_${count}${suffix}`;
    return startWithin(stem, maxNameBytes - Buffer.byteLength(tail)) + tail;
  };
  const first = build(0);
  let count = counts.get(first) ?? 0;
  let free = build(count);
  while (isTaken(free)) {
    count += 1;
    free = build(count);
  }
  counts.set(first, count + 1);
  return free;
}
