import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { readVolume, type VolumeFile, type Voxels, writeNifti } from '@remote-app/volumes';
import { decode } from 'fast-png';
import { beforeAll, describe, expect, test } from 'vitest';
import { appPath } from '../../src/contract/index.js';
import { layouts, phantom } from '../imaging/pictures/phantom.js';
import { straight } from '../support/affine.js';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { metaHeader } from '../support/headers.js';
import { recordText } from '../support/record-facts.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { plant, temporary } from '../support/temporary.js';
import { Terminal, type TerminalOptions } from '../support/terminal.js';
import { until } from '../support/until.mjs';
import { zipOf } from '../support/zip.mjs';

const esc = '\u001b';

/** Reads a phantom into memory, with noise where it is a scan: without it, its three values would be labels. */
async function dataOf(file: VolumeFile, isScan: boolean): Promise<Voxels> {
  const [ni, nj, nk] = file.size;
  const data = isScan ? new Int16Array(ni * nj * nk) : new Uint8Array(ni * nj * nk);
  for await (const { k, values } of file.slices()) data.set(values, k * ni * nj);
  return isScan ? data.map((value, at) => value + ((at * 7919) % 97)) : data;
}

let scan: Buffer;
let mask: Buffer;
let markerVoxels: number;
beforeAll(async () => {
  await using directory = await temporary();
  const files = phantom({ layout: layouts[0] ?? [], spacing: [2, 2, 2] });
  const write = async (name: 'scan' | 'mask') => {
    const file = path.join(directory.path, `${name}.nii.gz`);
    const { size, affine } = files[name];
    await writeNifti(file, { size, affine, data: await dataOf(files[name], name === 'scan') });
    const { data } = await readVolume(file);
    if (name === 'mask') markerVoxels = data.filter((value) => value === 2).length;
    return readFileSync(file);
  };
  [scan, mask] = [await write('scan'), await write('mask')];
});

async function cliWithCase(): Promise<Cli> {
  const cli = await Cli.create();
  writeFileSync(path.join(cli.directory, 'scan.nii.gz'), scan);
  writeFileSync(path.join(cli.directory, 'mask.nii.gz'), mask);
  return cli;
}

const table = [
  /^CASE +LABEL +VALUE +VOXELS +VOLUME$/,
  /^scan +label 1 +1 +\d+ +\d+ ml$/,
  /^scan +label 2 +2 +\d+ +[\d.]+ ml$/,
];

