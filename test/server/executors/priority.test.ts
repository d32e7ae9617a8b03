import { existsSync, readFileSync } from 'node:fs';
import { constants, getPriority } from 'node:os';
import { expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ runners: true });
const { api } = server;
const lowest = constants.priority.PRIORITY_LOW;

test('A job and its runner have a lower priority than the server', async () => {
  const gate = server.gate();
  await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
  const processes = server.processes();
  expect(processes.length).toBeGreaterThan(1);
  expect(new Set(processes.map((pid) => getPriority(pid)))).toEqual(new Set([lowest]));
  expect(getPriority()).toBeLessThan(lowest);
  gate.open();
});

test.runIf(existsSync('/proc/self/autogroup'))(
  'The sessions of a job and its runner have a lower priority too, on Linux with autogroups',
  async () => {
    const groupOf = (pid: number) =>
      readFileSync(`/proc/${pid}/autogroup`, 'utf8')
        .split(' ')
        .map((each) => each.trim());
    const [serverGroup] = groupOf(process.pid);
    const gate = server.gate();
    await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await until('the sessions are lowered', () =>
      server.processes().every((pid) => {
        const [name, , nice] = groupOf(pid);
        return name !== serverGroup && nice === String(lowest);
      }),
    );
    gate.open();
  },
);
