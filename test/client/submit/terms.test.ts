import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import type { Submission } from '../../../src/client/submission.js';
import { preflight } from '../../../src/client/submit/preflight.js';
import { type OperationName, operationOf } from '../../../src/contract/operations.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo } from '../support/connect.js';

const submission = (name: OperationName, more: Partial<Submission> = {}): Submission => ({
  ...{ operation: operationOf(name), app: 'x', fields: {}, options: {}, files: [], archive: null },
  ...more,
});
const described = {
  app: 'x',
  display_name: 'X',
  maximum_tta: 4,
  mc_dropout: 0,
  has_capabilities: [true, false, false],
};
type Answers = Readonly<Record<string, readonly [status: number, body: unknown]>>;

/** Asks a server that answers so, and 404 to anything else; tells what came of it, and what was asked. */
async function ask<T>(answers: Answers, question: (connection: ReturnType<typeof connectTo>) => Promise<T>) {
  await using server = await ScriptedServer.start(({ url }, response) =>
    json(response, ...(answers[url.split('?')[0] ?? ''] ?? [404, { detail: 'Not Found' }]), {
      location: 'http://else/',
    }),
  );
  await using connection = connectTo(server.url, { patience: 600 });
  const end = await question(connection).catch((error: Error) => error);
  return { end, url: server.url, asked: server.received.map(({ url }) => url.split('?')[0]).sort() };
}

describe('the terms of a server', () => {
  const limits = {
    max_jobs: 3,
    max_keep: 90_000,
    require_deidentified: true,
    uploads: { keep: 60 },
    max_file_size: 5,
  };

  test('The terms of a server apply to a submission', async () => {
    await using root = await temporary();
    await plant(root.path, { 'a.png': '\u0089PNG\r\n' });
    const view = { ...described, inputs: { A: { display_name: 'T1', volume_type: 'VOLUME' } } };
    const answers: Answers = { '/limits': [200, limits], '/repo_apps/x': [200, view] };
    const { end, asked, url } = await ask(answers, (connection) =>
      preflight(connection, submission('infer')),
    );
    expect(end).toMatchObject({
      ...{
        fields: { keep: '86400' },
        maxJobs: 3,
        knowsKeys: true,
        takesUploads: true,
        requiresDeidentified: true,
      },
    });
    expect(asked).toEqual(['/limits', '/repo_apps/x']);
    const terms = end as Awaited<ReturnType<typeof preflight>>;
    expect(() => terms.checkSizes([{ source: 'a.nii', size: 6 }])).toThrow(
      `'a.nii' takes 6 B to send, and ${url} takes files of at most 5 B`,
    );
    const [field] = operationOf('infer').fields.filter(({ role }) => role === 'paths');
    const unit = { kind: 'file', path: path.join(root.path, 'a.png'), name: 'a.png', isHalf: false };
    const volumes = (more: object) => [{ field, groups: [[{ ...unit, ...more }]] }] as never;
    expect(() => terms.checkKinds(volumes({}))).toThrow(
      "The app 'x' takes volumes as 'T1', and 'a.png' is a picture",
    );
    // Also where the server does not say its limits.
    const unlimited = await ask({ '/repo_apps/x': [200, view] }, (each) =>
      preflight(each, submission('infer')),
    );
    expect(() => (unlimited.end as typeof terms).checkKinds(volumes({}))).toThrow("'a.png' is a picture");
    // Of voxels, their header says what they are.
    terms.checkKinds(volumes({ isHalf: true }));
    const sparse = await ask({ '/limits': [200, {}] }, (connection) =>
      preflight(connection, submission('infer')),
    );
    expect(sparse.end).toMatchObject({
      ...{ fields: {}, maxJobs: null, knowsKeys: true, takesUploads: false, requiresDeidentified: null },
    });
    const none = await ask({}, (connection) => preflight(connection, submission('infer')));
    expect(none.end).toMatchObject({
      ...{ fields: {}, maxJobs: null, knowsKeys: false, takesUploads: false, requiresDeidentified: null },
    });
  });

  test('A failure to read the terms of a server ends a submission only if the submission would fail as well', async () => {
    const of = async (status: number) =>
      (
        await ask({ '/limits': [status, { detail: 'So it is' }] }, (each) =>
          preflight(each, submission('infer')),
        )
      ).end;
    for (const status of [404, 429, 500, 503]) expect(await of(status)).toMatchObject({ knowsKeys: false });
    for (const status of [301, 401, 403]) expect(await of(status)).toMatchObject({ status });
    await using silent = await ScriptedServer.start(() => {});
    await using slow = connectTo(silent.url, { readTimeout: 0.05 });
    expect(await preflight(slow, submission('infer'))).toMatchObject({ knowsKeys: false });
    const stopped = new Interrupted('SIGINT');
    await using connection = connectTo('http://127.0.0.1:1', { signal: AbortSignal.abort(stopped) });
    await expect(preflight(connection, submission('infer'))).rejects.toBe(stopped);
    await using away = connectTo('http://127.0.0.1:1');
    await expect(preflight(away, submission('infer'))).rejects.toMatchObject({ fault: 'unreached' });
  });
});
