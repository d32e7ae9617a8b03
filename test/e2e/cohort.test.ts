import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { dicomSeries } from '../support/dicom.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { konfaiJobId, konfaiServer } from '../support/konfai-server.js';
import { list } from '../support/list.mjs';
import { freePort } from '../support/ports.mjs';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json, type Received } from '../support/scripted-server.js';
import { smallDisk } from '../support/small-disk.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { zip, zipOf } from '../support/zip.mjs';
import { Study } from './study.js';

const scan = (name: string) => path.join('bids', name, 'anat', `${name}_T1w.nii`);

test('Each volume gets a job with a directory, a record and a row, and the same command finds them done', async () => {
  await using study = await Study.create(['one', 'two', 'three']);
  const first = await study.run('--tag', 'study1');
  expect(first.code, first.stderr).toBe(0);
  expect(first.stdout.trim().split('\n').sort()).toEqual([
    expect.stringMatching(/^done sub-01_T1w \(\d+ s\)$/),
    expect.stringMatching(/^done sub-02_T1w \(\d+ s\)$/),
    expect.stringMatching(/^done sub-03_T1w \(\d+ s\)$/),
  ]);
  expect(first.stderr).toContain(`3 cases: 3 done\nThe table is '${study.at('Out', 'cases.csv')}'\n`);
  expect(readdirSync(study.at('Out')).sort()).toEqual(list`.remote-app cases.csv sub-01_T1w sub-02_T1w
    sub-03_T1w`);
  expect(readdirSync(study.at('Out', 'sub-02_T1w')).sort()).toEqual(list`mask.nii measurements.json
    remote-app-log.txt remote-app-record.json`);
  expect(readFileSync(study.at('Out', 'sub-02_T1w', 'mask.nii'), 'utf8')).toBe('mask of two');
  const record = JSON.parse(readFileSync(study.at('Out', 'sub-02_T1w', 'remote-app-record.json'), 'utf8'));
  expect(record).toMatchObject({
    operation: 'infer',
    app: 'masker',
    inputs: [{ name: 'sub-02_T1w.nii', size: 3, field: 'inputs', group: 0 }],
    outputs: [{ name: 'mask.nii' }, { name: 'measurements.json' }],
    numbers: { letters: 3 },
    units: { inputs: null, outputs: 'ms' },
    server: study.server.url,
    server_version: record.client_version,
  });
  expect(study.table).toEqual([
    ['case', 'status', 'reason', 'version', 'seconds', 'job', 'subject', 'letters'],
    ['sub-01_T1w', 'done', '', record.app_version, expect.any(String), expect.any(String), '01', '3'],
    ['sub-02_T1w', 'done', '', record.app_version, expect.any(String), record.job_id, '02', '3'],
    ['sub-03_T1w', 'done', '', record.app_version, expect.any(String), expect.any(String), '03', '5'],
  ]);
  expect(
    (await study.cli.run(['jobs', '--tag', 'study1', '-q'], study.env)).stdout.trim().split('\n'),
  ).toHaveLength(3);

  const again = await study.run('--tag', 'study1');
  expect(again.code, again.stderr).toBe(0);
  expect(again.stdout).toBe('');
  expect(again.stderr).toContain('3 cases: 3 done (3 of them before)\n');
  expect(study.server.jobDirectories()).toHaveLength(3);
  expect(study.computed).toEqual(['one', 'three', 'two']);
});

test('Only what has changed is computed again', async () => {
  await using study = await Study.create(['one', 'two']);
  expect((await study.run()).code).toBe(0);
  writeFileSync(study.at(scan('sub-02')), 'TWO');
  expect((await study.run()).stderr).toContain('2 cases: 2 done (1 of them before)\n');
  expect(study.computed).toEqual(['TWO', 'one', 'two']);
  expect(readFileSync(study.at('Out', 'sub-02_T1w', 'mask.nii'), 'utf8')).toBe('mask of TWO');
  expect((await study.run('--tta', '2')).stderr).toContain('2 cases: 2 done\n');
  expect(study.computed).toEqual(['TWO', 'TWO', 'one', 'one', 'two']);
  await plant(study.at('bids'), { 'sub-03/anat/sub-03_T1w.nii': 'three' });
  expect((await study.run('--tta', '2')).stderr).toContain('3 cases: 3 done (2 of them before)\n');
});

