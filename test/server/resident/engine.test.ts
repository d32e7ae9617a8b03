import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { file } from '../../support/form.mjs';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
import { TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { ownLines } from './support.js';

const packages = fileURLToPath(new URL('../../fixtures/konfai', import.meta.url));
const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };

/** An environment of Python with the stand-in for KonfAI, and an app that its engine runs. */
async function plantEngine() {
  const root = await temporary();
  const at = (...names: string[]) => path.join(root.path, ...names);
  execFileSync('python3', ['-m', 'venv', '--without-pip', at('venv')]);
  const [python = ''] = readdirSync(at('venv/lib'));
  const site = at('venv/lib', python, 'site-packages');
  cpSync(packages, site, { recursive: true });
  const body = "from konfai_apps.cli import main_apps\nif __name__ == '__main__':\n    main_apps()\n";
  const engine = at('venv/bin/konfai-apps');
  writeFileSync(engine, `#!${at('venv/bin/python3')}\n${body}`);
  chmodSync(engine, 0o755);
  await plant(root.path, { 'one/app.json': JSON.stringify(manifest) });
  return Object.assign(root, { engine, app: at('one'), site });
}

const doing = (...steps: string[]) => ({
  inputs: [file('in.nii.gz', 'volume')],
  options: JSON.stringify({ config_overrides: steps }),
  cpu: '1',
});

test.skipIf(lacks('python3')).each(sandbox ? ['off', 'bwrap'] : ['off'])(
  "KonfAI's engine stays loaded with its own Python (--sandbox %s)",
  async (kind) => {
    await using planted = await plantEngine();
    await using server = await TestServer.start({
      runners: true,
      apps: [planted.app],
      app: 'one',
      flags: ['--engine', planted.engine, '--engine-resident', '--sandbox', kind],
      environment: { PYTHONDONTWRITEBYTECODE: '1' },
    });
    const first = await server.api.run('infer', doing('print=hello'));
    expect(first.view, first.log).toMatchObject({ status: 'done', start: 'cold' });
    expect(first.log).toMatch(/imported in \d+/);
    const second = await server.api.run('infer', doing('print=again'));
    expect(second.view, second.log).toMatchObject({ status: 'done', start: 'warm' });
    expect(ownLines(second.log)).toEqual(['job 1', 'again', '__DONE__']);
    const full = await server.api.run('infer', doing('exit=75'));
    expect(full.view).toMatchObject({ start: 'warm', error: expect.stringContaining('out of memory') });
    const crashed = await server.api.run('infer', doing('crash=now'));
    expect(crashed.view).toMatchObject({ start: 'warm', status: 'error' });
    mkdirSync(path.join(planted.site, 'installed'));
    const changed = await server.api.run('infer', doing('print=new'));
    expect(changed.view).toMatchObject({ start: 'warm', status: 'done' });
    expect(changed.log).toMatch(/not used: packages were installed/);
  },
);
