import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import pLimit from 'p-limit';
import { expect, test } from 'vitest';
import { file } from '../support/form.mjs';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { fakeProgram } from './support/fake-program.js';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const count = 200;

/** An app that notes when it began, when it was over, and where. */
const clock = (notes: string) => `#!/bin/sh
began=$(date +%s%N)
sleep 0.1
echo "$began $(date +%s%N) $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" > ${notes}/$REMOTE_APP_JOB_ID
for argument; do
  test "$previous" = --output && echo done > "$argument/done"
  previous=$argument
done
`;
const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };

/** How many of these spans overlap at most. */
function mostAtOnce(spans: readonly (readonly [number, number])[]): number {
  const steps = spans.flatMap(([from, to]) => [[from, 1] as const, [to, -1] as const]);
  let [now, most] = [0, 0];
  for (const [, step] of steps.toSorted(([a], [b]) => a - b)) {
    now += step;
    most = Math.max(most, now);
  }
  return most;
}

test('With 200 jobs on two nodes of two GPUs, four run at once, all end, and squeue is queried once a second', async () => {
  const root = path.join(slurm.cluster.shared, 'many');
  const notes = path.join(root, 'notes');
  await plant(root, {
    'app/app.json': JSON.stringify({ ...manifest, command: ['sh', 'main.sh'] }),
    'app/main.sh': clock(notes),
  });
  mkdirSync(notes);
  const noted = 'date +%s%N >> "$notes"; exec "$real" "$@"';
  using squeue = fakeProgram('squeue', noted);
  using sacct = fakeProgram('sacct', noted);
  await using server = await slurm.serve({
    apps: [path.join(root, 'app')],
    app: 'app',
    flags: ['--max-jobs', '300'],
    environment: slurm.environment(squeue.directory, sacct.directory),
  });
  const limit = pLimit(16);
  const inputs = file('ct.nii');
  const submitted = Array.from({ length: count }, () =>
    limit(() => server.api.accepted('infer', { inputs })),
  );
  const ids = (await Promise.all(submitted)).map(({ job_id: id }) => id);
  const states = async () => {
    const { jobs } = await server.api.json<{ jobs: { status: string }[] }>('/jobs');
    return jobs.map(({ status }) => status);
  };
  await until(
    'all end',
    async () => (await states()).every((state) => !/queued|waiting|running/.test(state)),
    150_000,
    500,
  );
  expect([...new Set(await states())]).toEqual(['done']);
  expect(readdirSync(notes).toSorted()).toEqual(ids.toSorted());

  const told = readdirSync(notes).map((name) =>
    readFileSync(path.join(notes, name), 'utf8').trim().split(' '),
  );
  const spansOf = (those: string[][]) => those.map(([from, to]) => [Number(from), Number(to)] as const);
  expect(mostAtOnce(spansOf(told))).toBeLessThanOrEqual(4);
  const places = [...new Set(told.map(([, , node, gpu]) => `${node} ${gpu}`))].toSorted();
  expect(places).toEqual(['n1 0', 'n1 1', 'n2 0', 'n2 1']);
  for (const place of places) {
    const those = told.filter(([, , node, gpu]) => `${node} ${gpu}` === place);
    expect([place, mostAtOnce(spansOf(those))]).toEqual([place, 1]);
  }

  for (const program of [squeue, sacct]) {
    const asked = program
      .notes()
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((text) => Number(text) / 1e6);
    const gaps = asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
    // The wrapper itself starts a few milliseconds sooner or later.
    expect(gaps.filter((gap) => gap < 900)).toEqual([]);
  }
}, 180_000);
