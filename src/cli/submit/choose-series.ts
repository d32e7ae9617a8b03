import { createInterface } from 'node:readline';
import * as Flags from '@oclif/core/flags';
import type { ChooseSeries } from '../../client/case/index.js';
import { Interrupted, UsageError } from '../../client/errors.js';
import type { Series } from '../../client/found-files.js';
import { oneLine, quoteName } from '../../contract/index.js';
import type { CommandIo } from '../terminal/index.js';

/** The flags for choosing which series of a directory are sent. */
export const seriesFlags = {
  series: Flags.string({
    helpGroup: 'JOB',
    helpValue: 'N|TEXT',
    multiple: true,
    multipleNonGreedy: true,
    delimiter: ',',
    description:
      'From directories, send only these DICOM series, given by number or by a pattern for the description, as in ' +
      "--series 3,5 or --series 'T1*'",
  }),
};

/** Maximum number of series that an error lists. */
const mostShown = 10;

/** Selects series by the words of the flag. */
async function selected(series: readonly Series[], words: readonly string[]): Promise<readonly Series[]> {
  const { describeSeries, selectSeries } = await import('../../imaging/index.js');
  const { chosen, unused } = selectSeries(series, words);
  const [word] = unused;
  if (word === undefined) return chosen;
  const known = series.slice(0, mostShown).map((each) => describeSeries(each));
  const more = series.length > mostShown ? `; 'remote-app inputs' lists all ${series.length}` : '';
  throw new UsageError(
    `No series has the number or description ${quoteName(word)}; there are ${oneLine(known.join(', '))}${more}`,
  );
}

/**
 * Asks a person for a line. Both stdin and stderr must be terminals.
 * @throws Interrupted on Ctrl-C and Ctrl-D
 */
async function readAnswer(question: string, io: CommandIo): Promise<string> {
  const prompt = createInterface({ input: io.stdin, output: io.stderr });
  try {
    return await new Promise<string>((resolve, reject) => {
      // Ctrl-C or Ctrl-D: without an answer, nothing is sent.
      const interrupted = () => {
        io.writeErr('\n');
        reject(new Interrupted('SIGINT'));
      };
      prompt.once('close', interrupted);
      prompt.question(question, (answer) => {
        prompt.off('close', interrupted);
        resolve(answer);
      });
    });
  } finally {
    prompt.close();
  }
}

/** Asks which of several series are wanted, until the answer names some. Enter alone takes all. */
async function ask(series: readonly Series[], io: CommandIo): Promise<readonly Series[] | null> {
  if (series.length < 2) return null;
  const { describeSeries, selectSeries } = await import('../../imaging/index.js');
  const lines = series.map((each) => `  ${oneLine(describeSeries(each))}\n`);
  io.writeErr(`${series.length} DICOM series were found:\n${lines.join('')}`);
  for (;;) {
    const answer = await readAnswer(
      'Which ones should be sent? Numbers, patterns for descriptions (T1*), or Enter for all: ',
      io,
    );
    const words = answer.split(',').map((each) => each.trim());
    if (words.every((each) => each === '')) return null;
    const { chosen, unused } = selectSeries(series, words);
    if (unused.length === 0) return chosen;
    io.writeErr(
      `No series has the number or description ${unused.map((each) => quoteName(each)).join(', ')}.\n`,
    );
  }
}

/**
 * How the series of a directory are chosen: by the flag; otherwise by asking, if a person can answer and the app gets one
 * group of inputs. Failing that, all are sent.
 */
export function seriesChoice(
  words: readonly string[] | undefined,
  io: CommandIo,
  { mayAsk }: { readonly mayAsk: boolean },
): ChooseSeries | undefined {
  if (words !== undefined) return (series) => selected(series, words);
  return mayAsk && io.stdin.isTTY && io.stderr.isTTY ? (series) => ask(series, io) : undefined;
}