test('A result is kept if only the content of its scan has not been fetched', async () => {
  await using study = await Study.create(['one']);
  await study.run();
  await rm(study.at(scan('sub-01')));
  symlinkSync('../../.git/annex/objects/x.nii', study.at(scan('sub-01')));
  expect((await study.run()).code).toBe(1);
  expect(existsSync(study.at('Out', 'sub-01_T1w', 'mask.nii'))).toBe(true);
  expect(study.table[1]?.slice(0, 2)).toEqual(['sub-01_T1w', 'failed']);
});

test('A case is not done if the server answers with the job of another case', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a', 'scans/b.nii': 'b', 'scans/c.nii': 'c' });
  await using server = await fakeService({ result: zipOf({ 'mask.nii': 'mask' }) });
  const words = ['infer', '--each', 'scans', '-o', 'Out', '--at-most', '1', '--server', server.url];
  const { code, stderr } = await cli.run(words);
  expect(code).toBe(1);
  expect(stderr).toContain('3 cases: 1 done, 2 failed\n');
  expect(stderr).toContain(`b: The server answered with job ${jobId}, which is that of 'a'\n`);
  const again = await cli.run(words);
  expect(again.stderr).toContain('3 cases: 1 done (1 of them before), 2 failed\n');
});

test('A result with a directory in place of the record still gets its record', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a' });
  await using server = await fakeService({
    result: zipOf({ 'mask.nii': 'mask', 'remote-app-record.json/x.txt': 'mine' }),
  });
  const { code, stderr } = await cli.run(['infer', '--each', 'scans', '-o', 'Out', '--server', server.url]);
  expect(code, stderr).toBe(0);
  expect(readdirSync(path.join(cli.directory, 'Out/a')).sort()).toEqual([
    'mask.nii',
    'remote-app-record.json',
    'remote-app-record_1.json',
  ]);
});

test('A result that cannot be extracted is not reported as saved', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a' });
  await using server = await fakeService({
    result: zipOf({ 'mask.nii': 'mask', 'a.txt': 'x' }).subarray(0, -30),
  });
  const { code, stderr } = await cli.run(['infer', '--each', 'scans', '-o', 'Out', '--server', server.url]);
  expect(code).toBe(1);
  expect(stderr).not.toContain('is saved');
  expect(stderr).not.toContain('.remote-app');
  expect(stderr).toMatch(
    new RegExp(`a: The result is not extracted: .*; 'remote-app result ${jobId} -o DIR`),
  );
});

test('A command for some cases leaves the rows of the others', async () => {
  await using study = await Study.create(['one', 'two', 'bad', 'four']);
  await study.run();
  const before = study.table;
  writeFileSync(study.at('Out/sub-02_T1w/mask.nii'), 'drawn');
  const some = await study.cli.run(['infer', '--each', 'bids/sub-0[14]/**/*.nii', '-o', 'Out'], study.env);
  expect(some.stderr).toContain('2 cases: 2 done (2 of them before)\n');
  expect(some.stderr).toContain('cases.csv keeps 1 row of earlier commands without a result: sub-03_T1w\n');
  expect(study.table.map(([name, status]) => [name, status])).toEqual([
    ['case', 'status'],
    ['sub-01_T1w', 'done'],
    ['sub-02_T1w', 'done'],
    ['sub-03_T1w', 'failed'],
    ['sub-04_T1w', 'done'],
  ]);
  expect(study.table[3]).toEqual(before[3]);
  expect(study.table[4]).toEqual(before[4]);
});

