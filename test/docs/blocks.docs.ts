import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { writeNifti, writeVolume } from '@remote-app/volumes';
import { afterAll, expect, test } from 'vitest';
import { SERIES } from '../apps/brain/program.js';
import { straight } from '../support/affine.js';
import { dicomFile, dicomSeries } from '../support/dicom.js';
import { list } from '../support/list.mjs';
import { monaiBundle } from '../support/monai-bundle.js';
import { nnunetFolder, resultsName } from '../support/nnunet-folder.js';
import { apps } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { type Block, blocksOf, Page, readPage, repository, type Setting } from './blocks.js';

/** What a server needs that a page takes for granted. */
const settings: Readonly<Record<string, Setting>> = {
  'AGENTS.md': { before: 'cp -r bright liver', under: { 'Which server, which app': { apps: ['liver'] } } },
  'README.md': {
    gpus: 0,
    // The networks of the example compute for half a minute; its own tests run them.
    changes: { './examples/apps/brain': './bright' },
    under: { 'For researchers': { apps: ['bright'], gpus: 2 } },
  },
  'docs/admin.md': {
    apps: ['bright'],
    stdin: 'token-of-ana\n',
    changes: { ' --ca gpu.pem': '', '/srv/apps': 'bright', '/srv/jobs': 'jobs' },
  },
  'docs/apps.md': { before: 'cp -r bright liver' },
  'docs/cli.md': {
    apps: ['bright'],
    stdin: 'token-of-ana\n',
    changes: {
      'rm 3f9a0c1b2d4e 77aa01bc23de': 'rm $THIRD 77aa01bc23de',
      'my-app --language': 'other-app --language',
      'my-app --resident': 'resident-app --resident',
      'source <(remote-app completion zsh)': 'remote-app completion zsh',
      '3f9a0c1b2d4e': '$FIRST',
      '77aa01bc23de': '$SECOND',
      'VBoussot/ImpactSynth:MR': 'bright',
      '--app brain': '--app bright',
      'apps tissue': 'apps bright',
      ' --venv': '',
      '/etc/remote-app/': '',
      'systemctl restart remote-app': 'true',
      'grep loss': 'cat',
      '--apps ./apps --data-dir /srv/jobs': '--apps ./bright --data-dir jobs',
      'health --server https://gpu.example.org': 'health --server http://127.0.0.1:8000',
    },
    under: {
      evaluate: { before: 'for each in prediction label body; do cp mask.nii.gz $each.nii.gz; done' },
      uncertainty: { before: 'cp mask.nii.gz Output/one_stack.nii.gz' },
      'fine-tune': { before: 'python3 -m zipfile -c dataset.zip dataset' },
      convert: {
        before:
          'remote-app infer ./dicom -o Made\ncp Made/mask.nii.gz .\nmkdir Output/segmentations\ncp mask.nii.gz Output\ncp mask.nii.gz Output/segmentations/liver.nii.gz',
      },
      status: {
        before: [
          'FIRST=$(remote-app infer --detach scan.nii.gz)',
          'SECOND=$(remote-app infer --detach ct.nii.gz --tag study-7)',
          'THIRD=$(remote-app infer --detach t1.nii.gz --tag study-8)',
        ].join('\n'),
      },
      result: { before: 'rm -r Output' },
      rm: { before: 'remote-app infer scan.nii.gz --tag study-7' },
      completion: {
        before: 'mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions',
      },
      usage: { apps: ['bright'] },
      serve: { before: "echo 'apps: bright' > serve.yaml" },
    },
  },
  'docs/cohorts.md': {
    before: 'cp -r bright brain',
    under: { 'Many cases': { apps: ['brain'] } },
    changes: { 'notify-send': 'echo' },
  },
  'docs/http.md': { apps: ['bright'], before: 'SERVER=http://127.0.0.1:8000\nTOKEN=any\nAPP=bright' },
  'docs/konfai.md': { stdin: '...\n', changes: { '--app APP': '--app ./bright' } },
  'docs/looking.md': { apps: ['bright'], before: 'remote-app infer ./scans' },
  'docs/monai.md': { before: 'cp -r bright spleen' },
  'docs/nnunet.md': { before: 'cp -r bright liver' },
  'docs/privacy.md': { apps: ['bright'] },
  'docs/sandbox.md': { before: 'remote-app init my-app' },
  'docs/slicer.md': { apps: ['bright'] },
  'docs/slurm.md': { apps: ['bright'], stdin: 'token' },
  'docs/totalsegmentator.md': { before: 'cp -r bright organs' },
  'docs/using.md': { apps: ['bright'], before: 'touch ~/.zshrc' },
  'docs/viewers.md': {
    apps: ['bright'],
    before:
      'remote-app infer ./dicom -o Made\nmkdir segmentations\ncp Made/mask.nii.gz segmentations/liver.nii.gz',
    changes: { 'Output/segmentations': 'segmentations' },
  },
  'examples/apps/tissue/README.md': {
    before: 'cp -r "$REPOSITORY/examples/apps/tissue" .\nln -s "$REPOSITORY/node_modules" .',
    changes: { '/path/to/examples/apps': '$OLDPWD' },
  },
};

