import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { refusal } from '../../../support/api.js';
import { least } from '../../../support/form.js';
import { TestServer } from '../../../support/server.js';
import { ScriptedCluster } from '../../../support/slurm/scripted-cluster.js';
import { plant, temporary } from '../../../support/temporary.js';

const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
const app = (resources: object) => JSON.stringify({ ...about, command: ['true'], resources });

test('Slurm is asked for what an app needs, and a need that no node can meet is refused before submission', async () => {
  await using root = await temporary();
  await using place = await temporary();
  const cluster = new ScriptedCluster(root.path, 1);
  onTestFinished(() => cluster.close());
  await plant(place.path, {
    'fits/app.json': app({ memory: '1.5GiB', cpus: 1, gpu_memory: '8GiB' }),
    'large/app.json': app({ memory: '100GiB' }),
    'busy/app.json': app({ cpus: 5 }),
  });
  const flags = ['--executor', 'slurm', '--sandbox', 'off', '--pass-env', 'SCRIPTED_SLURM'];
  await using server = await TestServer.start({
    runners: true,
    apps: [place.path],
    flags: [...flags, '--slurm-arg=--gres=gpu:a100:1'],
    environment: { PATH: cluster.environment.PATH ?? '', SCRIPTED_SLURM: root.path },
  });
  const refused = async (name: string) =>
    refusal(await server.api.submit('infer', least.infer, { app: name }));
  expect(await refused('large')).toEqual([
    422,
    "The app 'large' needs 100.0 GiB of memory; a job of this server may use 62.5 GiB",
  ]);
  expect(await refused('busy')).toEqual([422, "The app 'busy' needs 5 CPUs; this server has 1"]);

  const { view } = await server.api.run('infer', { ...least.infer, gpu: '0' }, { app: 'fits' });
  expect(view.status).toBe('done');
  // The first submission was the server's own trial.
  const words = readFileSync(path.join(root.path, 'new-2/words'), 'utf8').split('\n');
  const asked = ['--gres=gpu:1', '--cpus-per-task=1', '--mem=1536M', '--gres=gpu:a100:1'];
  expect(words.slice(0, 4)).toEqual(asked);
});
