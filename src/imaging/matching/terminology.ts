import * as z from 'zod/mini';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { faultWithoutPath, readSmallFile } from '../../files/index.js';

/** Maximum size of a file of label names, in bytes. */
const maxBytes = 1 << 20;

const text = z.string().check(z.maxLength(200));

const label = z.object({
  name: text,
  color: z.optional(text),
  snomed: z.optional(z.object({ code: text, meaning: text })),
  values: z.optional(z.readonly(z.array(z.int()).check(z.maxLength(256)))),
});

/**
 * Name, HTML colour and SNOMED CT code of each label, by value. A region that overlaps others has the values of the labels in it.
 */
export type Terminology = Readonly<Record<string, Readonly<z.infer<typeof label>>>>;

const labels = z.record(z.string().check(z.regex(/^-?\d{1,10}$/)), z.union([text, label]));

/** Either only the names, or the manifest of an app, which has them under `terminology`. */
const schema = z.union([z.object({ terminology: labels }), labels]);

/**
 * Reads label names from a JSON file: the app.json of an app, or an object that maps values to names, or to names and colours as
 * in app.json.
 * @throws UsageError
 */
export function readTerminology(file: string): Terminology {
  let document: unknown;
  try {
    document = JSON.parse(readSmallFile(file, maxBytes));
  } catch (cause) {
    const why = cause instanceof SyntaxError ? 'it is not JSON' : faultWithoutPath(cause);
    throw new UsageError(`Cannot read the names of labels in ${quotePath(file)}: ${why}`, { cause });
  }
  const parsed = schema.safeParse(document);
  if (!parsed.success)
    throw new UsageError(
      `${quotePath(file)} does not name labels: give an app.json with a terminology, or an object such as {"1": "liver"}`,
    );
  const names = 'terminology' in parsed.data ? parsed.data.terminology : parsed.data;
  return Object.fromEntries(
    Object.entries(names as z.infer<typeof labels>).map(([value, said]) => [
      value,
      typeof said === 'string' ? { name: said } : said,
    ]),
  );
}
