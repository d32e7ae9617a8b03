import { describe, expect, test } from 'vitest';
import { killAndSay, killedOnInterrupt } from '../../../src/client/case/kill-job.js';
import { Interrupted } from '../../../src/client/errors.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { json } from '../../support/scripted-server.js';
import { connectTo, memoryReporter } from '../support/connect.js';

/** What is said of a job that is killed on a service that behaves like this. */
async function killed(fake: Fake, killTimeout = 5) {
  const reporter = memoryReporter();
  await using server = await fakeService(fake);
  await using connection = connectTo(server.url);
  const said = await killAndSay(connection, jobId, 'Interrupted', { reporter, killTimeout });
  return { ...said, notes: reporter.notes };
}
const answers = (status: number, body: object): Fake => ({
  override: ({ url }, response) => {
    if (!url.endsWith('/kill')) return false;
    json(response, status, body);
    return true;
  },
});

describe('a job that is killed', () => {
  test('A job that is killed is said to be, with what it left and how to fetch that', async () => {
    expect(await killed({ status: 'killed', view: { left_files: 3 } })).toEqual({
      outcome: `remote job ${jobId} is killed and left 3 files; 'remote-app result ${jobId} --partial' fetches what it left`,
      details: { job_id: jobId, status: 'killed' },
      notes: [`Interrupted: killing remote job ${jobId}`],
    });
    const nothing = {
      outcome: `remote job ${jobId} is killed`,
      details: { job_id: jobId, status: 'killed' },
    };
    for (const view of [{ left_files: 0 }, { left_files: null }])
      expect(await killed({ status: 'killed', view })).toMatchObject(nothing);
  });

  test('A job that is killed may have ended before, and then has a result', async () => {
    const done = answers(200, { job_id: jobId, status: 'done' });
    expect((await killed({ ...done, view: { left_files: 3 } })).outcome).toBe(
      `remote job ${jobId} is done; 'remote-app result ${jobId}' fetches its result`,
    );
  });

  test('A job that is killed may still run where the server does not confirm it', async () => {
    const { outcome, details } = await killed(answers(500, { detail: 'It does not end' }));
    expect(outcome).toBe(
      `remote job ${jobId} may still run: 'remote-app kill ${jobId}' ends it (It does not end)`,
    );
    expect(details).toEqual({ job_id: jobId });
  });

  test('A job that is killed may still run where the server does not answer in the time that the command has for it', async () => {
    const { outcome } = await killed({ override: ({ url }) => url.endsWith('/kill') }, 0.05);
    expect(outcome).toMatch(/ends it \(http:\S+ did not answer in time\)$/);
  }, 4000);
});

describe('a wait for a job that is interrupted', () => {
  /** Interrupts a wait for a job, and tells how often the job was killed and what was told. */
  async function interrupted(
    name: string,
    more: { many?: object; isBefore?: boolean; reason?: Interrupted; fake?: Fake } = {},
  ) {
    const controller = new AbortController();
    const reason = more.reason ?? new Interrupted(name);
    if (more.isBefore) controller.abort(reason);
    const kills: string[] = [];
    const reporter = memoryReporter();
    const waits: unknown[] = [];
    const told = { ...reporter, waiting: (what: string | null) => waits.push(what) };
    await using server = await fakeService({
      status: 'killed',
      onKill: () => kills.push(jobId),
      ...more.fake,
    });
    await using connection = connectTo(server.url, { signal: controller.signal });
    let hasWaited = false;
    const wait = async () => {
      hasWaited = true;
      controller.abort(reason);
      throw new Error('The connection broke');
    };
    const how = { reporter: told, killTimeout: 5, many: more.many };
    const error = await killedOnInterrupt(connection, jobId, how, wait).catch((cause: unknown) => cause);
    return { error: error as Interrupted, reason, kills, waits, hasWaited, notes: reporter.notes };
  }

  test('A wait for a job that is interrupted kills it, and says so; meanwhile a second Ctrl-C says what it leaves', async () => {
    const { error, reason, kills, notes } = await interrupted('SIGINT');
    expect([error.message, error.details]).toEqual([
      `Interrupted; remote job ${jobId} is killed`,
      { job_id: jobId, status: 'killed' },
    ]);
    expect(reason.leaves).toBe(`remote job ${jobId} may still run: 'remote-app kill ${jobId}' ends it`);
    expect([kills, notes]).toEqual([[jobId], [`Interrupted: killing remote job ${jobId}`]]);
  });

  test('A wait for a job that is interrupted kills it, too, where it came before the wait', async () => {
    const { kills, hasWaited } = await interrupted('SIGTERM', { isBefore: true });
    expect([kills, hasWaited]).toEqual([[jobId], false]);
  });

  test('A wait for a job that is interrupted leaves it where it is only no longer waited for', async () => {
    const { error, kills, notes } = await interrupted('SIGQUIT');
    expect([error.message, error.details]).toEqual([
      `Interrupted; remote job ${jobId} goes on: 'remote-app logs ${jobId}' follows it, 'remote-app result ${jobId}' fetches its result`,
      { job_id: jobId },
    ]);
    expect([kills, notes]).toEqual([[], []]);
  });

  test('A wait for a job that is interrupted is that of the command where the job is one of many, which is killed without a word', async () => {
    const { error, reason, kills, notes, waits } = await interrupted('SIGINT', { many: {} });
    expect([error, kills, notes, waits]).toEqual([reason, [jobId], [], ['Stopping the job']]);
    const left = await interrupted('SIGQUIT', { many: {} });
    expect([left.error, left.kills]).toEqual([left.reason, []]);
    const refused = await interrupted('SIGINT', { many: {}, fake: answers(500, { detail: 'Broken' }) });
    expect(refused.error).toBe(refused.reason);
  });

  test('A wait for a job that is interrupted by a fault of this program kills it, and throws that fault', async () => {
    const reason = new Error('The terminal broke') as Interrupted;
    const { error, kills, notes } = await interrupted('', { reason });
    expect([error, kills, notes]).toEqual([reason, [jobId], [`Interrupted: killing remote job ${jobId}`]]);
  });

  test('A wait for a job that is interrupted that fails by itself is no interruption', async () => {
    await using server = await fakeService({});
    await using connection = connectTo(server.url, { signal: new AbortController().signal });
    const cause = new Error('x');
    const how = { reporter: memoryReporter(), killTimeout: 5 };
    const fails = killedOnInterrupt(connection, jobId, how, () => Promise.reject(cause));
    await expect(fails).rejects.toBe(cause);
    expect(server.to(`/jobs/${jobId}/kill`)).toEqual([]);
  });
});
