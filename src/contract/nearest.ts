/** The fewest letters to insert, remove, replace or swap with their neighbour that make one word of the other. */
function distance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      const ways = [
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        ...(isSwapped ? [(beforeLast[column - 2] ?? 0) + 1] : []),
      ];
      next.push(Math.min(...ways));
    }
    [beforeLast, last] = [last, next];
  }
  return last[to.length] ?? 0;
}

/** Longer words are not compared: nobody mistypes them, and the time is the product of their lengths. */
const maxLength = 200;

/**
 * The known word that was probably meant: at most a third of the letters differ, or it contains the word that was typed.
 * @returns null where none is near
 */
export function nearest(word: string, known: readonly string[]): string | null {
  const typed = word.toLowerCase();
  if (typed.length > maxLength) return null;
  const near = known
    .filter((each) => each.length <= maxLength)
    .map((each) => ({ each, differs: distance(typed, each.toLowerCase()) }))
    .filter(({ each, differs }) => differs <= Math.max(1, Math.floor(each.length / 3)))
    .sort((a, b) => a.differs - b.differs)[0];
  if (near) return near.each;
  return (typed.length > 2 && known.find((each) => each.toLowerCase().includes(typed))) || null;
}
