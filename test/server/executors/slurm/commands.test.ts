import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { runSlurm } from '../../../../src/server/executors/slurm/slurm.js';
import { withNoDescriptors } from '../../../support/no-descriptors.js';
import { processesWith } from '../../../support/processes.js';
import { temporary } from '../../../support/temporary.js';
import { until } from '../../../support/until.mjs';

/** A program that stands in for one of Slurm's. */
async function withProgram(script: string, use: (program: string) => Promise<void>): Promise<void> {
  await using root = await temporary();
  const program = path.join(root.path, 'sbatch');
  mkdirSync(root.path, { recursive: true });
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  await use(program);
}

const environment = { PATH: process.env.PATH };

test('A command gets its arguments and its input unchanged', () =>
  withProgram('for word; do echo "<$word>"; done; cat', async (program) => {
    const words = ['--chdir=/a b', '$(id)', "'"];
    expect(await runSlurm(program, words, environment, 'input')).toBe("<--chdir=/a b>\n<$(id)>\n<'>\ninput");
  }));

test.for([
  ['Unable to contact slurm controller (connect failure)', true],
  ['Socket timed out on send/recv operation', true],
  ['Resource temporarily unavailable', true],
  ['Invalid partition name specified', false],
  ['Job violates accounting/QOS policy (job submit limit, user size and/or time limits)', false],
] as const)('A refusal is reported in the words of Slurm: %s', ([words, isTemporary]) =>
  withProgram(
    `echo "sbatch: a word of a plugin" >&2; echo "sbatch: error: Batch job submission failed: ${words}" >&2; exit 1`,
    async (program) => {
      await expect(runSlurm(program, [], environment)).rejects.toMatchObject({ message: words, isTemporary });
    },
  ),
);

test('A refusal without words is reported with the exit code', () =>
  withProgram('exit 3', async (program) => {
    await expect(runSlurm(program, [], environment)).rejects.toThrow('failed (exit code 3)');
  }));

test('A command that hangs is killed together with its children', () =>
  withProgram('sleep 300 & wait', async (program) => {
    const failure = {
      message: expect.stringContaining('did not answer within 1 seconds'),
      isTemporary: true,
    };
    const marked = { ...environment, MARK: program };
    await expect(runSlurm(program, [], marked, '', 1000)).rejects.toMatchObject(failure);
    await until('nothing of it is left', () => processesWith({ environment: program }).length === 0);
  }));

test('A command ends although a child keeps its pipes open', () =>
  withProgram('sleep 300 & echo said', async (program) => {
    expect(await runSlurm(program, [], { ...environment, MARK: program })).toBe('said\n');
    await until('nothing of it is left', () => processesWith({ environment: program }).length === 0);
  }));

test('A command that fails for lack of file descriptors may succeed later', () =>
  withProgram('echo said', async (program) => {
    const answer = await withNoDescriptors(() => runSlurm(program, [], environment).catch((cause) => cause));
    const message = expect.stringContaining('could not be started: ');
    expect(answer).toMatchObject({ name: 'SlurmFailure', isTemporary: true, message });
  }));

test('A missing command is not a temporary failure', async () => {
  const failure = { message: expect.stringContaining('no such program'), isTemporary: false };
  await expect(runSlurm('no-such-sbatch', [], environment)).rejects.toMatchObject(failure);
});
