import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import * as canary from '../support/canary-volumes.js';
import { Cli } from '../support/cli.js';
import { dicomFile, element } from '../support/dicom-files.js';
import { konfaiServer } from '../support/konfai-server.js';
import { list } from '../support/list.mjs';
import { sharedServer, type TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { WireTap } from '../support/wire-tap.js';

const word = 'Quokkavale';
/** A word in the name of a directory, of a file and of a case. */
const directory = `${word}-clinic`;

/** A slice whose texts have the word, at two depths, with private ones and padding. */
const slice = (at: number): Buffer =>
  Buffer.concat([
    Buffer.from(
      dicomFile({
        pixels: Int16Array.from({ length: 16 }, (_, index) => index + at),
        size: [4, 4],
        position: [0, 0, 3 * at],
        more: [
          element(0x00080060, 'CS', 'CT'),
          element(0x00080018, 'UI', `1.2.3.4.${at}`),
          element(0x00080080, 'LO', word),
          element(0x0008103e, 'LO', word),
          element(0x00100010, 'PN', `${word}^Ada`),
          element(0x00100020, 'LO', word),
          element(0x00081140, 'SQ', [[element(0x00081032, 'SQ', [[element(0x00080104, 'LO', word)]])]]),
          element(0x00090010, 'LO', word),
          element(0x00091001, 'LO', word),
          element(0x00200013, 'IS', String(at)),
          element(0x00204000, 'LT', word),
        ],
      }),
    ),
    Buffer.from(`${word} behind`),
  ]);

const scans: Readonly<Record<string, Buffer>> = {
  [`${directory}/${word}-a.nii`]: canary.nifti(word),
  [`${directory}/${word}-b.nii.gz`]: canary.gzipWithWords(canary.nifti(word, { second: true }), word),
  [`${directory}/${word}-c.nrrd`]: canary.nrrd(word),
  [`${directory}/${word}-d.nrrd`]: canary.nrrd(word, true),
  [`${directory}/${word}-e.mha`]: canary.metaImage(word, true),
  [`${directory}/${word}-f.mgz`]: canary.gzipWithWords(canary.freeSurfer(word), word),
  [`${directory}/${word}-g.mhd`]: Buffer.from(canary.metaText(word, `${word}-g.raw`)),
  [`${directory}/${word}-g.raw`]: canary.voxels,
  [`${directory}/${word}-series/${word}2.dcm`]: slice(2),
  [`${directory}/${word}-series/${word}1.dcm`]: slice(1),
};

/** A client with these scans, and a server whose incoming bytes are recorded. */
async function machine(server: TestServer, files: Readonly<Record<string, Buffer>> = scans) {
  const cli = await Cli.create();
  await plant(cli.directory, files);
  const tap = await WireTap.before(server.url);
  const run = (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: tap.url });
  return {
    ...{ cli, tap, run },
    read: (...parts: string[]) => readFileSync(path.join(cli.directory, ...parts), 'utf8'),
    async [Symbol.asyncDispose]() {
      await tap[Symbol.asyncDispose]();
      await cli[Symbol.asyncDispose]();
    },
  };
}