test('The subject and the session of a BIDS tree are columns, even of cases that were not requested', async () => {
  await using study = await Study.create([]);
  await plant(study.at('bids'), {
    'sub-01/ses-pre/anat/sub-01_ses-pre_T1w.nii': 'one',
    'sub-01/ses-post/anat/sub-01_ses-post_T1w.nii': 'two',
    'sub-02/anat/T1w.nii': 'bad',
  });
  const whole = await study.run('--json');
  const entities = (rows: readonly string[][]) => rows.map((row) => [row[0], ...row.slice(6, 8)]);
  const expected = [
    ['case', 'subject', 'session'],
    ['sub-01_ses-post_T1w', '01', 'post'],
    ['sub-01_ses-pre_T1w', '01', 'pre'],
    ['sub-02/anat/T1w', '02', ''],
  ];
  expect(entities(study.table)).toEqual(expected);
  expect(JSON.parse(whole.stdout).cases[0]).toMatchObject({ subject: '01', session: 'post' });
  await study.run('--session-label', 'pre');
  expect(entities(study.table).toSorted()).toEqual(expected.toSorted());
});

test('A linked directory of an earlier command is refused before anything is sent', async () => {
  await using study = await Study.create(['one']);
  await plant(study.cli.directory, { 'Out/': '', 'mine/new-work/thesis.txt': 'mine' });
  symlinkSync(study.at('mine'), study.at('Out', '.remote-app'));
  const { code, stderr } = await study.run();
  expect(code, stderr).toBe(2);
  expect(stderr).toContain('is a link, and results are not written through links');
  expect(readFileSync(study.at('mine/new-work/thesis.txt'), 'utf8')).toBe('mine');
  expect(study.server.jobDirectories()).toEqual([]);
});

describe('a case that fails', () => {
  test('A case that fails is named with what its app said, and does not stop the others', async () => {
    await using study = await Study.create(['one', 'bad, two', 'three']);
    const { code, stderr, stdout } = await study.run('--json');
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      output: study.at('Out'),
      table: study.at('Out', 'cases.csv'),
      cases: [
        { case: 'sub-01_T1w', status: 'done', is_new: true, numbers: { letters: 3 } },
        {
          case: 'sub-02_T1w',
          status: 'failed',
          reason: 'Subprocess failed (exit code 3): This scan is not a head',
        },
        { case: 'sub-03_T1w', status: 'done' },
      ],
    });
    expect(stderr).toContain('failed sub-02_T1w: Subprocess failed (exit code 3): This scan is not a head\n');
    expect(existsSync(study.at('Out', 'sub-02_T1w'))).toBe(false);
    expect((await study.run()).stderr).toContain('3 cases: 2 done (2 of them before), 1 failed\n');
    writeFileSync(study.at(scan('sub-02')), 'two');
    expect((await study.run()).code).toBe(0);
    expect(study.computed).toEqual(['bad, two', 'bad, two', 'one', 'three', 'two']);
  });

  test('A case that cannot be sent is named with the reason, and does not stop the others', async () => {
    await using study = await Study.create(['one', '', 'three']);
    await plant(study.at('bids'), { 'sub-04/anat/': '' });
    symlinkSync('../../.git/annex/objects/x.nii', study.at(scan('sub-04')));
    expect((await study.run('--dry-run')).stderr).toContain(
      "sub-02_T1w fails: 'bids/sub-02/anat/sub-02_T1w.nii' is empty (0 bytes)\n",
    );
    const { code, stderr } = await study.run();
    expect(code).toBe(1);
    expect(stderr).toContain(`4 cases: 2 done, 2 failed
  sub-02_T1w: 'bids/sub-02/anat/sub-02_T1w.nii' is empty (0 bytes)
  sub-04_T1w: 'bids/sub-04/anat/sub-04_T1w.nii' has no content on this machine, since git-annex did not fetch it; run 'datalad get' or 'git annex get'
`);
    expect(study.computed).toEqual(['one', 'three']);
    writeFileSync(study.at(scan('sub-02')), 'two');
    expect((await study.run()).stderr).toContain('4 cases: 3 done (2 of them before), 1 failed\n');
  });

  test('With --fail-fast, a case that fails ends the command', async () => {
    await using study = await Study.create(['bad', 'two', 'three']);
    const { code, stderr } = await study.run('--fail-fast', '--at-most', '1');
    expect(code).toBe(1);
    expect(stderr).toContain('3 cases: 0 done, 1 failed, 2 not computed\n');
    expect(study.computed).toEqual(['bad']);
  });
});

