import { Interrupted } from '../../client/errors.js';
import type { Canvas } from '../../imaging/pictures/index.js';
import { hasColour } from './colours.js';
import type { CommandIo, InputStream, OutputStream } from './command-io.js';

const esc = '\u001b';

/**
 * Asks whether the terminal knows the protocol of kitty, how many pixels a character has, and what else it can do. All
 * terminals answer the last question, and in the order in which they are asked.
 */
const questions = `${esc}_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA${esc}\\${esc}[16t${esc}[c`;

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: these are what a terminal answers with
const kittyAnswer = /\u001b_Gi=31;OK\u001b\\/;
const cellAnswer = /\u001b\[6;(\d{1,3});(\d{1,3})t/;
const lastAnswer = /\u001b\[\?([\d;]*)c/;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: the answers end here

/** What Ctrl-C sends in raw mode. */
const interrupt = '\u0003';

/** The number by which a terminal says that it draws sixels. */
const sixel = '4';

/**
 * Longest wait for the answers, in milliseconds. Terminals answer at once, and what comes later is left on the command line: a
 * slow connection should not be cut short, and hardly any terminal is silent.
 */
const longestWait = 2000;

/** Most characters that are kept: the answers have about 50. */
const maxAnswered = 4096;

/** Pixels of a character in a terminal that does not say it. */
const usualCell = { width: 8, height: 16 };

/** Characters in a row, and rows, of a terminal that does not say it. */
const [usualColumns, usualRows] = [80, 24];

/** Sends the questions, and reads until the last answer or the end of the wait. The terminal is as before afterwards. */
async function ask(stdin: InputStream, stdout: OutputStream): Promise<string> {
  let answer = '';
  // Without this, the terminal would show the answers and keep them until Enter is pressed.
  stdin.setRawMode?.(true);
  try {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(end, longestWait);
      function end() {
        clearTimeout(timer);
        stdin.off('data', add);
        resolve();
      }
      function add(bytes: Buffer | string) {
        answer = (answer + bytes.toString('latin1')).slice(-maxAnswered);
        if (lastAnswer.test(answer) || answer.includes(interrupt)) end();
      }
      stdin.on('data', add);
      stdout.write(questions);
    });
  } finally {
    stdin.pause();
    stdin.setRawMode?.(false);
  }
  // Ctrl-C is a character like any other in between.
  if (answer.includes(interrupt)) throw new Interrupted('SIGINT');
  return answer;
}

/** tmux and screen answer for themselves, and take no pictures for the terminal that they run in. */
const isMultiplexer = ({ TMUX, STY, TERM = '' }: NodeJS.ProcessEnv): boolean =>
  Boolean(TMUX || STY) || /^(tmux|screen)/.test(TERM);

/**
 * How a terminal says that it shows 16 million colours or 256. Node's own `getColorDepth` knows neither kitty over ssh, where
 * COLORTERM is not passed on, nor true colour in tmux.
 */
function colourLook(env: NodeJS.ProcessEnv): 'true colour' | '256 colours' | 'characters' {
  const { COLORTERM = '', FORCE_COLOR, TERM = '' } = env;
  const isTrue =
    ['truecolor', '24bit'].includes(COLORTERM) ||
    /^(xterm-kitty|xterm-ghostty|wezterm)$|-direct$/.test(TERM) ||
    process.platform === 'win32';
  if (isTrue || FORCE_COLOR === '3') return 'true colour';
  return /-256(color)?$/.test(TERM) || FORCE_COLOR === '2' ? '256 colours' : 'characters';
}

/**
 * What the terminal of stdout can show. If stdin is a terminal too, it is asked whether it draws pictures, which takes as
 * long as its answer, and 2 s if there is none.
 * @throws Interrupted if Ctrl-C is pressed meanwhile
 */
export async function canvasOfTerminal({ stdin, stdout, env }: CommandIo): Promise<Canvas> {
  const look = hasColour(stdout, env) ? colourLook(env) : 'characters';
  const size = { columns: stdout.columns || usualColumns, rows: stdout.rows || usualRows };
  const canvas = { look, ...size, cell: usualCell } as const;
  if (look === 'characters' || !stdin.isTTY || !stdout.isTTY || isMultiplexer(env)) return canvas;
  const answer = await ask(stdin, stdout);
  const [, height, width] = cellAnswer.exec(answer) ?? [];
  const cell = Number(height) && Number(width) ? { width: Number(width), height: Number(height) } : usualCell;
  if (kittyAnswer.test(answer)) return { ...canvas, look: 'kitty', cell };
  const abilities = lastAnswer.exec(answer)?.[1]?.split(';') ?? [];
  return abilities.includes(sixel) ? { ...canvas, look: 'sixel', cell } : canvas;
}
