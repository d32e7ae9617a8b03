import { oneLine } from '../../contract/quote.js';
import type { Reporter } from '../reporter.js';
import type { FoundFiles } from './inputs/find-files.js';
import { plainName } from './inputs/names.js';
import type { Pairing } from './inputs/pairing.js';
import { slicesOf } from './inputs/volumes.js';

/** A file, or a directory that travels whole, that is sent. */
export interface SentFile {
  /** As the command found it. */
  readonly path: string;
  /** The name by which the app gets it; of a data set, the name of the archive. */
  readonly name: string;
}

/** What a submission sends, in the document that `--json` prints. */
export interface Sending {
  /** By field; of each, a list for every group. */
  readonly sent: Readonly<Record<string, readonly (readonly SentFile[])[]>>;
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
}

/** Most files that are named to a person. */
const mostShown = 5;

/** What is sent, with paths and names alone. */
export function sendingOf({ volumes, dataSet, skipped }: FoundFiles): Sending {
  const shown = ({ path, name }: SentFile): SentFile => ({ path, name });
  const sent: Record<string, SentFile[][]> = {};
  for (const { field, groups } of volumes) sent[field.name] = groups.map((units) => units.map(shown));
  if (dataSet) sent[dataSet.field.name] = [[shown(dataSet.set)]];
  return { sent, skipped };
}

/** The first of them, and how many more there are. */
function someOf(shown: readonly string[]): string {
  const rest = shown.length > mostShown ? ` and ${shown.length - mostShown} more` : '';
  return oneLine(shown.slice(0, mostShown).join(', ')) + rest;
}

function pairingNote({ by, counts, pairs }: Pairing): string {
  const why = {
    name: 'Files are paired by name, because the groups are in different orders',
    order: 'Files are paired by order, because their names do not match',
    count: `The groups have ${counts[0]} and ${counts[1]} files, which are paired by order`,
  }[by];
  return `${why}: ${someOf(pairs.map((pair) => pair.join(' with ')))}`;
}

/** Says which files are not sent, which belong together, and which are sent under another name. */
export function tellSending({ volumes, skipped, headless, pairings }: FoundFiles, reporter: Reporter): void {
  if (skipped.length > 0) {
    const [what, them] =
      skipped.length === 1
        ? ['1 file that is not a volume was', 'it']
        : [`${skipped.length} files that are not volumes were`, 'them'];
    reporter.note(`${what} not sent (${someOf(skipped)}); --all-files sends ${them}`);
  }
  if (headless.length > 0) {
    reporter.note(`Sent without a header, because there is no .hdr of the same name: ${someOf(headless)}`);
  }
  for (const pairing of pairings) reporter.note(pairingNote(pairing));
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const slices = slicesOf(units.flatMap(({ kind, path }) => (kind === 'file' ? path : [])));
  if (slices.length > 1) {
    const count = `${slices.length} DICOM files are sent as ${slices.length} volumes`;
    reporter.note(`${count}; name their directory to send them as one series`);
  }
  const renamed = units.filter(({ path, name }) => name !== plainName(path));
  for (const { path, name } of renamed.slice(0, mostShown)) reporter.note(oneLine(`${path} -> ${name}`));
  if (renamed.length > mostShown) {
    reporter.note(`${renamed.length - mostShown} more are renamed in the same way; --json lists them all`);
  }
}