describe('an ended command', () => {
  test('A command that is ended by Ctrl-\\ leaves its jobs running, and says how many', async () => {
    await using study = await Study.create(['zero']);
    await study.run();
    writeFileSync(study.at('Out/sub-01_T1w/mask.nii'), 'drawn');
    await plant(study.at('bids'), {
      'sub-02/anat/sub-02_T1w.nii': 'one',
      'sub-03/anat/sub-03_T1w.nii': 'two',
      'sub-04/anat/sub-04_T1w.nii': 'three',
    });
    study.close();
    const running = study.cli.begin([...study.words, '--at-most', '2'], study.env);
    const known = () => readFileSync(study.at('Out/.remote-app/jobs.jsonl'), 'utf8').split('\n').length - 1;
    const before = known();
    await until(
      'two jobs run, and the command knows it',
      () => study.computed.length === 3 && known() === before + 2,
    );
    running.signal('SIGQUIT');
    const { code, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stderr).toContain(
      'Interrupted; 1 of 4 cases done; 2 jobs are still running on the server; the same command continues with the others',
    );
    await study.open();
    expect((await study.run()).stderr).toContain('4 cases: 4 done (1 of them before)\n');
    expect(study.computed).toEqual(['one', 'three', 'two', 'zero']);
  });

  test('No case is computed twice if the command and its server are killed with SIGKILL', async () => {
    const scans = Array.from({ length: 8 }, (_, index) =>
      index % 4 === 3 ? `bad ${index}` : `scan ${index}`,
    );
    await using study = await Study.create(scans, [], { ownProcess: true });
    for (const ends of [2, 5]) {
      const running = study.cli.start(study.words, study.env);
      await until('some cases have begun', () => study.computed.length >= ends);
      running.process.kill('SIGKILL');
      await running.ended;
      if (ends === 5) {
        // If a server is killed before it has recorded which version a job runs, nobody knows that afterwards.
        await until('the versions of the running jobs are recorded', async () => {
          const { stdout } = await study.cli.run(['jobs', '--json'], study.env);
          const jobs: { status: string; version: string | null }[] = JSON.parse(stdout).jobs;
          return jobs.every(({ status, version }) => status !== 'running' || version !== null);
        });
        await study.server.crash();
        await study.server.start();
      }
    }
    const last = await study.run();
    expect(last.code, last.stderr).toBe(1);
    expect(last.stderr).toContain('8 cases: 6 done');
    const good = scans.filter((each) => !each.startsWith('bad'));
    expect(study.computed.filter((each) => !each.startsWith('bad'))).toEqual(good.toSorted());
    expect(study.table.filter(([, status]) => status === 'failed').map(([name]) => name)).toEqual([
      'sub-04_T1w',
      'sub-08_T1w',
    ]);
    expect(readdirSync(study.at('Out', '.remote-app')).sort()).toEqual(['jobs.jsonl']);
  });

  test('A command that is ended by Ctrl-C stops its jobs, and continues when it is repeated', async () => {
    await using study = await Study.create(['one', 'two', 'three']);
    study.close();
    const running = study.cli.begin([...study.words, '--at-most', '2'], study.env);
    await until('two jobs run', () => study.computed.length === 2);
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stderr).toContain('Interrupted; 0 of 3 cases done; the same command continues with the others');
    const { stdout } = await study.cli.run(['jobs', '--json'], study.env);
    expect(JSON.parse(stdout).jobs.map(({ status }: { status: string }) => status)).toEqual([
      'killed',
      'killed',
    ]);
    await study.open();
    expect((await study.run()).stderr).toContain('3 cases: 3 done\n');
  });
});

