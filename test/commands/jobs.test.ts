import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json, ScriptedServer } from '../support/scripted-server.js';
import { zipOf } from '../support/zip.mjs';

const own = { job_id: jobId, status: 'running', app: 'tissue', operation: 'infer', inputs: ['a.nii'] };
const earlier = [170, 180, 190, 600].map((run_seconds, index) => ({
  ...{ ...own, job_id: `job${index}`, status: 'done', run_seconds },
}));

test('On a terminal, jobs are listed with the newest last and fit the width', async () => {
  await using cli = await Cli.create();
  const input = 'sub-0123_ses-baseline_acq-highres_run-1_T1w.nii.gz';
  const jobs = [own, ...earlier].map((job) => ({ ...job, inputs: [input], tag: 'a-study-of-many-knees' }));
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!/^\/jobs(\?|$)/.test(url)) return false;
      json(response, 200, { jobs });
      return true;
    },
  });
  const args = ['jobs', '--server', server.url];
  await using terminal = new ScreenTerminal(cli, args, { columns: 80 });
  expect(await terminal.ended()).toBe(0);
  const [heading, ...rows] = terminal.rows.filter((row) => row !== '');
  expect(heading).toMatch(/^JOB /);
  // A line that does not fit would take two rows.
  expect(rows.map((row) => row.split(' ')[0])).toEqual(['job3', 'job2', 'job1', 'job0', jobId]);
  const { stdout } = await cli.run([...args, '-q']);
  expect(stdout.trim().split('\n')).toEqual([jobId, 'job0', 'job1', 'job2', 'job3']);
});

const result = zipOf({ 'mask.nii': Buffer.alloc(300_000, 'mask') });

/** Runs one command against a service that behaves like this. */
async function run(fake: Fake, ...args: string[]) {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  const ended = await cli.run(args, { REMOTE_APP_SERVER: server.url });
  const output = await readdir(path.join(cli.directory, 'Output')).catch(() => []);
  return { ...ended, output: output.sort() };
}

test.each([['status'], ['logs'], ['result'], ['kill'], ['rm'], ['apps'], ['infer']])(
  '%s sends nothing for an id that would change the path of the request',
  async (command) => {
    await using cli = await Cli.create();
    await using server = await ScriptedServer.start((_, response) => json(response, 404, { detail: 'no' }));
    const named = ['.', '..', ...(command === 'apps' || command === 'infer' ? [] : [''])];
    await writeFile(path.join(cli.directory, 'ct.nii'), '');
    for (const id of named) {
      const args = command === 'infer' ? ['infer', 'ct.nii', '--app', id] : [command, id];
      const { code, stderr } = await cli.run(args, { REMOTE_APP_SERVER: server.url });
      expect([code, stderr]).toEqual([2, expect.stringContaining(`'${id}' is not the id`)]);
    }
    expect(server.received).toEqual([]);
  },
);

test('An operation is shown by the name of its command, and with --json by its protocol name', async () => {
  const fake: Fake = {
    override: ({ url }, response) => {
      if (!url.startsWith('/jobs')) return false;
      const job = { job_id: jobId, status: 'running', operation: 'fine_tune' };
      json(response, 200, url === '/jobs' ? { jobs: [job] } : job);
      return true;
    },
  };
  expect((await run(fake, 'status', jobId)).stdout).toMatch(/^Operation +fine-tune$/m);
  expect((await run(fake, 'jobs')).stdout).toMatch(/ fine-tune$/m);
  expect(JSON.parse((await run(fake, 'status', jobId, '--json')).stdout).operation).toBe('fine_tune');
});

describe('logs', () => {
  test('logs prints the log and exits with 0 for a job that is done', async () => {
    const { code, stdout } = await run({ lines: ['one', 'two'] }, 'logs', jobId);
    expect([code, stdout]).toEqual([0, 'one\ntwo\n']);
  });

  test('logs --since skips lines', async () => {
    expect((await run({ lines: ['one', 'two'] }, 'logs', jobId, '--since', '1')).stdout).toBe('two\n');
    const both = await run({}, 'logs', jobId, '--since', '1', '--tail', '2');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('--tail')]);
  });

  test('logs exits with 1 for a job that failed', async () => {
    const { code, stderr } = await run(
      { status: 'error', error: 'sad', marker: '__ERROR__ sad' },
      'logs',
      jobId,
    );
    expect([code, stderr]).toEqual([1, `Error: Job ${jobId} failed: sad\n`]);
  });
});

describe('result', () => {
  test('result saves and extracts the archive', async () => {
    const { code, stdout, output } = await run({ result }, 'result', jobId);
    expect([code, stdout, output]).toEqual([0, '', ['mask.nii', 'result.zip']]);
  });

  test('result -o - writes the zip to stdout, byte for byte', async () => {
    const { code, bytes, output } = await run({ result }, 'result', jobId, '-o', '-');
    expect(code).toBe(0);
    expect(bytes.equals(result)).toBe(true);
    expect(output).toEqual([]);
  });

  test('result -o - and --json cannot both use stdout', async () => {
    const { code, stdout } = await run({ result }, 'result', jobId, '-o', '-', '--json');
    expect(code).toBe(2);
    expect(JSON.parse(stdout).error.exit_code).toBe(2);
  });

  test('result exits with 1 for a failed job and with 2 for an unknown one', async () => {
    expect((await run({ status: 'killed', error: 'Killed by user' }, 'result', jobId)).code).toBe(1);
    for (const command of ['result', 'logs', 'status']) {
      const { code, stderr } = await run({}, command, 'nope');
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^Error: No job 'nope' on http:/)]);
    }
  });
});

