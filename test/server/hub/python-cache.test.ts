import { chmodSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { AppView } from '../../../src/contract/app-manifest.js';
import { least } from '../../support/form.js';
import { manifest } from '../../support/hub-app.js';
import { type Layout, plantCache } from '../../support/hub-cache.js';
import { sandbox } from '../../support/sandbox.js';
import { TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { unzip } from '../../support/unzip.mjs';

const layouts: Layout[] = ['snapshot', 'files', 'shared', 'copies'];

test.each(layouts)('Files that Python downloaded are used without a hub: %s', async (layout) => {
  await using cache = await temporary();
  const commit = await plantCache(
    cache.path,
    'lab/app',
    { 'README.md': 'x', 'X/app.json': manifest(), 'X/deep/net.py': 'depth = 3\n', 'X/CV_0.pt': 'weights' },
    layout,
  );
  const environment = { HF_HUB_CACHE: cache.path, HF_HUB_OFFLINE: '1' };
  await using server = await TestServer.start({ runners: true, apps: ['lab/app:X'], environment });
  const id = encodeURIComponent('lab/app:X');
  expect(await server.api.json<AppView>(`/repo_apps/${id}`)).toMatchObject({
    available: true,
    display_name: 'Synthetic CT',
    checkpoints_name: ['CV_0.pt', 'CV_1.pt'],
    checkpoints_name_available: ['CV_0.pt'],
    repository: { commit, checked_at: null, problem: null },
  });
  const response = await server.api.fetch(`/repo_apps_config/${id}`);
  const found = await unzip(Buffer.from(await response.arrayBuffer()));
  expect([...found.keys()].sort()).toEqual(['app.json', 'deep/net.py', 'net.py']);
});

test.skipIf(sandbox === null).each(layouts)(
  'In its sandbox a job reads its repository, and no other, and writes to none: %s',
  async (layout) => {
    await using cache = await temporary();
    for (const name of ['lab/app', 'lab/other']) {
      await plantCache(
        cache.path,
        name,
        { 'X/app.json': manifest(), 'X/CV_0.pt': `weights of ${name}` },
        layout,
      );
    }
    await using programs = await temporary();
    const engine = path.join(programs.path, 'engine');
    await plant(programs.path, {
      engine: `#!/bin/sh
cd "$HF_HUB_CACHE" && cat models--*/snapshots/*/X/CV_0.pt && echo && ls blobs/*/* 2>/dev/null | grep -v refs | wc -l
echo x > models--lab--app/refs/main || echo read-only
`,
    });
    chmodSync(engine, 0o755);
    await using server = await TestServer.start({
      runners: true,
      apps: ['lab/app:X', 'lab/other:X'],
      flags: ['--sandbox', 'bwrap', '--engine', engine],
      environment: { HF_HUB_CACHE: cache.path, HF_HUB_OFFLINE: '1' },
    });
    const { log } = await server.api.run('infer', least.infer, { app: 'lab/app:X' });
    const lines = log.split('\n').filter((line) => /^data: [^[_]/.test(line));
    expect(lines.filter((line) => !line.includes('Read-only'))).toEqual([
      'data: weights of lab/app',
      `data: ${layout === 'shared' ? 1 : 0}`,
      'data: read-only',
    ]);
  },
);
