import { truncateSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { dicomFile } from '../support/dicom-files.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';

const volume = (display_name: string, required = true) => ({
  display_name,
  volume_type: 'VOLUME',
  required,
  default: null,
});

const described = {
  app: 'tissue',
  available: true,
  display_name: 'Head tissues',
  checkpoints_name: ['CV_0.pt', 'CV_1.pt'],
  checkpoints_name_available: ['CV_0.pt', 'Tuned.pt'],
  maximum_tta: 4,
  mc_dropout: 0,
  patch_size: [96, 96, 96],
  has_capabilities: [true, true, false],
  finetunable: true,
  parameters: {
    scale: { default: 1, min: 0.5, max: 2 },
    mode: { default: 'fast', choices: ['fast', 'exact'] },
  },
  inputs: { Volume_0: volume('T1'), Volume_1: volume('FLAIR'), Volume_2: volume('T2', false) },
};

const limits = {
  ...{ max_file_size: 1000, max_upload_size: 1500, max_run_time: 3600, max_fine_tune_time: 86_400 },
  ...{ grace: 120, max_of_another_day: 5 },
};

/** A service with these answers for these paths, and the usual ones for all others. */
const answering = (answers: Readonly<Record<string, readonly [status: number, body: unknown]>>): Fake => ({
  override: ({ method, url }, response) => {
    const [path = ''] = url.split('?');
    const answer = method === 'GET' && Object.hasOwn(answers, path) ? answers[path] : undefined;
    if (answer) json(response, answer[0], answer[1], answer[0] === 503 ? { 'retry-after': '60' } : {});
    return answer !== undefined;
  },
});

const full = answering({ '/repo_apps/tissue': [200, described], '/limits': [200, limits] });

/** Runs a command with two scans, a series and a large file beside it. */
async function run(fake: Fake, ...args: string[]) {
  await using cli = await Cli.create();
  await plant(cli.directory, {
    'a.nii': 'a',
    'b.nii': 'b',
    'photo.png': 'p',
    'all.zip': 'z',
    'seven.nii': Buffer.alloc(700),
    'eight.nii': Buffer.alloc(800),
    'nine.nii': Buffer.alloc(900),
    'data/case/t1.nii': 'a',
    // Random bytes, so that the archive is not smaller than its content.
    'series/1.dcm': dicomFile({
      pixels: Uint16Array.from({ length: 500 }, () => Math.random() * 65_536),
      size: [25, 20],
    }),
    'empty.zip': '',
    'large.nii': '',
    'zeros/large.nii': '',
  });
  for (const name of ['large.nii', 'zeros/large.nii'])
    truncateSync(path.join(cli.directory, name), 3 * 2 ** 30);
  await using server = await fakeService(fake);
  const ended = await cli.run([...args, '--detach', '--server', server.url]);
  const sent = server.received.filter(({ method }) => method === 'POST').length;
  return { ...ended, sent, url: server.url };
}

const two = ['-i', 'a.nii', '-i', 'b.nii'];

describe('checks before sending', () => {
  test.each([
    ['--tta 5: the app .tissue. takes at most 4', ['infer', '--tta', '5', ...two]],
    [
      "--ensemble-models CV_0,CV_7.pt: the app 'tissue' has no checkpoint 'CV_7.pt'; it has: 'CV_0.pt', 'CV_1.pt', 'Tuned.pt'",
      ['infer', '--ensemble-models', 'CV_0,CV_7.pt', ...two],
    ],
    [
      "The app 'tissue' takes volumes as 'FLAIR', and 'photo.png' is a picture",
      ['infer', '-i', 'a.nii', '-i', 'photo.png'],
    ],
    [
      "The app 'tissue' needs 2 groups of inputs, in this order: 'T1', 'FLAIR'; got 1. .* each -i adds one",
      ['infer', 'a.nii', 'b.nii'],
    ],
    [
      "The app 'tissue' has no uncertainty; it has: inference, evaluation, fine-tuning; leave that out with --no-uncertainty; --tta 5: ",
      ['pipeline', '--tta', '5', ...two, '--gt', 'a.nii'],
    ],
    [
      "--set scale=99: the app 'tissue' takes 'scale' from 0.5 to 2; --set mode=quick: the app 'tissue' takes 'fast' or 'exact' for 'mode'; " +
        "--set scael=2: the app 'tissue' has no parameter 'scael' .did you mean 'scale'",
      ['infer', '--set', 'scale=99', '--set', 'mode=quick', '--set', 'scael=2', ...two],
    ],
    [
      '--time-limit 2h is too long: on .* a job may run for at most 1h',
      ['infer', '--time-limit', '2h', ...two],
    ],
    ['--time-limit 86401s is too long: .* at most 1d', ['fine-tune', '--time-limit', '86401s', 'series']],
  ])('Input that the app or the server does not accept is refused: %s', async (sentence, args) => {
    const { code, stdout, stderr, sent } = await run(full, ...args);
    expect([code, stdout, sent]).toEqual([2, '', 0]);
    expect(stderr).toMatch(new RegExp(`^Error: ${sentence}.*\n$`));
  });

  test.each([
    ['as much as it takes', ['infer', '--tta', '4', '--ensemble', '2', ...two, '-i', 'a.nii']],
    ['checkpoints without their endings', ['infer', '--ensemble-models', 'CV_1,CV_0.pt,Tuned', ...two]],
    ['one group for an evaluation', ['evaluate', 'a.nii', '--gt', 'b.nii']],
    ['a file of settings by its own name', ['uncertainty', 'a.nii', '--uncertainty-file', 'Own.yml']],
    ['what the parameters may be', ['infer', '--set', 'scale=2', '--set', 'mode=exact', ...two]],
    ['as much time as the server allows', ['infer', '--time-limit', '1h', ...two]],
    ['as many bytes as the server takes', ['infer', '-i', 'seven.nii', '-i', 'eight.nii']],
    ['GPUs that are there', ['infer', '--gpu', '2,0', ...two]],
  ])('Valid input is accepted: %s', async (_, args) => {
    const { code, stdout, sent } = await run(full, ...args);
    expect([code, stdout, sent]).toEqual([0, `${jobId}\n`, 1]);
  });

  test('An app that is listed as unavailable is refused with the reason', async () => {
    const view = { app: 'tissue', available: false, reason: 'app.json is not valid:\n  at tta' };
    const { code, stderr, sent } = await run(
      answering({ '/repo_apps/tissue': [200, view] }),
      'infer',
      'a.nii',
    );
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toBe("Error: The app 'tissue' is not available: app.json is not valid: at tta\n");
  });

  test('A GPU that the server does not have is refused with the flag and a list of its GPUs', async () => {
    const { code, stderr, sent, url } = await run({}, 'infer', '--gpu', '0,5', 'a.nii');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toBe(
      `Error: --gpu 0,5: ${url} has no GPU 5; it has: 0 ('NVIDIA H200'), 2 ('NVIDIA L4')\n`,
    );
  });

  test('A GPU of a server without GPUs is refused, without the advice to try again', async () => {
    const none = answering({ '/available_devices': [200, { devices_index: [], devices_name: [] }] });
    const { code, stderr, sent, url } = await run(none, 'infer', '--gpu', '5', 'a.nii');
    expect([code, sent]).toEqual([6, 0]);
    expect(stderr).toBe(
      `Error: --gpu 5: ${url} has no GPU; leave out --gpu, or give --cpu, to run on its CPU\n`,
    );
  });

  test('A file that is too large is refused by its name', async () => {
    const { code, stderr, sent, url } = await run(full, 'infer', 'a.nii', '-i', 'large.nii');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toBe(
      `Error: 'large.nii' takes 3.0 GiB to send, and ${url} takes files of at most 1000 B\n`,
    );
  });

  test('Files that are too large together are refused, even if both sizes round to the same text', async () => {
    const { code, stderr, sent, url } = await run(full, 'infer', 'eight.nii', '-i', 'seven.nii,a.nii');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toContain(
      `These inputs take 1501 bytes to send, and ${url} takes at most 1500 bytes at once`,
    );
  });

  test('A directory is checked with its packed size', async () => {
    const { code, stderr, sent } = await run(full, 'infer', 'a.nii', '-i', 'series');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toMatch(
      /^Error: 'series' takes 1\.\d KiB to send, and .* takes files of at most 1000 B\n$/,
    );
    const small = answering({ '/limits': [200, { ...limits, max_file_size: 5000, max_upload_size: 5000 }] });
    expect(await run(small, 'infer', 'a.nii', '-i', 'series')).toMatchObject({ code: 0, sent: 1 });
  });

  test('A data set counts against the limit of data sets, before it is packed and as it is sent', async () => {
    const bounded = (most: number) =>
      answering({
        '/limits': [200, { ...limits, max_dataset_size: most }],
        '/repo_apps/tissue': [200, described],
      });
    // 3 GiB that would compress to 3 MB.
    const { code, stderr, sent, url } = await run(bounded(2 ** 31), 'fine-tune', 'zeros');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toBe(
      `Error: The data set 'zeros' has 3.0 GiB, and ${url} takes data sets of at most 2.0 GiB\n`,
    );
    const unbounded = await run(full, 'fine-tune', 'zeros');
    expect(unbounded.stderr).toContain('takes files of at most 1000 B');
    // The other limits do not count for it.
    expect(await run(bounded(5000), 'fine-tune', 'series')).toMatchObject({ code: 0, sent: 1 });
  });

  test('An operation that the app does not have is refused before faulty files are reported', async () => {
    const fixed = answering({
      '/repo_apps/tissue': [
        200,
        { ...described, has_capabilities: [true, false, false], finetunable: false },
      ],
    });
    for (const files of ['data', 'empty.zip', 'nowhere']) {
      const { code, stderr, sent } = await run(fixed, 'fine-tune', files);
      expect([code, sent, stderr]).toEqual([
        2,
        0,
        "Error: The app 'tissue' cannot be fine-tuned; it has: inference\n",
      ]);
    }
    const evaluation = await run(full, 'uncertainty', 'nowhere.nii');
    expect(evaluation.stderr).toMatch(/^Error: The app 'tissue' has no uncertainty; /);
  });

  test('An app that the server does not have is refused', async () => {
    const { code, stderr, sent } = await run({}, 'infer', '--app', 'tisue', 'a.nii');
    expect([code, sent]).toEqual([2, 0]);
    expect(stderr).toMatch(/Unknown app 'tisue'; did you mean 'tissue'\?\n$/);
  });
});

describe('limits that a server does not state', () => {
  const argv = ['infer', '--gpu', '5', '--tta', '99', '--ensemble-models', 'x', 'nine.nii', 'eight.nii'];

  test.each([
    ['where it lacks the routes', 404, { detail: 'Not Found' }],
    ['where it cannot answer', 503, { detail: 'The GPUs of this server are not known' }],
    ['where it fails', 500, { detail: 'Internal server error' }],
    ['where it answers something else', 200, ['surprise']],
  ])("A server's limits are not checked %s", async (_, status, body) => {
    const silent = answering({
      '/limits': [status, body],
      '/repo_apps/tissue': [status, body],
      '/available_devices': [status, body],
    });
    expect(await run(silent, ...argv)).toMatchObject({ code: 0, stdout: `${jobId}\n`, sent: 1 });
  });

  test("Limits that are missing from the server's answers are not checked", async () => {
    const sparse = answering({
      '/limits': [200, {}],
      '/repo_apps/tissue': [
        200,
        {
          app: 'tissue',
          display_name: 'Tissue',
          inputs: { A: { display_name: 'A' }, B: { display_name: 'B' } },
        },
      ],
      '/available_devices': [404, {}],
    });
    expect(await run(sparse, ...argv)).toMatchObject({ code: 0, sent: 1 });
  });

  test('An app that the server cannot describe and gives no reason for, as with KonfAI, is not checked', async () => {
    const view = { app: 'tissue', available: false };
    const fake = answering({ '/repo_apps/tissue': [200, view], '/available_devices': [404, {}] });
    expect(await run(fake, ...argv)).toMatchObject({ code: 0, sent: 1 });
  });

  test('A refused token ends the command', async () => {
    const fake = answering({ '/limits': [401, { detail: 'Invalid token' }] });
    const { code, stderr, sent } = await run(fake, 'infer', 'a.nii');
    expect([code, stderr, sent]).toEqual([4, expect.stringContaining('does not accept this token'), 0]);
  });
});

test('apps shows the facts that are checked', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService(full);
  const { code, stdout } = await cli.run(['apps', 'tissue', '--server', server.url]);
  expect(code).toBe(0);
  for (const line of [
    'Inputs              T1 (Volume_0, VOLUME), FLAIR (Volume_1, VOLUME), T2 (Volume_2, VOLUME, optional)',
    'Checkpoints         CV_0.pt, CV_1.pt, Tuned.pt',
    'TTA at most         4',
    'MC dropout at most  0',
  ]) {
    expect(stdout).toContain(`${line}\n`);
  }
});