describe('show', () => {
  test('show prints a table of the labels if stdout is not a terminal', async () => {
    await using cli = await cliWithCase();
    const { code, stdout, stderr } = await cli.run(['show', 'scan.nii.gz', 'mask.nii.gz']);
    const lines = stdout.trimEnd().split('\n');
    expect([code, stderr, lines.length]).toEqual([0, '', 3]);
    table.forEach((line, at) => {
      expect(lines[at]).toMatch(line);
    });
  });

  test('show says once that scans were found by their records, and names the scan if there is only one', async () => {
    await using cli = await Cli.create();
    const sha256 = createHash('sha256').update(scan).digest('hex');
    const subjects = ['sub-01', 'sub-02'];
    for (const name of subjects) {
      const inputs = [{ name: `${name}_T1w.nii.gz`, size: scan.length, sha256 }];
      await plant(cli.directory, {
        [`bids/${name}/anat/${name}_T1w.nii.gz`]: scan,
        [`Out/${name}/mask.nii.gz`]: mask,
        [`Out/${name}/remote-app-record.json`]: recordText({ inputs }),
      });
    }
    const all = await cli.run(['show', 'Out']);
    expect(all.code, all.stderr).toBe(0);
    expect(all.stderr).toBe('2 scans found by their records\n');
    const one = await cli.run(['show', 'Out/sub-02']);
    expect(one.stderr).toBe(
      'sub-02_T1w: The scan is bids/sub-02/anat/sub-02_T1w.nii.gz, found by the record\n',
    );
  });

  test('show finds the scans of BIDS derivatives by their records, and their cases in the table', async () => {
    await using cli = await Cli.create();
    const root = path.join(cli.home, 'bids');
    const derivatives = path.join(root, 'derivatives/remote-app-x');
    const cases = ['sub-01_ses-1_T1w', 'sub-01_ses-1_T2w', 'sub-01_ses-2_T1w'];
    for (const [at, name] of cases.entries()) {
      const folder = `sub-01/${name.split('_')[1]}/anat`;
      const start = `${name.slice(0, 'sub-01_ses-1'.length)}_desc-x${name.endsWith('T2w') ? 'T2w' : ''}`;
      // Packed again, the same scan has another content.
      const content = gzipSync(gunzipSync(scan), { level: at + 1 });
      const sha256 = createHash('sha256').update(content).digest('hex');
      const inputs = [{ name: `${name}.nii.gz`, size: content.length, sha256 }];
      const labels = { 1: { name: 'head' } };
      await plant(root, { [`${folder}/${name}.nii.gz`]: content });
      await plant(derivatives, {
        [`${folder}/${start}_mask.nii.gz`]: mask,
        [`${folder}/${start}_record.json`]: recordText({ case: name, inputs, labels }),
      });
    }
    await plant(derivatives, {
      'cases.csv': `case,status,reason\r\n${cases.map((name) => `${name},done,\r\n`).join('')}sub-02_T1w,failed,why\r\n`,
    });
    const { code, stdout, stderr } = await cli.run(['show', derivatives, '--json']);
    expect(code, stderr).toBe(0);
    const shown = JSON.parse(stdout).cases;
    expect(shown).toMatchObject([
      ...cases.map((name) => ({ name, status: 'done', labels: [{ name: 'head' }, {}] })),
      { name: 'sub-02_T1w', status: 'failed', scan: null, notes: ['It failed: why'] },
    ]);
    expect(shown.map((each: { scan: string | null }) => each.scan && path.basename(each.scan))).toEqual([
      ...cases.map((name) => `${name}.nii.gz`),
      null,
    ]);
    // The same where scans are named, in any order.
    const both = await cli.run(['show', derivatives, root, '--json']);
    expect(JSON.parse(both.stdout).cases.map(({ name }: { name: string }) => name)).toEqual([
      ...cases,
      'sub-02_T1w',
    ]);
  });

  test('A page contains no file that is reached only through a header or a link', async () => {
    await using cli = await cliWithCase();
    const secret = 'a secret of the user, in a text';
    await plant(cli.directory, {
      'in/evil.mhd': metaHeader('note', secret.length),
      'in/note': secret,
      'in/longer.mhd': metaHeader('longer.raw', 4),
      'in/longer.raw': Buffer.alloc(5),
      'in/linked.mhd': metaHeader('linked.raw', secret.length),
      home: secret,
    });
    symlinkSync('../home', path.join(cli.directory, 'in/linked.raw'));
    const { code, stderr } = await cli.run(['show', 'in', 'scan.nii.gz', '--html', 'page.html', '--volumes']);
    expect(code, stderr).toBe(0);
    for (const name of ['note', 'longer.raw', 'linked.raw'])
      expect(stderr).toContain(`has its voxels in 'in/${name}', which`);
    expect(
      JSON.parse(
        /id="page">(.*?)<\/script>/.exec(readFileSync(path.join(cli.directory, 'page.html'), 'utf8'))?.[1] ??
          '',
      ).names,
    ).toEqual(['scan']);
  });

  test('show --json prints the cases with their labels', async () => {
    await using cli = await cliWithCase();
    writeFileSync(
      path.join(cli.directory, 'names.json'),
      '{"1": "head", "2": {"name": "marker", "color": "#f00"}}',
    );
    const { code, stdout } = await cli.run(['show', '.', '--json', '--labels', 'names.json']);
    expect(code).toBe(0);
    const document = JSON.parse(stdout);
    const labels = [
      { value: 1, name: 'head', voxels: expect.any(Number), millilitres: expect.any(Number) },
      { value: 2, name: 'marker', voxels: expect.any(Number), millilitres: expect.any(Number) },
    ];
    expect(document).toEqual({
      cases: [
        {
          name: 'scan',
          status: null,
          scan: 'scan.nii.gz',
          mask: 'mask.nii.gz',
          maps: [],
          labels,
          layers: [{ name: 'mask', path: 'mask.nii.gz', labels }],
          notes: [],
        },
      ],
      png: null,
      html: null,
      problems: [],
    });
    // A voxel has 8 mm³.
    const [, marker] = document.cases[0].labels;
    expect([marker.voxels, marker.millilitres]).toEqual([markerVoxels, (markerVoxels * 8) / 1000]);
  });

  test('show --png draws a sheet and replaces a file only with --force', async () => {
    await using cli = await cliWithCase();
    const args = ['show', 'scan.nii.gz', 'mask.nii.gz', '--png', 'sheet.png', '--slices', '3'];
    const first = await cli.run(args);
    expect([first.code, first.stderr]).toEqual([0, "1 case drawn in 'sheet.png'\n"]);
    const sheet = path.join(cli.directory, 'sheet.png');
    const bytes = readFileSync(sheet);
    expect(decode(bytes).width).toBeGreaterThanOrEqual(640);
    const again = await cli.run(args);
    expect(again.code).toBe(2);
    expect(again.stderr).toMatch(/'sheet\.png' exists already.*--force/);
    expect((await cli.run([...args, '--force'])).code).toBe(0);
    expect(readFileSync(sheet).equals(bytes)).toBe(true);
    const onStdout = await cli.run(['show', 'scan.nii.gz', 'mask.nii.gz', '--png', '-', '--slices', '3']);
    expect(onStdout.bytes.equals(bytes)).toBe(true);
  });

  test('show draws the requested volume of a file and the requested number of slices', async () => {
    await using cli = await Cli.create();
    const affine = straight();
    const data = Float32Array.from({ length: 3 * 216 }, (_, at) => at / 2);
    const target = path.join(cli.directory, 'several.nii');
    await writeNifti(target, { size: [6, 6, 6], affine, data, frames: 3 });
    const { stdout } = await cli.run(['show', 'several.nii', '--frame', '2', '--json']);
    expect(JSON.parse(stdout).cases[0].notes).toEqual(['several.nii holds 3 volumes: number 2 is shown']);
    const widths = await Promise.all(
      ['2', '6'].map(async (slices) => {
        const drawn = await cli.run(['show', 'several.nii', '--slices', slices, '--png', '-']);
        return decode(drawn.bytes).width;
      }),
    );
    // A sheet is no narrower than its texts.
    expect(widths).toEqual([640, 6 + 6 * (192 + 6)]);
  });

  test('show --html writes a page of all cases, also together with a sheet', async () => {
    await using cli = await cliWithCase();
    const args = ['show', '.', '--html', 'qc.html', '--png', 'sheet.png'];
    const { code, stderr } = await cli.run(args);
    expect([code, stderr]).toEqual([0, "1 case drawn in 'qc.html'\n1 case drawn in 'sheet.png'\n"]);
    const page = readFileSync(path.join(cli.directory, 'qc.html'), 'utf8');
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).toContain('qc-marks.csv');
    expect(page).toContain('label 2');
    expect((await cli.run(['show', '.', '--html', 'qc.html'])).stderr).toMatch(/'qc\.html' exists already/);
    const large = await cli.run(['show', '.', '--html', 'qc.html', '--volumes', '--force']);
    expect(large.code).toBe(0);
    const withVolumes = readFileSync(path.join(cli.directory, 'qc.html'), 'utf8');
    expect(withVolumes.length).toBeGreaterThan(page.length + scan.length);
    await expect(cli.run(['show', '.', '--volumes'])).resolves.toMatchObject({ code: 2 });
  });

  test('An interrupted show leaves no half-written page', async () => {
    await using cli = await cliWithCase();
    for (let at = 0; at < 60; at += 1) writeFileSync(path.join(cli.directory, `more${at}.nii.gz`), scan);
    const running = cli.begin(['show', '.', '--html', 'qc.html']);
    const pages = () => readdirSync(cli.directory).filter((name) => name.startsWith('qc.html'));
    await until('the page is begun', () => pages().length > 0);
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect([code, pages()]).toEqual([130, []]);
    expect(stderr).toContain('Interrupted');
  });

  test.each([
    [['show'], /No path given/],
    [['show', 'none.nii'], /No such file or directory: 'none\.nii'/],
    [['show', 'text.nii'], /text\.nii cannot be read as a volume/],
    [['show', 'scan.nii.gz', '--png', '-', '--json'], /both write to stdout/],
    [['show', 'scan.nii.gz', '--html', '-'], /--html needs the name of a file/],
    [['show', 'scan.nii.gz', '--png', ''], /--png needs the name of a file/],
    [['show', 'scan.nii.gz', '--slices', '0'], /--slices must be at least 1, got '0'/],
    [
      ['show', 'scan.nii.gz', '--labels', 'text.nii'],
      /Cannot read the names of labels in 'text\.nii': it is not JSON/,
    ],
  ])('show refuses %j', async (args, sentence) => {
    await using cli = await cliWithCase();
    writeFileSync(path.join(cli.directory, 'text.nii'), 'not a volume');
    const { code, stderr, stdout } = await cli.run(args);
    expect(code).toBe(2);
    if (!args.includes('--json')) expect(stderr).toMatch(sentence);
    else expect(JSON.parse(stdout).error.message).toMatch(sentence);
  });

  test('show asks the server for the names of labels if an app and a server are given', async () => {
    await using cli = await cliWithCase();
    await using server = await fakeService({});
    const { stdout, code } = await cli.run(['show', '.', '--app', 'tissue', '--server', server.url]);
    expect([code, stdout.split('\n').length]).toEqual([0, 4]);
    expect(server.received.map(({ url }) => url)).toEqual([appPath('tissue')]);
    const offline = await cli.run(['show', '.', '--app', 'tissue']);
    expect([offline.code, offline.stderr]).toEqual([0, '']);
  });
});