test('A second command for the directory is refused while one runs', async () => {
  await using study = await Study.create(['one']);
  study.close();
  const running = study.cli.begin(study.words, study.env);
  await until('a job runs', () => study.computed.length === 1);
  const { code, stderr } = await study.run();
  expect([code, stderr]).toEqual([2, expect.stringContaining('Another command writes results to')]);
  await study.open();
  expect((await running.ended).code).toBe(0);
  expect((await study.run()).code).toBe(0);
});

test('The command waits for a server that is killed and restarted', async () => {
  const port = String(await freePort());
  await using study = await Study.create(['one', 'two', 'three'], ['--port', port], { ownProcess: true });
  study.close();
  const running = study.cli.begin([...study.words, '--at-most', '2'], study.env);
  await until('two jobs run', () => study.computed.length === 2);
  await study.server.crash();
  await study.open();
  await study.server.start();
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(0);
  expect(study.computed).toEqual(['one', 'three', 'two']);
});

test("KonfAI's server, which has no versions and no list of jobs, runs each case", async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a' });
  await using server = await konfaiServer({
    result: zipOf({ 'mask.nii': 'mask' }),
    queue: ['epoch 1', '__DONE__'],
  });
  const words = ['infer', '--each', 'scans', '-o', 'Out', '--server', server.url];
  const { code, stderr } = await cli.run(words);
  expect(code, stderr).toBe(0);
  const record = JSON.parse(readFileSync(path.join(cli.directory, 'Out/a/remote-app-record.json'), 'utf8'));
  expect(record).toMatchObject({ app_version: null, job_id: konfaiJobId, outputs: [{ name: 'mask.nii' }] });
  expect((await cli.run(words)).stderr).toContain('1 case: 1 done (1 of them before)\n');
  expect(server.inputs).toEqual([['a.nii']]);
});

test("KonfAI's server gets no case twice in one run, even if its answer is lost", async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a', 'scans/b.nii': 'b', 'scans/c.nii': 'c' });
  await using server = await konfaiServer({ result: zipOf({ 'mask.nii': 'mask' }), losesAnswer: true });
  const words = ['infer', '--each', 'scans', '-o', 'Out', '--at-most', '1', '--server', server.url];
  const { code, stderr } = await cli.run(words);
  expect([code, server.inputs]).toEqual([1, [['a.nii'], ['b.nii'], ['c.nii']]]);
  expect(stderr).toContain('3 cases: 2 done, 1 failed\n');
  expect(stderr).toMatch(/^ {2}a: .*; the server may have the job, but has no way to look it up/m);
  expect((await cli.run(words)).stderr).toContain('3 cases: 3 done (2 of them before)\n');
  expect(server.inputs).toHaveLength(4);
});

test('A server whose disk is full ends the command, and no case counts as failed', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a', 'scans/b.nii': 'b', 'scans/c.nii': 'c' });
  const detail = 'The disk of the server is full';
  await using server = await fakeService({
    override: ({ method }, response) => {
      if (method === 'POST') json(response, 507, { detail });
      return method === 'POST';
    },
  });
  const words = ['infer', '--each', 'scans', '-o', 'Out', '--at-most', '1', '--server', server.url];
  const { code, stderr } = await cli.run(words);
  expect([code, stderr]).toEqual([6, expect.stringContaining(`Error: ${detail}`)]);
  expect(readFileSync(path.join(cli.directory, 'Out/cases.csv'), 'utf8')).not.toContain('failed');
  expect(server.to('/apps/')).toHaveLength(1);
});

