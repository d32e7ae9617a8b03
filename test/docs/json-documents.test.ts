import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { errorDocument, jsonDocuments } from '../../tools/json-documents.mjs';
import { doing } from '../server/resident/support.js';
import { Cli } from '../support/cli.js';
import { dicomFile } from '../support/dicom.js';
import { least, printBytes, steps } from '../support/form.js';
import { manifest } from '../support/hub-app.js';
import { plantCache } from '../support/hub-cache.js';
import { nnunetFolder, resultsName } from '../support/nnunet-folder.js';
import { apps, sharedServer, type TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const tissue = fileURLToPath(new URL('../../examples/apps/tissue', import.meta.url));
const cache = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
const repositoryApp = 'lab/app:X';
/** What an app may state in addition to the required fields. */
const told = {
  task: 'synthesis',
  vram_plan: { '96': 4.5 },
  parameters: { iterations: 300 },
  citation: [{ text: 'A work.' }],
};
const server = sharedServer({ gpus: 1 });
/** A server of all kinds of apps, of which one stays loaded. */
const richServer = sharedServer({
  runners: true,
  apps: [apps.probe, apps.broken, apps.resident, tissue, repositoryApp],
  gpus: 1,
  environment: { HF_HUB_CACHE: cache },
});

/** A volume of NIfTI with 4 x 4 x 4 voxels of 8 bits. */
const scan = Buffer.alloc(352 + 64, 1);
scan.fill(0, 0, 352);
scan.writeInt32LE(348, 0);
[3, 4, 4, 4, 1, 1, 1, 1].forEach((size, at) => {
  scan.writeInt16LE(size, 40 + at * 2);
});
scan.writeInt16LE(2, 70);
scan.writeInt16LE(8, 72);
[1, 1, 1, 1].forEach((spacing, at) => {
  scan.writeFloatLE(spacing, 76 + at * 4);
});
scan.writeFloatLE(352, 108);
scan.write('n+1\0', 344, 'latin1');

let cli: Cli;
beforeAll(async () => {
  cli = await Cli.create();
  await plantCache(cache, 'lab/app', { 'X/app.json': manifest(told) });
  await plant(cli.directory, {
    'ct.nii': 'ct',
    'gt/ct.nii': 'gt',
    'set/a.nii': 'a',
    'in/b.nii': 'b',
    'in/b.json': '{}',
    'scans/head.nii': scan,
    'study/1': dicomFile({ image: 1 }),
    'study/2': dicomFile({ image: 2 }),
    'study/report': dicomFile({ image: 3, kind: 'SR' }),
  });
});
afterAll(async () => {
  rmSync(cache, { recursive: true });
  await cli[Symbol.asyncDispose]();
});

interface Variant {
  readonly when: string | null;
  readonly schema: z.ZodObject;
}
const variants: Readonly<Record<string, readonly Variant[]>> = jsonDocuments;

/** The JSON documents that a command prints. */
const run = (...words: string[]): Promise<unknown[]> => runAt(server, ...words);

async function runAt({ url }: TestServer, ...words: string[]): Promise<unknown[]> {
  const env = { REMOTE_APP_SERVER: url, REMOTE_APP_APP: 'probe' };
  const { stdout } = await cli.run([...words, '--json'], env);
  const isLines = words[0] === 'logs' || words.includes('--watch');
  return isLines
    ? stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : [JSON.parse(stdout)];
}

/** Fails unless each document fits a description of the command, and each description has a document. */
function expectAll(command: string, documents: readonly unknown[]): void {
  const described = variants[command] ?? [];
  const seen = new Map(described.map(({ when }) => [when, new Set<string>()]));
  for (const document of documents) {
    const fitting = described.filter(({ schema }) => schema.safeParse(document).success);
    const problems = described.map(({ schema }) => schema.safeParse(document).error?.issues);
    expect(fitting.length, `${JSON.stringify(document)}: ${JSON.stringify(problems)}`).toBeGreaterThan(0);
    for (const { when } of fitting)
      for (const name of Object.keys(document as object)) seen.get(when)?.add(name);
  }
  for (const { when, schema } of described) {
    // Every optional member must occur once, so that no description is out of date.
    expect([when, [...(seen.get(when) ?? [])].sort()]).toEqual([when, Object.keys(schema.shape).sort()]);
  }
}

const submissions: Readonly<Record<string, readonly string[]>> = {
  infer: ['in'],
  evaluate: ['ct.nii', '--gt', 'gt'],
  uncertainty: ['ct.nii'],
  pipeline: ['ct.nii', '--gt', 'gt'],
  'fine-tune': ['set'],
};

/** The id of a job that has ended and took these steps of the probe. */
const id = async (step = 'print=hello'): Promise<string> =>
  (await server.api.run('infer', { ...least.infer, ...steps(step) })).id;
/** Resolves when an app is loaded and idle. */
const loaded = () => richServer.api.run('infer', doing(), { app: 'resident' });
const runRich = (...words: string[]) => runAt(richServer, ...words);
const nobody = 'ffffffffffff';

/** By command, the command lines that print all its documents. */
const cases: Readonly<Record<string, () => Promise<unknown[][]>>> = {
  ...Object.fromEntries(
    Object.entries(submissions).map(([command, words]) => [
      command,
      async () => [
        await run(command, ...words),
        await run(command, ...words, '--detach'),
        await run(command, ...words, '--dry-run'),
        ...(command === 'fine-tune'
          ? []
          : [
              await run(command, ...words, '--each', '-o', `${command}-each`),
              await run(command, ...words, '--each', '--watch', '-o', `${command}-watched`),
              await run(command, ...words, '--each', '--dry-run'),
            ]),
      ],
    ]),
  ),
  apps: async () => [
    await loaded().then(() => runRich('apps')),
    await runRich('apps', 'tissue'),
    await id().then(() => run('apps', 'probe')),
    await runRich('apps', 'broken'),
    await runRich('apps', repositoryApp),
    await runRich('apps', '--refresh'),
    await runRich('apps', 'probe', '--config', 'config'),
  ],
  cite: async () => [await run('cite', await id())],
  completion: async () => [await run('completion', 'bash')],
  drain: async () => [await run('drain'), await run('drain', '--undo')],
  forward: async () => {
    const forward = cli.begin(['forward', '--port', '0', '--server', server.url, '--json']);
    await once(forward.stdout, 'data');
    forward.signal('SIGINT');
    return [[JSON.parse((await forward.ended).stdout)]];
  },
  gpus: async () => [await loaded().then(() => runRich('gpus'))],
  health: async () => [await run('health')],
  check: async () => [await run('check', apps.shell)],
  init: async () => {
    await plant(cli.directory, nnunetFolder());
    return [
      await run('init', 'new-app'),
      await run('init', 'network', '--from', 'nnunet', resultsName),
      await run('init', 'organs', '--from', 'totalsegmentator'),
    ];
  },
  inputs: async () => [await run('inputs', 'in', 'study')],
  jobs: async () => [await run('jobs')],
  convert: async () => [await run('convert', 'scans/head.nii', '--as', 'nrrd', '-o', 'head.seg.nrrd')],
  kill: async () => [await run('kill', await id(), nobody)],
  login: async () => [await run('login', '--server', server.url, '--token', 'any', '--profile', 'other')],
  logout: async () => {
    await run('login', '--server', server.url, '--token', 'any', '--profile', 'left');
    return [await run('logout', '--profile', 'left')];
  },
  logs: async () => [
    // Two states of a bar.
    await run('logs', await id(printBytes('1 %\r2 %\rdone\n'))),
    await run('logs', await id('exit=3')),
  ],
  result: async () => [await run('result', await id(), '-o', 'one')],
  retry: async () => {
    const [{ job_id: first }] = (await run('infer', 'in')) as [{ job_id: string }];
    return [await run('retry', first), await run('retry', first, '--detach')];
  },
  rm: async () => [await run('rm', await id(), nobody)],
  show: async () => [await run('show', 'scans')],
  status: async () => [await run('status', await id())],
  'token:create': async () => [await run('token', 'create', 'made', '--tokens', 'made.json')],
  'token:limit': async () => {
    await run('token', 'create', 'ana', '--tokens', 'limited.json');
    return [
      await run('token', 'limit', 'ana', '--max-jobs', '3', '--apps', 'probe', '--tokens', 'limited.json'),
    ];
  },
  'token:list': async () => {
    await run('token', 'create', 'ana', '--tokens', 'listed.json');
    return [await run('token', 'list', '--tokens', 'listed.json')];
  },
  'token:revoke': async () => {
    await run('token', 'create', 'ana', '--tokens', 'revoked.json');
    return [await run('token', 'revoke', 'ana', '--tokens', 'revoked.json')];
  },
  'token:rotate': async () => {
    await run('token', 'create', 'ana', '--tokens', 'rotated.json');
    return [await run('token', 'rotate', 'ana', '--tokens', 'rotated.json')];
  },
  usage: async () => {
    await id();
    return [await run('usage')];
  },
  wait: async () => [await run('wait', await id(), nobody)],
};

describe('--json', () => {
  test('--json is described for every command that has it', () => {
    const { commands } = JSON.parse(
      readFileSync(new URL('../../oclif.manifest.json', import.meta.url), 'utf8'),
    );
    const names = Object.keys(commands)
      .filter((name) => commands[name].flags.json)
      .sort();
    expect(Object.keys(jsonDocuments).sort()).toEqual(names);
    expect(Object.keys(cases).sort()).toEqual(names);
  });

  test.each(Object.keys(cases))(
    '%s --json prints exactly what is described',
    async (command) => {
      const documents = (await cases[command]?.()) ?? [];
      expectAll(command, documents.flat());
    },
    120_000,
  );

  test('--json prints the described document for an error', async () => {
    const failed = await run('infer', 'ct.nii', '--set', 'exit=3', '-o', 'failed');
    const wrong = [await run('status', nobody), await run('kill'), await run('infer', 'gone.nii')];
    const unreached = await run('health', '--server', 'http://127.0.0.1:1');
    for (const document of [failed, ...wrong, unreached].flat()) errorDocument.parse(document);
    expect(failed).toMatchObject([{ error: { exit_code: 1, status: 'error', left_files: 1 } }]);
  });

  test('--json documents spell all names alike', () => {
    const names = (schema: unknown): string[] => {
      if (typeof schema !== 'object' || schema === null) return [];
      const own = 'properties' in schema ? Object.keys(schema.properties as object) : [];
      return [...own, ...Object.values(schema).flatMap(names)];
    };
    const all = [
      errorDocument,
      ...Object.values(variants).flatMap((each) => each.map(({ schema }) => schema)),
    ];
    for (const name of all.flatMap((schema) => names(z.toJSONSchema(schema)))) {
      expect(name).toMatch(/^[a-z]+(_[a-z]+)*$/);
    }
  });
});
