import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { file } from '../../support/form.mjs';
import { sandbox } from '../../support/sandbox.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { TestTokens } from '../../support/tokens.js';
import { doing, noWorkerLeft, ownApp, ownLines } from './support.js';

/** A server with the app that stays loaded, which promises to keep nothing of a job, and three people. */
async function serve(kind: string, flags: readonly string[], environment: Record<string, string> = {}) {
  const own = await ownApp();
  const { app } = own;
  const manifest = path.join(app, 'app.json');
  writeFileSync(manifest, JSON.stringify({ ...JSON.parse(readFileSync(manifest, 'utf8')), shared: true }));
  const tokens = new TestTokens();
  for (const name of ['ada', 'eva']) tokens.create(name);
  tokens.create('ida', { apps: ['other'] });
  const server = await TestServer.start({
    runners: true,
    apps: [app],
    app: 'resident',
    environment,
    flags: ['--sandbox', kind, '--tokens', tokens.file, ...flags],
    token: 'admin',
  });
  const of = (name: string) => tokens.api(server, name, 'resident');
  const close = async () => {
    for (const each of [server, tokens, own]) await each[Symbol.asyncDispose]();
  };
  return { server, ada: of('ada'), eva: of('eva'), ida: of('ida'), [Symbol.asyncDispose]: close };
}

const sharing = ['--share-workers', 'resident'];
const loads = (logs: readonly string[]) => logs.flatMap(ownLines).filter((line) => line === 'loaded').length;

test('A start says that --share-workers has no effect on an app that does not say it is shared', async () => {
  await using served = await serve('off', [...sharing, '--apps', apps.probe, '--share-workers', 'probe']);
  expect(served.server.stderr.split('\n').filter((line) => line.includes('--share-workers'))).toEqual([
    'WARNING: --share-workers probe has no effect: its app.json does not have "shared": true',
  ]);
});

describe.each(sandbox ? ['off', 'bwrap'] : ['off'])('--sandbox %s', (kind) => {
  test('With --share-workers, an app that says it is shared is loaded once for the jobs of all owners', async () => {
    await using served = await serve(kind, sharing);
    const first = await served.ada.run('infer', doing());
    for (const each of [served.ada, served.eva, served.server.api])
      expect(await each.json('/repo_apps_list')).toMatchObject({ loaded: ['resident'] });
    expect(await served.ida.json('/available_devices')).not.toHaveProperty('cpu_loaded');
    const second = await served.eva.run('infer', doing());
    const third = await served.server.api.run('infer', doing());
    expect([first, second, third].map(({ view }) => view.start)).toEqual(['cold', 'warm', 'warm']);
    expect(loads([first.log, second.log, third.log])).toBe(1);
    expect((await served.eva.fetch(`/jobs/${first.id}/log`)).status).toBe(404);
  });

  test('Without --share-workers, such an app is loaded for each owner', async () => {
    await using served = await serve(kind, []);
    const [first, second] = [await served.ada.run('infer', doing()), await served.eva.run('infer', doing())];
    expect([first, second].map(({ view }) => view.start)).toEqual(['cold', 'cold']);
    expect(loads([first.log, second.log])).toBe(2);
  });
});

describe.runIf(sandbox)('a shared worker in its sandbox', () => {
  /** A program of perl that leaves a secret wherever it can, and one that looks for secrets wherever jobs may have files. */
  const programs = (data: string) => {
    const places = `glob(qq(${data}/workers/*/home /tmp /var/tmp /dev/shm . ../Output))`;
    const roots = ['', '/proc/[0-9]*/root'];
    const searched = ['/tmp', '/var/tmp', '/dev/shm', '/run', data].flatMap((each) =>
      roots.map((root) => root + each),
    );
    const look = `grep -rls s[e]cret-of-ada ${searched.join(' ')}`;
    const deeper = ['umount -l', 'mount -t tmpfs none', 'unshare -Urm umount -l'].map(
      (each) => `${each} ${data}/jobs`,
    );
    return {
      leave: `for (${places}) { mkdir qq($_/left); open my $f, qq(>), qq($_/left/.file) or die; print $f qq(secret-of-ada) }`,
      search: `print qq(find:\\n), qx((${look}; ${deeper.join('; ')}; ${look}) 2> /dev/null)`,
    };
  };
  const foundIn = (log: string) => ownLines(log).filter((line) => line.startsWith('/'));

  test('A job finds nothing that the job of another owner had or left, wherever it looks', async () => {
    await using served = await serve('bwrap', sharing);
    const { leave, search } = programs(served.server.dataDirectory);
    const form = { ...doing(`perl:${leave}; ${search}`), inputs: [file('in.nii.gz', 'secret-of-ada')] };
    const first = await served.ada.run('infer', form);
    expect(first.view.status, first.log).toBe('done');
    for (const place of ['/tmp/', '/dev/shm/', '/home/left/', '/Input/', '/Output/', '/Workspace/'])
      expect(foundIn(first.log).join('\n')).toContain(place);
    const second = await served.eva.run('infer', doing(`perl:${search}`));
    expect(second.view).toMatchObject({ status: 'done', start: 'warm' });
    expect(ownLines(second.log)).toContain('find:');
    expect(foundIn(second.log)).toEqual([]);
    expect((await served.ada.run('infer', doing('socket'))).view.start).toBe('warm');
    const left = await served.ada.run('infer', doing('child'));
    expect(left.log).toContain('The app left a process running');
    expect((await served.eva.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A shared worker ends with its job if the remains of that job cannot be removed', async () => {
    await using root = await temporary();
    writeFileSync(path.join(root.path, 'nsenter'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    await using served = await serve('bwrap', sharing, { PATH: `${root.path}:${process.env.PATH}` });
    expect((await served.ada.run('infer', doing())).view.status).toBe('done');
    await noWorkerLeft(served.server);
    expect((await served.eva.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });
});