const disk = smallDisk(2);

test.skipIf(disk === null)(
  'A full disk on this machine ends the command, which says how to continue',
  async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/a.nii': 'a' });
    const archives = {
      packed: zip([{ name: 'mask.nii', content: Buffer.alloc(3 << 20), deflated: true }]),
      stored: zipOf({ 'mask.nii': Buffer.alloc(3 << 20) }),
    };
    for (const result of Object.values(archives)) {
      await using server = await fakeService({ result });
      const words = ['infer', '--each', 'scans', '-o', path.join(disk ?? '', 'Out'), '--server', server.url];
      const { code, stderr } = await cli.run(words);
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /Error: .* free (there|in '.*'); free some space, then give the same command again: finished cases are kept\n/,
      );
      expect(readFileSync(path.join(disk ?? '', 'Out/cases.csv'), 'utf8')).not.toContain('failed');
      expect(stderr).not.toContain('remote-app result');
    }
  },
);

/** The answers of a proxy whose server is away, to some of the requests. */
const away = (isAway: (url: string, number: number) => boolean) => {
  const counts = new Map<string, number>();
  return ({ method, url }: Received, response: ServerResponse) => {
    const number = (counts.get(url) ?? 0) + 1;
    if (method === 'GET') counts.set(url, number);
    if (method !== 'GET' || !isAway(url, number)) return false;
    response.writeHead(502, { 'content-type': 'text/html' });
    response.end('<html>Bad Gateway</html>');
    return true;
  };
};

test('The command waits for a server that is unreachable when asked about a job that it has just accepted', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a' });
  await using server = await fakeService({
    result: zipOf({ 'mask.nii': 'mask' }),
    view: { run_seconds: 3 },
    // The first question follows the submission, the second one is for the record.
    override: away((url, number) => url === `/jobs/${jobId}` && [1, 3].includes(number)),
  });
  const { code, stderr } = await cli.run(['infer', '--each', 'scans', '-o', 'Out', '--server', server.url]);
  expect(code, stderr).toBe(0);
  expect(readFileSync(path.join(cli.directory, 'Out/cases.csv'), 'utf8')).toContain('a,done,,,3,');
});

test('The command waits for a server that is unreachable when asked about the app, since the key depends on the version', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a' });
  const isAway = away((url, number) => url === '/repo_apps/tissue' && number === 2);
  await using server = await fakeService({
    result: zipOf({ 'mask.nii': 'mask' }),
    override: (request, response) => {
      if (isAway(request, response)) return true;
      const isOfApp = request.url === '/repo_apps/tissue';
      const counts = { maximum_tta: 0, mc_dropout: 0 };
      const names = { checkpoints_name: [], checkpoints_name_available: [] };
      if (isOfApp)
        json(response, 200, { app: 'tissue', display_name: 'x', ...names, ...counts, version: 'v1' });
      return isOfApp;
    },
  });
  const { code, stderr } = await cli.run(['infer', '--each', 'scans', '-o', 'Out', '--server', server.url]);
  expect(code, stderr).toBe(0);
  const record = JSON.parse(readFileSync(path.join(cli.directory, 'Out/a/remote-app-record.json'), 'utf8'));
  expect(record.app_version).toBe('v1');
});

test('The command waits for a full server', async () => {
  await using study = await Study.create(['one'], ['--max-jobs', '1']);
  study.close();
  await plant(study.cli.directory, { 'other.nii': 'other' });
  const other = await study.cli.run(['infer', 'other.nii', '--detach'], study.env);
  expect(other.code, other.stderr).toBe(0);
  const running = study.cli.begin([...study.words, '--patience', '1'], study.env);
  await until('the case is refused a place', () => existsSync(study.at('Out', 'cases.csv')));
  // Longer than the patience, which is for a server that is gone.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  await study.open();
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(0);
});

