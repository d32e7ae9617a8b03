/** Longest name of a file that common file systems take, in bytes. */
export const maxNameBytes = 255;

/** As much of a name's start as fits into so many bytes; no character is cut in two. */
function startWithin(name: string, bytes: number): string {
  const whole = Buffer.from(name);
  if (whole.length <= bytes) return name;
  let end = Math.max(0, bytes);
  // In UTF-8 a byte that begins with the bits 10 goes on with the character before it.
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.toString('utf8', 0, end);
}

/**
 * A name that nothing has yet, like `name` and no longer than a file system takes: `ct.nii.gz`, `ct_1.nii.gz`.
 * @param counts the last number that each name was given: many files of one name are not counted up from 1 each time
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
