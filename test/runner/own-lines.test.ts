import { expect, test } from 'vitest';
import { asCommandLine } from '../../src/runner/log.js';

const marked = (text: string) => asCommandLine({ text, isRedraw: false }).text;

test.for([
  '[remote-app] Killed by user',
  '[remote-app]',
  '\u001b[31m[remote-app] Result: 3 files',
  '\u200b\u001b[0m\u001b[1;32m[remote-app] Assigned GPUs: 0',
  '\0\u0008[remote-app] a line',
])('A line of the command that reads as the service’s own gets a space in front: %j', (line) => {
  expect(marked(line)).toBe(` ${line}`);
});

test.for(['case 1 of 3', '', 'see [remote-app] above', ' [remote-app] quoted', '[remote-application]'])(
  'Any other line stays as it is: %j',
  (line) => {
    expect(marked(line)).toBe(line);
  },
);
