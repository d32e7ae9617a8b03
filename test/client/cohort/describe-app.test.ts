import { expect, test } from 'vitest';
import { describeApp } from '../../../src/client/cohort/find-cases.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo, memoryReporter } from '../support/connect.js';

const described = {
  ...{ app: 'tissue', display_name: 'x', maximum_tta: 0, mc_dropout: 0 },
  ...{ checkpoints_name: [], checkpoints_name_available: [] },
};
const versioned = { ...described, version: 'v1' };

/** The description by a server that gives these answers, the last one again and again; how often it was asked, and the waits. */
async function describedBy(...answers: readonly (readonly [status: number, body: object])[]) {
  let asked = 0;
  await using server = await ScriptedServer.start((_, response) => {
    const [status, body] = answers[Math.min(asked++, answers.length - 1)] ?? [404, {}];
    json(response, status, body);
  });
  await using connection = connectTo(server.url, { patience: 0 });
  const waits: (string | null)[] = [];
  const reporter = { ...memoryReporter(), waiting: (what: string | null) => void waits.push(what) };
  const view = await describeApp(connection, 'tissue', reporter).catch((error: Error) => error.message);
  return [view, asked, waits];
}

test('An app whose version is being computed is waited for, and one that cannot be described is not', async () => {
  const wait = 'Waiting for the version of tissue';
  expect(await describedBy([200, { ...described, version: null }], [200, versioned])).toEqual([
    ...[expect.objectContaining({ version: 'v1' }), 2, [wait, null]],
  ]);
  expect(await describedBy([200, described])).toEqual([expect.objectContaining(described), 1, [null]]);
  const unavailable = { app: 'tissue', available: false, reason: 'It has no checkpoint' };
  expect(await describedBy([200, unavailable])).toEqual([expect.objectContaining(unavailable), 1, [null]]);
  expect(await describedBy([404, { detail: 'None' }])).toEqual([null, 1, [null]]);
  expect(await describedBy([429, { detail: 'Busy' }])).toEqual(['Busy', 1, [null]]);
});
