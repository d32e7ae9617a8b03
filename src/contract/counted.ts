/** So many of something, as a sentence has it: `1 file`, `3 files`. */
export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
