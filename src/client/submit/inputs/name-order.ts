const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** The digits of a text from a position on. */
function digitsAt(text: string, start: number): string {
  let end = start;
  while (isDigit(text.charCodeAt(end))) end += 1;
  return text.slice(start, end);
}

const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Compares digits by the number that they are, of any length. */
function byNumber(a: string, b: string): number {
  const [short, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')];
  return short.length - other.length || byCodeUnits(short, other);
}

/**
 * The order of names: digits count as numbers, so that `case10` stands behind `case2` whatever follows the number; all else
 * counts by code units, in every locale. Names that differ only in zeros before a number are compared by code units.
 */
export function byName(a: string, b: string): number {
  let [atA, atB] = [0, 0];
  while (atA < a.length && atB < b.length) {
    const [unitA, unitB] = [a.charCodeAt(atA), b.charCodeAt(atB)];
    if (isDigit(unitA) && isDigit(unitB)) {
      const [numberA, numberB] = [digitsAt(a, atA), digitsAt(b, atB)];
      const difference = byNumber(numberA, numberB);
      if (difference !== 0) return difference;
      atA += numberA.length;
      atB += numberB.length;
    } else {
      if (unitA !== unitB) return unitA - unitB;
      atA += 1;
      atB += 1;
    }
  }
  return a.length - atA - (b.length - atB) || byCodeUnits(a, b);
}
