import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AppView } from '../../../src/contract/app-manifest.js';
import { FakeHub } from '../../support/fake-hub.js';
import { files, repository } from '../../support/hub-app.js';
import { TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

/**
 * Pythons that may have `huggingface_hub`: the one of `npm run test:konfai`, and the machine's. Where none has it, these
 * tests are skipped: `python-cache.test.ts` holds the same against what was recorded from it.
 */
const environment =
  process.env.REMOTE_APP_KONFAI_VENV ?? fileURLToPath(new URL('../../../.cache/konfai', import.meta.url));
const python = [`${environment}/bin/python`, 'python3'].find(
  (each) => spawnSync(each, ['-c', 'import huggingface_hub']).status === 0,
);
const program = fileURLToPath(new URL('../../fixtures/programs/hub.py', import.meta.url));

const app = `${repository}:MR`;
const names = ['CV_0.pt', 'CV_1.pt', 'Model/net.py', 'Prediction.yml', 'Uncertainty.yml', 'app.json'];

interface Found {
  readonly commit: string;
  readonly files: readonly string[];
  readonly single: boolean;
  readonly warnings: readonly string[];
  readonly konfai?: unknown;
}

describe.skipIf(python === undefined)("Python's package and this one", () => {
  let hub: FakeHub;
  let commit: string;
  beforeAll(async () => {
    hub = await FakeHub.start();
    commit = hub.commit(repository, files);
  });
  afterAll(() => hub[Symbol.asyncDispose]());

  /** What the package makes of a cache. */
  async function look(cache: string, env: Readonly<Record<string, string>>): Promise<Found> {
    const child = spawn(python ?? '', [program, repository, 'MR'], {
      env: {
        PATH: process.env.PATH,
        HOME: cache,
        HF_HUB_CACHE: cache,
        HF_HUB_DISABLE_XET: '1',
        HF_HUB_DISABLE_TELEMETRY: '1',
        ...env,
      },
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    expect(child.exitCode, stderr).toBe(0);
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Found;
  }

  const serving = (cache: string, env: Readonly<Record<string, string>>, flags: readonly string[] = []) =>
    TestServer.start({ runners: true, apps: [app], flags, environment: { HF_HUB_CACHE: cache, ...env } });

  const expectFound = (found: Found) => {
    expect(found).toMatchObject({ commit, single: true, warnings: [] });
    expect(found.files).toEqual(names.map((name) => `MR/${name}`));
    // Where KonfAI is installed as well, the engine finds all that it runs with.
    if (found.konfai) {
      const models = ['CV_0.pt', 'CV_1.pt'];
      expect(found.konfai).toEqual({ available: models, models, config: 'Prediction.yml' });
    }
  };

  test("Python's package and this one agree on what a server has downloaded, and neither asks the hub for it again", async () => {
    await using cache = await temporary();
    {
      await using server = await serving(cache.path, { HF_HUB_OFFLINE: '', HF_ENDPOINT: hub.url }, [
        '--download',
      ]);
      expect(server.stderr).toContain(commit.slice(0, 12));
    }
    hub.forget();
    expectFound(await look(cache.path, { HF_HUB_OFFLINE: '1' }));
    expect(hub.requests).toEqual([]);
  }, 120_000);

  test("Python's package and this one agree on what Python has downloaded, and on what it adds to a server's description", async () => {
    await using cache = await temporary();
    {
      await using server = await serving(cache.path, { HF_HUB_OFFLINE: '', HF_ENDPOINT: hub.url });
      const isDescribed = async () =>
        (await server.api.json<AppView>(`/repo_apps/${encodeURIComponent(app)}`)).available;
      await until('the app is described', isDescribed);
    }
    const whole = await look(cache.path, { HF_ENDPOINT: hub.url });
    // The first look at a cache that has only descriptions brings the weights.
    expect(whole.files).toEqual(names.map((name) => `MR/${name}`));
    await using offline = await serving(cache.path, { HF_HUB_OFFLINE: '1' });
    const view = await offline.api.json<AppView>(`/repo_apps/${encodeURIComponent(app)}`);
    expect(view).toMatchObject({
      available: true,
      checkpoints_name_available: ['CV_0.pt', 'CV_1.pt'],
      repository: { commit },
    });
  }, 120_000);
});
