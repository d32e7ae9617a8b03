import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CommandIo, canvasOfTerminal } from '../../../src/cli/terminal/index.js';

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
])('A terminal with %j is drawn in: %s', (env, look) => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 100, rows: 30 });
  const streams = { stdin: new PassThrough(), stdout: terminal, stderr: terminal };
  const canvas = canvasOfTerminal(new CommandIo({ ...streams, env }));
  expect(canvas).toMatchObject({ look, columns: 100, rows: 30 });
});

test('A terminal of unknown size is assumed to have 80 columns and 24 rows', () => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 0, rows: 0 });
  const streams = { stdin: new PassThrough(), stdout: terminal, stderr: terminal };
  expect(canvasOfTerminal(new CommandIo({ ...streams, env: {} }))).toMatchObject({ columns: 80, rows: 24 });
});
