import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { watchInterruption } from '../../src/cli/command/interruption.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import { Interrupted } from '../../src/client/errors.js';
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

/** A command whose stderr is a terminal that a person watches, or not. */
function command(isTerminal: boolean) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const screen = isTerminal ? Object.assign(stderr, { isTTY: true, columns: 80 }) : stderr;
  const io = new CommandIo({ stdin: new PassThrough(), stdout, stderr: screen, env: { NO_COLOR: '1' } });
  return { io, told: () => String(stderr.read() ?? ''), printed: () => String(stdout.read() ?? '') };
}

const send = (name: NodeJS.Signals) => process.emit(name, name);

test('A closed terminal interrupts once, and does not interrupt a command without a terminal', () => {
  for (const isTerminal of [true, false]) {
    const { io, told } = command(isTerminal);
    const { signal, stop } = watchInterruption(io, false);
    send('SIGHUP');
    send('SIGHUP');
    stop();
    expect([signal.aborted, told()]).toEqual([isTerminal, '']);
  }
});

test('A second signal ends the command at once, and the message says what is left behind', async () => {
  const exit = vi.spyOn(process, 'exit').mockImplementation((() => {}) as () => never);
  try {
    const left = "job ab goes on; 'remote-app kill ab' ends it";
    for (const [json, isTerminal] of [
      [false, true],
      [true, false],
    ]) {
      const { io, told, printed } = command(isTerminal ?? false);
      const { signal, stop } = watchInterruption(io, json ?? false);
      send('SIGINT');
      if (signal.reason instanceof Interrupted) signal.reason.leaves = left;
      send('SIGTERM');
      stop();
      await setImmediate();
      await setImmediate();
      const sentence = `Interrupted by SIGTERM; ${left}`;
      const echo = isTerminal ? '\r\u001b[K\r' : '';
      expect(told()).toBe(`${echo}Error: ${sentence}\n`);
      const document = { error: { message: sentence, exit_code: 130 } };
      expect(printed()).toBe(json ? `${JSON.stringify(document, null, 2)}\n` : '');
    }
    expect(exit.mock.calls).toEqual([[130], [130]]);
  } finally {
    exit.mockRestore();
  }
});
