import { readFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, steps, submit } from '../../support/api.mjs';

const atOnce = 20;

/** Submissions with one key make one job: at once, one after the other, and after the server was killed. */
export async function repeatKeys(context, server) {
  const { random } = context;
  const nonce = random.word(16);
  const witness = path.join(context.scratch, `${nonce}.witness`);
  const form = { inputs: file('scan.nii', nonce), options: steps({ witness, nonce, lines: 3 }) };
  const send = () => submit(server, 'witness', 'infer', form, { 'idempotency-key': nonce });
  const ids = new Set(await Promise.all(Array.from({ length: atOnce }, send)));
  if (random.chance(0.5)) await ended(server, [...ids][0]);
  await server.kill();
  await server.start();
  ids.add(await send());
  for (const id of ids) await ended(server, id);
  ids.add(await send());
  context.count('submissions under one key', atOnce + 2);
  context.check(ids.size === 1, `${atOnce + 2} submissions with one Idempotency-Key made ${ids.size} jobs`);
  const starts = readFileSync(witness, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('start '));
  context.check(starts.length === 1, `A job submitted under one key was run ${starts.length} times`);
}
