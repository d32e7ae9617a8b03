import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CommandIo, canvasOfTerminal } from '../../../src/cli/terminal/index.js';
import { Interrupted } from '../../../src/client/errors.js';

test.each([
  [{ TERM: 'xterm-256color', COLORTERM: 'truecolor' }, 'true colour'],
  [{ TERM: 'xterm', COLORTERM: '24bit' }, 'true colour'],
  // Over ssh, which does not pass COLORTERM on.
  [{ TERM: 'xterm-kitty' }, 'true colour'],
  [{ TERM: 'xterm-direct' }, 'true colour'],
  [{ TERM: 'screen-256color' }, '256 colours'],
  [{ TERM: 'xterm', FORCE_COLOR: '2' }, '256 colours'],
  [{ TERM: 'xterm' }, 'characters'],
  [{ TERM: 'xterm-256color', NO_COLOR: '1' }, 'characters'],
])('a terminal with %j has %s', async (env, look) => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 100, rows: 30 });
  const streams = { stdin: new PassThrough(), stdout: terminal, stderr: terminal };
  const canvas = await canvasOfTerminal(new CommandIo({ ...streams, env }));
  expect(canvas).toMatchObject({ look, columns: 100, rows: 30 });
});

const esc = '\u001b';

/** A terminal that answers the questions about pictures with these bytes. */
async function asked(answers: readonly string[], env: NodeJS.ProcessEnv = {}, size: object = {}) {
  const raw: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => raw.push(isRaw),
  });
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 100, rows: 30, ...size });
  const written: string[] = [];
  stdout.on('data', (chunk) => {
    written.push(String(chunk));
    for (const each of answers) stdin.write(each);
  });
  const io = new CommandIo({ stdin, stdout, stderr: stdout, env: { TERM: 'xterm-256color', ...env } });
  const canvas = await canvasOfTerminal(io).catch((cause: unknown) => cause);
  return { canvas, raw, isAsked: written.length > 0, listeners: stdin.listenerCount('data') };
}

const kitty = `${esc}_Gi=31;OK${esc}\\`;
const cell = `${esc}[6;20;10t`;
const last = (...abilities: number[]) => `${esc}[?${abilities.join(';')}c`;

test.each([
  ['kitty', [kitty + cell + last(62, 4)], { look: 'kitty', cell: { width: 10, height: 20 } }],
  ['sixel', [cell, last(62, 4, 22)], { look: 'sixel', cell: { width: 10, height: 20 } }],
  ['sixel', [last(4)], { look: 'sixel', cell: { width: 8, height: 16 } }],
  ['sixel', [`${esc}[6;0;10t${last(4)}`], { look: 'sixel', cell: { width: 8, height: 16 } }],
  ['none', [cell + last(62, 14, 40)], { look: '256 colours', cell: { width: 8, height: 16 } }],
])('a terminal says by its answers which pictures it draws: %s', async (_, answers, canvas) => {
  expect(await asked(answers)).toEqual({
    canvas: { columns: 100, rows: 30, ...canvas },
    raw: [true, false],
    isAsked: true,
    listeners: 0,
  });
});

test.each([
  ['in tmux', { TMUX: '/tmp/tmux' }],
  ['in screen', { STY: '1' }],
  ['in either, over ssh', { TERM: 'tmux-256color' }],
])('a terminal %s is not asked', async (_, env) => {
  expect(await asked([last(4)], env)).toMatchObject({ canvas: { look: '256 colours' }, isAsked: false });
});

test('a terminal that does not say its size has 80 columns and 24 rows', async () => {
  expect((await asked([last()], {}, { columns: 0, rows: 0 })).canvas).toMatchObject({
    columns: 80,
    rows: 24,
  });
});

test('Ctrl-C while a terminal is asked ends the command, and the terminal is as before', async () => {
  const { canvas, raw } = await asked(['\u0003']);
  expect(canvas).toEqual(new Interrupted('SIGINT'));
  expect(raw).toEqual([true, false]);
});
