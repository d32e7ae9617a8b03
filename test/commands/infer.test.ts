import { once } from 'node:events';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { formOf, json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';
import { zarrStore } from '../support/zarr.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });

async function cliWithScan(): Promise<Cli> {
  const cli = await Cli.create();
  await plant(cli.directory, { 'scans/ct.nii': 'volume', 'scans/.hidden': '' });
  return cli;
}

describe('infer', () => {
  test('infer writes the log to stdout, messages to stderr and the result to ./Output', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({ lines: ['epoch 1', '100 %'], result });
    const { code, stdout, stderr } = await cli.run(['infer', '--gpu', '0', './scans'], {
      REMOTE_APP_SERVER: server.url,
    });
    expect(stderr).toContain(jobId);
    expect([code, stdout]).toEqual([0, 'epoch 1\n100 %\n']);
    expect((await readdir(path.join(cli.directory, 'Output'))).sort()).toEqual([
      'mask.nii',
      'remote-app-record.json',
      'result.zip',
    ]);
    expect(await readFile(path.join(cli.directory, 'Output', 'mask.nii'), 'utf8')).toBe('mask');
    const [submission] = server.to('/apps/tissue/infer');
    if (!submission) throw new Error('nothing was submitted');
    const form = await formOf(submission);
    expect([...form.keys()].sort()).toEqual(['gpu', 'inputs', 'inputs_groups']);
    expect([form.get('gpu'), (form.get('inputs') as File).name]).toEqual(['0', 'ct.nii']);
  });

  test('infer --json prints one document and moves the log to stderr', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({ lines: ['epoch 1'], result });
    const { code, stdout, stderr } = await cli.run([
      'infer',
      'scans',
      '-o',
      'out',
      '--json',
      '--server',
      server.url,
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ job_id: jobId, status: 'done', app: 'tissue', files: 1 });
    expect(stderr).toContain('epoch 1');
  });

  test('infer --detach prints only the id', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({});
    const { code, stdout } = await cli.run(['infer', 'scans', '--detach', '--server', server.url]);
    expect([code, stdout]).toEqual([0, `${jobId}\n`]);
    // The only other request asks how long the job is kept.
    expect(server.to('/jobs').map(({ url }) => url)).toEqual([`/jobs/${jobId}`]);
  });

  test('infer uses the named app, and the flag wins over the environment', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({ apps: ['a', 'b/c:D'], result });
    const env = { REMOTE_APP_SERVER: server.url };
    const unnamed = await cli.run(['infer', 'scans'], env);
    expect(unnamed.code).toBe(2);
    expect(unnamed.stderr).toMatch(/--app.*a, b\/c:D/);
    await cli.run(['infer', 'scans', '--app', 'b/c:D', '--detach'], { ...env, REMOTE_APP_APP: 'a' });
    await cli.run(['infer', 'scans', '--detach'], { ...env, REMOTE_APP_APP: 'a' });
    const submitted = server.to('/apps/').map(({ url }) => url);
    expect(submitted).toEqual(['/apps/b/c%3AD/infer', '/apps/a/infer']);
  });

  test('infer exits with 1 and gives the reason if the job fails', async () => {
    await using cli = await cliWithScan();
    const error = 'Subprocess failed (exit code 3)';
    await using server = await fakeService({
      lines: ['boom'],
      status: 'error',
      error,
      marker: `__ERROR__ ${error}`,
    });
    const env = { REMOTE_APP_SERVER: server.url };
    const plain = await cli.run(['infer', 'scans'], env);
    expect([plain.code, plain.stdout]).toEqual([1, 'boom\n']);
    expect(plain.stderr).toContain(error);
    const asked = await cli.run(['infer', 'scans', '--json'], env);
    expect(asked.code).toBe(1);
    expect(JSON.parse(asked.stdout)).toMatchObject({
      error: { exit_code: 1, job_id: jobId, status: 'error', message: expect.stringContaining(error) },
    });
  });

  test.each([['SIGINT'], ['SIGTERM']] as const)(
    '%s kills the remote job, says so and exits with 130',
    async (signal) => {
      await using cli = await cliWithScan();
      let killed = 0;
      await using server = await fakeService({ lines: ['epoch 1'], marker: null, onKill: () => killed++ });
      const running = cli.begin(['infer', 'scans', '--server', server.url]);
      await once(running.stdout, 'data');
      running.signal(signal);
      const { code, stderr } = await running.ended;
      expect(code).toBe(130);
      expect(killed).toBe(1);
      expect(stderr).toContain(`killing remote job ${jobId}`);
    },
  );

  test('A closed terminal does not interrupt a command that has no terminal', async () => {
    await using cli = await cliWithScan();
    let killed = 0;
    await using server = await fakeService({ lines: ['epoch 1'], marker: null, onKill: () => killed++ });
    const running = cli.begin(['infer', 'scans', '--server', server.url]);
    await once(running.stdout, 'data');
    running.signal('SIGHUP');
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect([code, killed]).toEqual([130, 1]);
    expect(stderr).toContain(`Interrupted; remote job ${jobId} is killed`);
    // If the first signal had counted, the second would have ended the command without a message.
    expect(stderr).not.toContain('SIGHUP');
  });

  test('infer continues to the result if the reader of its log is gone', async () => {
    await using cli = await cliWithScan();
    let readerLeft = () => {};
    const left = new Promise<string>((resolve) => {
      readerLeft = () => resolve('two');
    });
    await using server = await fakeService({ lines: ['one', () => left, 'three', 'four'], result });
    const running = cli.start(['infer', 'scans', '--server', server.url]);
    await once(running.process.stdout, 'data');
    running.process.stdout.destroy();
    readerLeft();
    expect((await running.ended).code).toBe(0);
    expect(await readdir(path.join(cli.directory, 'Output'))).toContain('mask.nii');
  });

  test('infer leaves nothing in the temporary directory', async () => {
    await using cli = await cliWithScan();
    await plant(cli.directory, { 'tmp/': '', ...zarrStore('store.zarr') });
    await using server = await fakeService({ result });
    const env = { TMPDIR: path.join(cli.directory, 'tmp'), REMOTE_APP_SERVER: server.url };
    expect((await cli.run(['infer', 'store.zarr'], env)).code).toBe(0);
    expect(await readdir(path.join(cli.directory, 'tmp'))).toEqual([]);
  });

  test.each<[number, { detail: unknown }, number, string]>([
    [401, { detail: 'This account is closed' }, 4, 'This account is closed'],
    [404, { detail: "Unknown app 'x'" }, 2, "Unknown app 'x'"],
    [422, { detail: "Field 'tta' must be at most 4" }, 2, '--tta must be at most 4'],
    [
      422,
      {
        detail: "Field 'options.config_overrides' has the value 'a=1': no; Field 'time_limit' is at most 1h",
      },
      2,
      "--set has the value 'a=1': no; --time-limit is at most 1h",
    ],
    [422, { detail: "Field 'inputs_groups' is wrong" }, 2, "Field 'inputs_groups' is wrong"],
    // As FastAPI answers.
    [
      422,
      { detail: [{ loc: ['body', 'prediction_file'], msg: 'too long' }] },
      2,
      '--prediction-file: too long',
    ],
    [503, { detail: 'No GPU' }, 6, 'No GPU'],
  ])('An infer refused with %i and %o exits with %i', async (status, body, exitCode, sentence) => {
    await using cli = await cliWithScan();
    await using server = await fakeService({
      override: ({ method }, response) => {
        if (method !== 'POST') return false;
        json(response, status, body);
        return true;
      },
    });
    const { code, stdout, stderr } = await cli.run(['infer', 'scans', '--server', server.url]);
    expect([code, stdout]).toEqual([exitCode, '']);
    expect(stderr).toBe(`Error: ${sentence}\n`);
  });

  test('infer sends nothing if one of its files cannot be sent', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({});
    const env = { REMOTE_APP_SERVER: server.url };
    for (const argv of [['--tta', 'x', 'scans'], ['missing.nii'], [], ['scans', '--nope']]) {
      const { code, stderr } = await cli.run(['infer', '--app', 'tissue', ...argv], env);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^Error: /)]);
    }
    expect(server.received).toEqual([]);
  });
});