test('The command waits for a server that accepts no jobs until it is restarted, and a note says so once', async () => {
  await using study = await Study.create(['one', 'two'], ['--port', String(await freePort())]);
  expect((await study.cli.run(['drain'], study.env)).code).toBe(0);
  const running = study.cli.begin(study.words, study.env);
  let said = '';
  running.stderr.on('data', (chunk: Buffer) => {
    said += chunk;
  });
  const told = 'Waiting until the server takes jobs again: The server is draining and accepts no new jobs';
  await until('the wait is told', () => said.includes(told));
  await study.server.restart();
  const { code, stderr } = await running.ended;
  expect([code, stderr.split(told).length - 1, study.computed], stderr).toEqual([0, 1, ['one', 'two']]);
});

describe('on a terminal of 40 columns', () => {
  const columns = 40;

  test('On 40 columns, names stay distinct, a case waits for its turn, and only the summary remains', async () => {
    await using study = await Study.create(['bad']);
    const named = (run: number) => `sub-NDARINV003RTV85_ses-baselineYear1_run-${run}_T1w`;
    await plant(study.at('bids'), { README: 'x', [`${named(1)}.nii`]: 'one', [`${named(2)}.nii`]: 'two' });
    study.close();
    await using terminal = new ScreenTerminal(study.cli, [...study.words, '--at-most', '2'], {
      columns,
      env: study.env,
    });
    await terminal.shows(/^ {2}sub-NDARI…run-1_T1w {2}\w/);
    await terminal.shows(/^0 of 3 done, 2 in progress, 1 waiting$/);
    await study.open();
    expect(await terminal.ended()).toBe(1);
    await terminal.shows(/^3 cases: 2 done, 1 failed$/);
    expect(terminal.rows.join('\n')).not.toContain('in progress');
    expect(terminal.rows.filter((row) => row.includes('sub-01_T1w'))).toHaveLength(1);
  });

  test('The reason why a server takes no jobs is shown in full for a single case', async () => {
    await using study = await Study.create(['one']);
    expect((await study.cli.run(['drain'], study.env)).code).toBe(0);
    await using terminal = new ScreenTerminal(study.cli, study.words, { columns, env: study.env });
    await terminal.shows(/submit again later$/);
  });

  test('The reason for a wait is shown in full, once for all cases', async () => {
    await using study = await Study.create(['one', 'two'], ['--max-jobs', '1']);
    study.close();
    await plant(study.cli.directory, { 'other.nii': 'other' });
    await study.cli.run(['infer', 'other.nii', '--detach'], study.env);
    await using terminal = new ScreenTerminal(study.cli, study.words, { columns, env: study.env });
    await terminal.shows(/^ {2}sub-02_T1w {2}sending$/);
    await terminal.shows(/^may be; try again later$/);
    expect(terminal.rows.filter((row) => row.startsWith('Trying again'))).toHaveLength(1);
    await study.open();
    expect(await terminal.ended()).toBe(0);
  });
});

test('--dry-run lists the cases without a server', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 't1/a.nii': 'x', 't1/b.nii': 'xyz', 't2/a.nii': 'x', 't2/b.nii': 'y' });
  const words = [
    'infer',
    '--each',
    '-i',
    't1/*.nii',
    '-i',
    't2/*.nii',
    '--dry-run',
    '--server',
    'http://127.0.0.1:9',
  ];
  const { code, stdout, stderr } = await cli.run(words);
  expect(code, stderr).toBe(0);
  expect(stdout).toBe(
    `CASE  NAME   FORMAT  FILES  BYTES  PATH
a     a.nii  NIfTI   1      1 B    t1/a.nii
a     a.nii  NIfTI   1      1 B    t2/a.nii
b     b.nii  NIfTI   1      3 B    t1/b.nii
b     b.nii  NIfTI   1      1 B    t2/b.nii
`,
  );
  expect(readdirSync(cli.directory).sort()).toEqual(['t1', 't2']);
});

