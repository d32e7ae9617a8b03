/** Files of a result that contain numbers, by name: KonfAI's reports, and files that apps write (docs/apps.md). */
export const carriesNumbers = /^(measurements|Evaluation|Uncertainty|Metric_\w+)\.json$/;

/** Maximum size of such a file, in bytes. */
export const maxNumbersBytes = 4 << 20;

/** JSON strings, and Python's `json` output for numbers that JSON does not have. */
const stringOrOdd = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b/gs;

/** The content of a file with numbers. */
export interface Report {
  readonly value: unknown;
  /** Whether the file contains `NaN`, `Infinity` or `-Infinity`, which become null in `value`. */
  readonly isOdd: boolean;
}

/**
 * Parses JSON, including Python's extensions.
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