describe('de-identified requests', () => {
  const server = sharedServer();

  test('Identifying words are sent if --deidentify is not given', async () => {
    await using here = await machine(server);
    const sent = await here.run('infer', directory, '--yes', '--set', 'print=x');
    expect(sent.code, sent.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name)).toContain(`${word}-a.nii`);
    expect(here.tap.everything.split(word).length).toBeGreaterThan(50);
  });

  test('One job with a file of each format sends no identifying word, and neither does its retry', async () => {
    await using here = await machine(server);
    const steps = [
      'print=reading case-0001.nii',
      'write=case-0001.nii:mask',
      'write=sub/case-0003/x.json:{"case":"case-0003.nrrd"}',
    ];
    const sent = await here.run(
      'infer',
      directory,
      '--yes',
      '--deidentify',
      ...steps.flatMap((each) => ['--set', each]),
    );
    expect(sent.code, sent.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name)).toEqual(list`case-0001.nii case-0002.nii.gz
      case-0003.nrrd case-0004.nrrd case-0005.mha case-0006.mgz case-0007.mhd case-0007.raw
      case-0008.konfaidir.zip case-0008.konfaidir.zip/0001.dcm case-0008.konfaidir.zip/0002.dcm`);
    expect(here.tap.everything).not.toContain(word);
    expect(sent.stdout).toContain(`reading ${word}-a.nii`);
    expect(here.read('Output', `${word}-a.nii`)).toBe('mask');
    expect(here.read('Output', 'sub', `${word}-c`, 'x.json')).toBe(`{"case":"${word}-c.nrrd"}`);
    expect(here.read('Output', 'remote-app-log.txt')).toContain(`reading ${word}-a.nii`);
    const record = JSON.parse(here.read('Output', 'remote-app-record.json'));
    expect(record).toMatchObject({ deidentified: { mode: 'full', allowed: [] } });
    expect(record.inputs[0].name).toBe(`${word}-a.nii`);

    const logs = await here.run('logs', record.job_id);
    expect(logs.stdout).toContain(`reading ${word}-a.nii`);
    // A job of a server with another address may have the same id.
    const elsewhere = await here.run(
      'logs',
      record.job_id,
      '--server',
      here.tap.url.replace('127.0.0.1', 'localhost'),
    );
    expect(elsewhere.stdout).toContain('reading case-0001.nii');
    const fetched = await here.run('result', record.job_id, '-o', 'Later');
    expect(fetched.code, fetched.stderr).toBe(0);
    expect(here.read('Later', `${word}-a.nii`)).toBe('mask');

    here.tap.forget();
    // The variable of the first command is no longer set, but the command is repeated as it was.
    const again = await here.run('retry', record.job_id, '-o', 'Again');
    expect(again.code, again.stderr).toBe(0);
    expect(here.tap.files).toHaveLength(11);
    expect(here.tap.everything).not.toContain(word);
  });

  test('retry de-identifies again if the environment made the first command do so', async () => {
    await using here = await machine(server, { [`${directory}/${word}.nii`]: canary.nifti(word) });
    const environment = { REMOTE_APP_SERVER: here.tap.url, REMOTE_APP_DEIDENTIFY: 'full' };
    const sent = await here.cli.run(['infer', directory, '--detach'], environment);
    expect(sent.code, sent.stderr).toBe(0);
    const again = await here.run('retry', sent.stdout.trim(), '--detach');
    expect(again.code, again.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name)).toEqual(['case-0001.nii', 'case-0001.nii']);
    expect(here.tap.everything).not.toContain(word);
  });

  test('Groups whose files are paired by name send no identifying word', async () => {
    const of = (name: string) => canary.nifti(name);
    await using here = await machine(server, {
      [`${word}P/${word}-2.nii`]: of(word),
      [`${word}P/${word}-1.nii`]: of(word),
      [`${word}T/${word}-1_gt.nii`]: of(word),
      [`${word}T/${word}-2_gt.nii`]: of(word),
      [`${word}.mask.nii`]: of(word),
    });
    const args = [`${word}P`, '--gt', `${word}T`, '--mask', `${word}.mask.nii`, '--deidentify'];
    const sent = await here.run('evaluate', ...args, '--detach');
    expect(sent.code, sent.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name)).toEqual([
      ...['case-0001.nii', 'case-0002.nii', 'case-0001.nii', 'case-0002.nii'],
      'case-0000.nii',
    ]);
    expect(here.tap.everything).not.toContain(word);
  });

  test('The cases of --each keep their neutral names when other files are added', async () => {
    const scan = (name: string) => ({ [`${word}/${word}-${name}.nii`]: canary.nifti(word) });
    await using here = await machine(server, { ...scan('b'), ...scan('d') });
    const each = () =>
      here.run(
        'infer',
        '--each',
        word,
        '--deidentify',
        '-o',
        'Out',
        '--set',
        'write=case-0001.txt:about case-0001',
      );
    const first = await each();
    expect(first.code, first.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name).sort()).toEqual(['case-0001.nii', 'case-0002.nii']);
    expect(here.read('Out', `${word}-b`, `${word}-b.txt`)).toBe(`about ${word}-b`);
    // The name of another case stays as the app wrote it.
    expect(here.read('Out', `${word}-d`, 'case-0001.txt')).toBe('about case-0001');

    await plant(here.cli.directory, scan('a'));
    const second = await each();
    expect(second.code, second.stderr).toBe(0);
    expect(second.stderr).toContain('3 cases: 3 done (2 of them before)');
    expect(here.tap.files.map(([name]) => name).at(-1)).toBe('case-0003.nii');
    expect(here.tap.everything).not.toContain(word);
    const map = path.join(here.cli.directory, 'Out', '.remote-app', 'neutral-names.json');
    expect(statSync(map).mode & 0o777).toBe(0o600);

    // Without the flag, this is a different computation.
    const third = await here.run(
      'infer',
      '--each',
      word,
      '-o',
      'Out',
      '--set',
      'write=case-0001.txt:about case-0001',
    );
    expect(third.stderr).toContain('3 cases: 3 done\n');
  });

  test('A form for a server that does not support de-identification contains no identifying word', async () => {
    await using konfai = await konfaiServer();
    await using cli = await Cli.create();
    await plant(cli.directory, { [`${word}.nii`]: canary.nifti(word) });
    await using tap = await WireTap.before(konfai.url);
    const sent = await cli.run(['infer', `${word}.nii`, '--deidentify', '-a', 'tissue'], {
      REMOTE_APP_SERVER: tap.url,
    });
    expect(
      tap.files.map(([name]) => name),
      sent.stderr,
    ).toEqual(['case-0001.nii']);
    expect(tap.everything).not.toContain(word);
    expect(tap.everything).not.toContain('"deidentified"');
  });
});