test('A directory with files that no record names gets no result', async () => {
  await using study = await Study.create(['one', 'two']);
  await plant(study.at('Out'), { 'sub-01_T1w/mask.nii': 'mine' });
  const { code, stderr } = await study.run();
  expect(code).toBe(1);
  expect(stderr).toContain("'Out/sub-01_T1w' has files that no record names".replace('Out', study.at('Out')));
  expect(readFileSync(study.at('Out', 'sub-01_T1w', 'mask.nii'), 'utf8')).toBe('mine');
  expect(study.computed).toEqual(['two']);
  expect((await study.run('--force')).code).toBe(0);
  expect(readFileSync(study.at('Out', 'sub-01_T1w', 'mask.nii'), 'utf8')).toBe('mask of one');
  expect(readFileSync(study.at('Out', 'sub-01_T1w', 'mask_edited.nii'), 'utf8')).toBe('mine');
});

test('--force computes every case again, although the server still has the jobs of the first command', async () => {
  await using study = await Study.create(['one', 'two']);
  expect((await study.run()).code).toBe(0);
  expect((await study.run('--force')).code).toBe(0);
  expect([...study.computed].sort()).toEqual(['one', 'one', 'two', 'two']);
});

test('A plain infer leaves a record next to its result', async () => {
  await using study = await Study.create(['one']);
  const { code, stderr } = await study.cli.run(['infer', scan('sub-01'), '-o', 'Plain'], study.env);
  expect(code, stderr).toBe(0);
  const record = JSON.parse(readFileSync(study.at('Plain', 'remote-app-record.json'), 'utf8'));
  await study.run();
  const { key } = JSON.parse(readFileSync(study.at('Out', 'sub-01_T1w', 'remote-app-record.json'), 'utf8'));
  expect(record).toMatchObject({
    key,
    inputs: [{ name: 'sub-01_T1w.nii' }],
    outputs: [{ name: 'mask.nii' }, {}],
  });
});

test('A result that is fetched later also has its record', async () => {
  await using study = await Study.create(['one']);
  const sent = await study.cli.run(['infer', scan('sub-01'), '--detach'], study.env);
  expect(sent.code, sent.stderr).toBe(0);
  const id = sent.stdout.trim();
  const { code, stderr } = await study.cli.run(['result', id, '-o', 'Later'], study.env);
  expect(code, stderr).toBe(0);
  await study.run();
  const read = (directory: string) =>
    JSON.parse(readFileSync(study.at(directory, 'remote-app-record.json'), 'utf8'));
  const { key, app_version, options, inputs, outputs } = read('Out/sub-01_T1w');
  expect(read('Later')).toMatchObject({ key, app_version, options, inputs, outputs, job_id: id });
});

test('A remark on an input, such as a missing slice, is in its record and in its row', async () => {
  await using study = await Study.create([]);
  const slices = Object.entries(dicomSeries(7, { description: 'T1' }, (image) => `bids/A/${image}.dcm`));
  await plant(study.cli.directory, Object.fromEntries(slices.filter(([name]) => name !== 'bids/A/4.dcm')));
  const remark = expect.stringMatching(/^'\w+' lacks 1 slice of an even spacing, between 3 and 5$/);
  // The second time, from the record.
  for (const before of [0, 1]) {
    const { code, stderr } = await study.run();
    expect(code, stderr).toBe(0);
    expect(stderr.includes('1 of them before')).toBe(before === 1);
    const [heading = [], row = []] = study.table;
    // The sentence has commas.
    expect(row.join(',')).toMatch(/^A\/1_T1,done,"'\w+' lacks 1 slice of an even spacing, between 3 and 5",/);
    expect(heading[2]).toBe('reason');
  }
  expect(study.computed).toHaveLength(1);
  const [, [name = ''] = []] = study.table;
  const record = JSON.parse(readFileSync(study.at('Out', name, 'remote-app-record.json'), 'utf8'));
  expect(record.inputs_remarks).toEqual([remark]);
});
