import { expect, test } from 'vitest';
import { watchInterruption } from '../../src/cli/command/interruption.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import { imitate } from '../support/platform.js';

/** Whether a signal interrupts a command. */
function interrupts(name: NodeJS.Signals): boolean {
  const interruption = watchInterruption(new CommandIo(process), false);
  process.emit(name, name);
  interruption.stop();
  return interruption.signal.aborted;
}

test.each(['SIGINT', 'SIGTERM'] as const)('%s interrupts on every system', (name) => {
  for (const platform of ['linux', 'darwin', 'win32'] as const) {
    using _ = imitate(platform);
    expect(interrupts(name)).toBe(true);
  }
});

test('Ctrl-Break interrupts on Windows, and leaves no listener behind', () => {
  expect(interrupts('SIGBREAK')).toBe(false);
  using _ = imitate('win32');
  expect(interrupts('SIGBREAK')).toBe(true);
  expect(process.listenerCount('SIGBREAK')).toBe(0);
});