describe('retry', () => {
  test('retry submits a job again to the same server with the same options, and stores no token', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({ apps: ['a', 'b'], token: 'hush-hush', result });
    const env = { REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'b', SERVICE_API_TOKEN: 'hush-hush' };
    const args = [
      'pipeline',
      'scans',
      '--gt=scans/ct.nii',
      '--set',
      'a=1 2',
      '--no-uncertainty',
      '-o',
      'first',
    ];
    const first = await cli.run([...args, '--token', 'hush-hush'], env);
    expect([first.code, first.stderr]).toEqual([0, expect.any(String)]);
    const record = path.join(cli.home, 'remote-app', 'sent', `${jobId}.command.json`);
    expect((await stat(record)).mode & 0o777).toBe(0o600);
    expect(await readFile(record, 'utf8')).not.toContain('hush');

    // From elsewhere, with another app in the environment and no server.
    const elsewhere = cli.from(cli.home);
    const token = { SERVICE_API_TOKEN: 'hush-hush' };
    const again = await elsewhere.run(['retry', jobId, '-o', 'again', '--json'], token);
    expect(again.code, again.stderr).toBe(0);
    expect(again.stderr).toContain('Again: remote-app pipeline --output=');
    expect(JSON.parse(again.stdout)).toMatchObject({ job_id: jobId, status: 'done', app: 'b' });
    expect(await readdir(path.join(cli.home, 'again'))).toContain('mask.nii');
    const [one, two, ...others] = await Promise.all(server.to('/apps/b/pipeline').map(formOf));
    expect(others).toEqual([]);
    const values = (form: FormData | undefined) =>
      [...(form ?? [])].map(([name, value]) => [name, value instanceof File ? value.name : value]);
    expect(values(two)).toEqual(values(one));
    expect(two?.get('uncertainty')).toBe('false');

    const detached = await elsewhere.run(['retry', jobId, '--detach'], token);
    expect([detached.code, detached.stdout]).toEqual([0, `${jobId}\n`]);
    await rm(path.join(cli.directory, 'scans'), { recursive: true });
    const gone = await elsewhere.run(['retry', jobId, '--detach'], token);
    expect(gone.code, gone.stderr).toBe(2);
    expect(gone.stderr).toContain("No such file or directory: 'scans'");
    const unknown = await cli.run(['retry', '0123456789ff']);
    expect(unknown.code, unknown.stderr).toBe(2);
    expect(unknown.stderr).toMatch(/^Error: How job 0123456789ff was submitted is not known here/);
  });
});
