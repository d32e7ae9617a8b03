/** Files of a result that carry numbers, by their names: KonfAI's reports, and what apps write (docs/apps.md). */
export const carriesNumbers = /^(measurements|Evaluation|Uncertainty|Metric_\w+)\.json$/;

/** Largest of them that is read, in bytes. */
export const maxNumbersBytes = 4 << 20;

/** Strings of JSON, and what Python's `json` writes for numbers that JSON does not have. */
const stringOrOdd = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b/gs;

/** What a file of numbers says. */
export interface Report {
  readonly value: unknown;
  /** Whether it has `NaN`, `Infinity` or `-Infinity`, which are null in the value. */
  readonly isOdd: boolean;
}

/**
 * Reads JSON, also as Python writes it.
 * @throws SyntaxError
 */
export function parseReport(text: string): Report {
  try {
    return { value: JSON.parse(text), isOdd: false };
  } catch {
    const plain = text.replace(stringOrOdd, (found) => (found.startsWith('"') ? found : 'null'));
    return { value: JSON.parse(plain), isOdd: true };
  }
}