describe('messages about de-identification', () => {
  const server = sharedServer();
  const file = { 'ada.nii': canary.nifti('Ada') };
  const sent = ['infer', 'ada.nii', '--detach'] as const;

  test('The command says once that faces are not removed', async () => {
    await using here = await machine(server, file);
    const face = /shows a face/g;
    expect((await here.run(...sent, '--deidentify')).stderr.match(face)).toHaveLength(1);
    expect((await here.run(...sent, '--deidentify')).stderr.match(face)).toBeNull();
  });

  test('--dry-run shows what would be sent, without a server', async () => {
    await using here = await machine(server, { ...file, 's/1.dcm': slice(1), 's/2.dcm': slice(2) });
    const args = ['infer', 'ada.nii', 's', '--dry-run', '--tag', 'study'];
    const plain = await here.run(...args);
    expect(plain.code, plain.stderr).toBe(0);
    expect(plain.stdout).toMatch(/^ada\.nii +NIfTI .* 1 +\S+ \S+ +ada\.nii$/m);
    expect(plain.stderr).toContain('would leave as they are');
    const neutral = await here.run(...args, '--deidentify');
    expect(neutral.stdout).toMatch(/^case-0001\.nii +NIfTI .* 1 +400 B +ada\.nii$/m);
    expect(neutral.stderr).toContain('Sent as typed: --tag');
    expect(neutral.stderr).toMatch(/^Removed in 2 files: .*PatientName.*; in 1 file: .*descrip/m);
    expect(neutral.stderr).not.toContain(word);
    expect((await here.run(...args, '--deidentify=names')).stderr).toContain(
      'Only the names are neutral: everything inside the files would leave as it is\n',
    );
    const document = JSON.parse((await here.run(...args, '--deidentify', '--json')).stdout);
    expect(document).toMatchObject({
      deidentify: 'full',
      files: [
        { field: 'inputs', group: 0, path: 'ada.nii', name: 'case-0001.nii', files: 1, bytes: 400 },
        { path: 's', name: 'case-0002', files: 2 },
      ],
      removed: { descrip: 1, extensions: 1 },
      typed: { tag: 'study' },
    });
    const each = JSON.parse(
      (await here.run('infer', '--each', ...args.slice(1), '--deidentify', '--json')).stdout,
    );
    expect(each).toMatchObject({
      deidentify: 'full',
      cases: [
        { case: 'ada', sent: { inputs: [[{ path: 'ada.nii', name: 'case-0001.nii' }]] } },
        { case: 'Quokkavale' },
      ],
    });
    expect(here.tap.sent).toHaveLength(0);
  });

  test('A data set for fine-tuning is refused because it cannot be de-identified', async () => {
    await using here = await machine(server, { 'set/ada.nii': canary.nifti('Ada') });
    const { code, stderr } = await here.run('fine-tune', 'set', '--deidentify', '--detach');
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('Data sets for fine-tuning cannot be de-identified');
    expect(here.tap.files).toEqual([]);
  });

  test('A file that cannot be de-identified is refused before anything is sent', async () => {
    const burnedIn = [element(0x00280301, 'CS', 'YES'), element(0x00080060, 'CS', 'CT')];
    const bytes = dicomFile({
      pixels: new Int16Array(16),
      size: [4, 4],
      position: [0, 0, 0],
      more: burnedIn,
    });
    await using here = await machine(server, { 'x.dcm': Buffer.from(bytes) });
    const { code, stderr } = await here.run('infer', 'x.dcm', '--deidentify', '--detach');
    expect([code, stderr]).toEqual([2, expect.stringContaining('--allow-identifying burned-in')]);
    expect(here.tap.files).toEqual([]);
    const allowed = await here.run(
      'infer',
      'x.dcm',
      '--deidentify',
      '--allow-identifying',
      'burned-in',
      '--detach',
    );
    expect(allowed.code, allowed.stderr).toBe(0);
    expect(here.tap.files.map(([name]) => name)).toEqual(['case-0001.dcm']);
    const unknown = await here.run(
      'infer',
      'x.dcm',
      '--deidentify',
      '--allow-identifying',
      'all',
      '--detach',
    );
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('there are burned-in')]);
  });

  test('The profile turns de-identification on unless the command turns it off', async () => {
    await using here = await machine(server, file);
    const login = await here.run('login', '--server', here.tap.url, '--deidentify');
    expect(login.code, login.stderr).toBe(0);
    const names = async (...args: string[]) => {
      here.tap.forget();
      const { code, stderr } = await here.cli.run(['infer', 'ada.nii', '--detach', ...args]);
      expect(code, stderr).toBe(0);
      return here.tap.files.map(([name]) => name);
    };
    expect(await names()).toEqual(['case-0001.nii']);
    // Another server gets no more than the server of the profile.
    expect(await names('--server', here.tap.url.replace('127.0.0.1', 'localhost'))).toEqual([
      'case-0001.nii',
    ]);
    expect(await names('--no-deidentify')).toEqual(['ada.nii']);
    const again = (...args: string[]) => here.run('login', '--server', here.tap.url, ...args);
    await again();
    expect(await names()).toEqual(['case-0001.nii']);
    await again('--deidentify=no');
    expect(await names()).toEqual(['ada.nii']);
    const both = await here.run(...sent, '--deidentify', '--no-deidentify');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('exclude each other')]);
  });
});

describe('a server that accepts only de-identified files', () => {
  const server = sharedServer({ flags: ['--require-deidentified'] });

  test('Files are de-identified automatically, and the form says so', async () => {
    await using here = await machine(server);
    const done = await here.run('infer', directory, '--yes', '--set', 'print=x');
    expect(done.code, done.stderr).toBe(0);
    expect(done.stderr).toContain('accepts only de-identified files: they are de-identified here');
    expect(here.tap.everything).toMatch(/name="deidentified"\r\n\r\ntrue/);
    expect(here.tap.everything).not.toContain(word);
    const record = JSON.parse(here.read('Output', 'remote-app-record.json'));
    expect(record.deidentified).toEqual({ mode: 'full', allowed: [] });
    expect(record.options).not.toHaveProperty('deidentified');
  });

  test.for([
    [['--no-deidentify'], 'leave out --no-deidentify'],
    [['--deidentify=names'], 'nothing but their names neutral'],
  ] as const)('A server that requires de-identified files gets nothing with %s', async ([args, why]) => {
    await using here = await machine(server);
    const { code, stderr } = await here.run('infer', directory, '--yes', ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(why)]);
    expect(here.tap.files).toEqual([]);
  });
});