/** Shows the case at a terminal. */
async function atTerminal(
  options: Pick<TerminalOptions, 'columns' | 'env'> = {},
  more: readonly string[] = [],
) {
  await using cli = await cliWithCase();
  await using terminal = new ScreenTerminal(cli, ['show', 'scan.nii.gz', 'mask.nii.gz', ...more], options);
  return { code: await terminal.ended(), written: terminal.written };
}

describe('at a terminal', () => {
  const truecolour = { env: { COLORTERM: 'truecolor' } };

  test('A terminal in true colour gets half blocks and the labels', async () => {
    const { code, written } = await atTerminal(truecolour);
    expect(code).toBe(0);
    const lines = written.split('\r\n');
    expect(lines.some((line) => /axial S \d+ mm +coronal/.test(line))).toBe(true);
    expect(
      lines.filter((line) => line.includes(`${esc}[38;2;`) && line.includes('▀')).length,
    ).toBeGreaterThan(8);
    expect(lines.some((line) => /38;2;86;180;233m■.*label 2/.test(line))).toBe(true);
  });

  test('A terminal with 256 colours gets only these colours', async () => {
    const { written } = await atTerminal();
    expect(written).toContain(`${esc}[38;5;`);
    expect(written).not.toContain(`${esc}[38;2;`);
  });

  test.each([
    ['NO_COLOR', { NO_COLOR: '1', COLORTERM: 'truecolor' }],
    ['TERM=dumb', { TERM: 'dumb' }],
  ])('With %s the picture is drawn with characters', async (_, env) => {
    const { code, written } = await atTerminal({ env });
    expect(code).toBe(0);
    expect(written).not.toMatch(/▀|\[c|38;/);
    expect(written).toMatch(/[12]22+1/);
    expect(written).toMatch(/\r\n2 +label 2/);
  });

  test('A narrow terminal gets the planes below each other', async () => {
    const { written } = await atTerminal({ ...truecolour, columns: 50 });
    const titles = written.split('\r\n').filter((line) => /^(axial|coronal|sagittal)/.test(line));
    expect(titles).toHaveLength(3);
  });

  test('A PNG is not written to a terminal, and a pipe gets only the table', async () => {
    const refused = await atTerminal({}, ['--png', '-']);
    expect([refused.code, refused.written]).toEqual([
      2,
      expect.stringContaining('cannot be written to a terminal'),
    ]);
    await using cli = await cliWithCase();
    const args = ['show', 'scan.nii.gz', 'mask.nii.gz'];
    await using piped = new Terminal(cli, args, { ...truecolour, pipe: '| cat' });
    await piped.ended();
    expect(piped.written).not.toContain('▀');
    expect(piped.written).toMatch(/CASE +LABEL/);
  });
});

describe('infer --show', () => {
  test('infer --show draws the scan with its result', async () => {
    await using cli = await cliWithCase();
    const result = zipOf({ 'scan_seg.nii.gz': mask });
    await using server = await fakeService({ lines: ['done'], result });
    const args = ['infer', 'scan.nii.gz', '--show', '--server', server.url];
    await using terminal = new ScreenTerminal(cli, args, { env: { COLORTERM: 'truecolor', TMUX: 'x' } });
    expect(await terminal.ended()).toBe(0);
    expect(terminal.written).toContain('▀');
    expect(terminal.written).toMatch(/label 2/);
    expect(terminal.written).not.toMatch(/No scan was found/);
    expect(existsSync(path.join(cli.directory, 'Output', 'scan_seg.nii.gz'))).toBe(true);
  });

  test('infer --show saves a result that cannot be drawn, and says so', async () => {
    await using cli = await cliWithCase();
    await using server = await fakeService({ lines: ['done'], result: zipOf({ 'table.csv': 'a,b' }) });
    writeFileSync(path.join(cli.directory, 'scan.nii'), 'not a volume');
    const args = ['infer', 'scan.nii', '--show', '--server', server.url];
    await using terminal = new ScreenTerminal(cli, args);
    expect(await terminal.ended()).toBe(0);
    await until('the note', () => /The result cannot be drawn: /.test(terminal.written));
  });

  test('infer --show draws nothing if stdout is not a terminal', async () => {
    await using cli = await cliWithCase();
    await using server = await fakeService({ lines: ['done'], result: zipOf({ 'scan_seg.nii.gz': mask }) });
    const { code, stdout } = await cli.run(['infer', 'scan.nii.gz', '--show', '--server', server.url]);
    expect([code, stdout]).toEqual([0, 'done\n']);
  });
});