test('rm leaves the remaining jobs alone once it is interrupted', async () => {
  await using cli = await Cli.create();
  const removed: string[] = [];
  await using server = await fakeService({
    override: ({ method, url }) => {
      if (method !== 'DELETE') return false;
      removed.push(url);
      process.emit('SIGINT', 'SIGINT');
      // It is not answered.
      return true;
    },
  });
  const others = ['ffffffffffff', 'eeeeeeeeeeee'];
  const { code, stdout, stderr } = await cli.run(['rm', jobId, ...others, '--server', server.url]);
  expect([code, stdout, stderr, removed]).toEqual([130, '', 'Error: Interrupted\n', [`/jobs/${jobId}`]]);
});

describe('status and jobs', () => {
  test('status prints the known facts, and --json prints all of them', async () => {
    expect((await run({ status: 'running' }, 'status', jobId)).stdout).toMatch(/Status +running/);
    const { stdout } = await run({ status: 'running' }, 'status', jobId, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ job_id: jobId, status: 'running' });
  });

  test('jobs says on stderr that there are none, and with -q prints nothing', async () => {
    const override: Fake['override'] = ({ url }, response) => {
      if (url !== '/jobs') return false;
      json(response, 200, { jobs: [] });
      return true;
    };
    const { code, stdout, stderr } = await run({ override }, 'jobs');
    expect([code, stdout, stderr]).toEqual([
      0,
      '',
      expect.stringMatching(/^No jobs on http:\/\/127.0.0.1:\d+\n$/),
    ]);
    const quiet = await run({ override }, 'jobs', '-q');
    expect([quiet.code, quiet.stdout, quiet.stderr]).toEqual([0, '', '']);
    expect(JSON.parse((await run({ override }, 'jobs', '--json')).stdout)).toEqual({ jobs: [] });
  });

  test('jobs requests pages until it has all jobs or as many as --limit allows', async () => {
    const page = 1000;
    const ids = Array.from({ length: page + 2 }, (_, index) => (0xabc000000000 + index).toString(16));
    const asked: string[] = [];
    const override: Fake['override'] = ({ url }, response) => {
      const { pathname, searchParams } = new URL(url, 'http://x');
      if (pathname !== '/jobs') return false;
      asked.push(String(searchParams));
      const from = ids.indexOf(searchParams.get('before') ?? '') + 1;
      const limit = Number(searchParams.get('limit') ?? page);
      json(response, 200, {
        jobs: ids.slice(from, from + limit).map((id) => ({ job_id: id, status: 'done' })),
      });
      return true;
    };
    expect((await run({ override }, 'jobs', '-q')).stdout.trim().split('\n')).toEqual(ids);
    expect(asked).toEqual(['', `before=${ids[page - 1]}`]);
    expect((await run({ override }, 'jobs', '-q', '--limit', '2')).stdout).toBe(`${ids[0]}\n${ids[1]}\n`);
    expect(asked.at(-1)).toBe('limit=2');
  });

  test('jobs says so if the server has no list of jobs', async () => {
    const override: Fake['override'] = ({ url }, response) => {
      if (url !== '/jobs') return false;
      json(response, 404, { detail: 'Not Found' });
      return true;
    };
    const { code, stderr } = await run({ override }, 'jobs');
    expect([code, stderr]).toEqual([2, expect.stringMatching(/http:\/\/\S+ has no list of jobs/)]);
  });

  test('jobs can filter by state and print only ids', async () => {
    const states = ['waiting', 'running', 'done'];
    const override: Fake['override'] = ({ url }, response) => {
      if (url !== '/jobs') return false;
      json(response, 200, { jobs: states.map((status, index) => ({ job_id: `j${index}`, status })) });
      return true;
    };
    const ids = async (...args: string[]) => (await run({ override }, 'jobs', '-q', ...args)).stdout;
    expect(await ids()).toBe('j0\nj1\nj2\n');
    expect(await ids('--status', 'running,waiting')).toBe('j0\nj1\n');
    const none = await run({ override }, 'jobs', '--status', 'killed,error');
    expect([none.stdout, none.stderr]).toEqual([
      '',
      expect.stringMatching(/^No jobs that are killed or error on /),
    ]);
    const { stdout } = await run({ override }, 'jobs', '--status', 'done', '--json');
    expect(JSON.parse(stdout).jobs).toMatchObject([{ job_id: 'j2', status: 'done' }]);
    const wrong = await run({ override }, 'jobs', '--status', 'sleeping');
    expect(wrong.code, wrong.stderr).toBe(2);
    expect(wrong.stderr).toMatch(/--status takes queued, .* got 'sleeping'/);
  });

  test('jobs prints a table, and with --json a document', async () => {
    const { stdout } = await run({}, 'jobs');
    expect(stdout).toBe(
      `JOB           STATUS  OPERATION  APP     GPUS  CREATED  RUN TIME\n${jobId}  done    infer      tissue\n`,
    );
    expect(JSON.parse((await run({}, 'jobs', '--json')).stdout).jobs).toHaveLength(1);
  });
});
