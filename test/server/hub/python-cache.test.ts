import { expect, test } from 'vitest';
import type { AppView } from '../../../src/contract/app-manifest.js';
import { unzip } from '../../../support/unzip.mjs';
import { manifest } from '../../support/hub-app.js';
import { type Layout, plantCache } from '../../support/hub-cache.js';
import { TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';

const layouts: Layout[] = ['snapshot', 'files', 'shared', 'copies'];

test.each(layouts)('what Python has downloaded is used, without a hub: %s', async (layout) => {
  await using cache = await temporary();
  const commit = await plantCache(
    cache.path,
    'lab/app',
    { 'README.md': 'x', 'X/app.json': manifest(), 'X/deep/net.py': 'depth = 3\n', 'X/CV_0.pt': 'weights' },
    layout,
  );
  const environment = { HF_HUB_CACHE: cache.path, HF_HUB_OFFLINE: '1' };
  await using server = await TestServer.start({ apps: ['lab/app:X'], environment });
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