const pages = [
  ...list`README.md AGENTS.md examples/apps/brain/README.md examples/apps/tissue/README.md
    python/README.md`,
  ...readdirSync(path.join(repository, 'docs'))
    .filter((each) => each.endsWith('.md'))
    .map((each) => `docs/${each}`),
];

const affine = straight();

/** A volume with a bright half. */
const volume = (bright: number, size = 8) => ({
  size: [size, size, size] as const,
  affine,
  data: Uint8Array.from({ length: size ** 3 }, (_, at) => (at % size < size / 2 ? 0 : bright)),
});

const series = (count: number, number: number, description: string, plane: 'axial' | 'sagittal') =>
  dicomSeries(count, { series: String(number), number, description, plane }, (image) => `${number}-${image}`);

const within = (directory: string, files: Readonly<Record<string, Buffer>>) =>
  Object.fromEntries(Object.entries(files).map(([name, file]) => [`${directory}/${name}`, file]));

/** Writes what the pages take for granted: scans of many names, a series, and apps. */
async function plantFiles(directory: string): Promise<void> {
  const at = (name: string) => path.join(directory, name);
  const subjects = ['01', '02'].map((each) => `bids/sub-${each}/anat/sub-${each}_T1w`);
  const scans = [
    'ct',
    'scan',
    't1',
    't2',
    'flair',
    't1/one',
    'flair/one',
    't1/two',
    'flair/two',
    'scans/one_t1',
    'scans/two_t1',
    ...subjects,
  ];
  const labels = ['mask', ...['labels/one_t1', 'labels/two_t1', 'truth/one', 'truth/two']];
  await plant(directory, {
    'dataset/one/notes': '',
    'token.txt': 'token-of-ana',
    token: 'token-of-ana',
    'apps.json': JSON.stringify({ apps: ['./bright'] }),
    ...nnunetFolder(`Dataset003_Liver/${resultsName}`),
    ...monaiBundle(),
    ...within('export', {
      ...series(3, 2, 'localiser', 'axial'),
      ...series(176, 3, 'T1 MPRAGE', 'sagittal'),
    }),
    'export/report': dicomFile({ image: 1, series: '9', kind: 'SR' }),
  });
  for (const [bright, names] of [[100, scans] as const, [1, labels] as const])
    for (const name of names) {
      mkdirSync(path.dirname(at(name)), { recursive: true });
      await writeNifti(at(`${name}.nii.gz`), volume(bright));
    }
  await writeVolume(at('scan.mha'), volume(100));
  for (const name of ['head-mr', 'dicom', 'study']) {
    mkdirSync(at(name));
    for (const slice of readdirSync(SERIES).slice(0, 6))
      symlinkSync(path.join(SERIES, slice), at(`${name}/${slice}`));
  }
  symlinkSync(path.join(repository, 'examples'), at('examples'));
  // In one directory, since a sandbox shows an app no other.
  cpSync(apps.bright, at('bright'), { recursive: true });
  for (const name of list`@remote-app/volumes/dist @remote-app/volumes/package.json dicom-parser
    dicom-character-set`)
    cpSync(path.join(repository, 'node_modules', name), at(`bright/node_modules/${name}`), {
      recursive: true,
    });
}

test('A block fails if it ends with an error, shows something else, or contains half a command', async () => {
  await using page = await Page.create('a page', plantFiles);
  const [failing, other, half, right] = blocksOf(
    '```sh\nfalse && true\n```\n```console\n$ echo 12 files of 3.4 MiB\n13 files of 5.6 KiB\n```\n```sh\necho (\n```\n```console\n$ echo 12 files of 3.4 MiB\n12 [...] of 5.6 KiB\n```\n',
  ) as [Block, Block, Block, Block];
  await expect(page.run(failing)).rejects.toThrow("line 1: 'false && true' failed");
  await expect(page.run(other)).rejects.toThrow('and not\n13 files');
  await expect(page.run(half)).rejects.toThrow('no whole command');
  await page.run(right);
});

const counts = { ran: 0, skipped: new Map<string, number>() };
afterAll(() => {
  const reasons = [...counts.skipped].map(([reason, count]) => `${count} ${reason}`);
  console.log(`${counts.ran} blocks ran; not run: ${reasons.join(', ')}`);
});

for (const name of pages) {
  const blocks = blocksOf(await readPage(name));
  if (blocks.length === 0) continue;
  test.concurrent(`Every block of commands in ${name} does what the page says`, async () => {
    await using page = await Page.create(name, plantFiles);
    const { under = {}, ...setting } = settings[name] ?? {};
    await page.prepare(setting);
    let heading = '';
    const problems: string[] = [];
    for (const block of blocks) {
      if (block.reason !== null) {
        counts.skipped.set(block.reason, (counts.skipped.get(block.reason) ?? 0) + 1);
        continue;
      }
      if (block.heading !== heading) await page.prepare(under[block.heading] ?? {});
      heading = block.heading;
      await page.run(block).catch((problem: Error) => problems.push(problem.message));
      counts.ran += 1;
    }
    expect(problems.join('\n')).toBe('');
  }, 500_000);
}
