import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { ConnectionOptions } from '../../../src/client/connection/connection.js';
import type { Reporter } from '../../../src/client/reporter.js';
import { stage, submit } from '../../../src/client/submit/index.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { filesBelow } from '../../../src/files/index.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import type { Play } from '../../support/scripted-executor.js';
import type { TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { WireTap } from '../../support/wire-tap.js';
import { connectTo, memoryReporter } from './connect.js';
import { outgoing } from './outgoing.js';
import { unknownTerms } from './terms.js';

const terms = { ...unknownTerms, takesUploads: true, knowsKeys: true };
const operation = operationOf('infer');

interface How extends Partial<ConnectionOptions> {
  /** De-identifies with the key that is kept in this directory. */
  readonly keyIn?: string;
  readonly progress?: Reporter['progress'];
}

/** Sends groups of files as one job, by uploads. Resolves with its id, and what was told. */
export async function send(
  server: string,
  groups: readonly (readonly string[])[],
  { keyIn, progress, ...options }: How = {},
) {
  await using connection = connectTo(server, { readTimeout: 60, ...options });
  const files = [{ field: fieldWithRole(operation, 'paths'), groups }];
  const submission = { operation, app: 'probe', fields: { cpu: '1' }, options: {}, files, archive: null };
  const found = await findFiles(submission);
  const leaving = keyIn === undefined ? null : (await outgoing(keyIn))(found);
  const reporter = memoryReporter();
  const told = progress ? { ...reporter, progress } : reporter;
  await using staged = await stage({ submission, found, terms, outgoing: leaving }, told, options.signal);
  // A server that has answered before is waited for.
  await (await connection.send('/health')).body.dump();
  const { job_id: id } = await submit(connection, submission, staged, told);
  return { id, reporter };
}

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** What a job does whose inputs stay: nothing, until it is killed. */
export const idle: Play = ({ signal }) =>
  new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));

/** The files of a job on the server as its app gets them, with the digests of their contents. */
export async function inputsOf(server: TestServer, id: string): Promise<Record<string, string>> {
  const directory = server.jobDirectory(id);
  await until('the job has files of its own', () => !existsSync(path.join(directory, 'links.json')));
  const root = path.join(directory, 'Input');
  const files = filesBelow(root).map((each) => path.join(each.parentPath, each.name));
  return Object.fromEntries(
    files.map((file) => [path.relative(root, file), sha256(readFileSync(file))] as const).sort(),
  );
}

/** A directory with files, and a way to a server that counts what is sent. */
export async function machine(url: string, files: Readonly<Record<string, Buffer>>) {
  const root = await temporary();
  await plant(root.path, files);
  const tap = await WireTap.before(url);
  return {
    tap,
    at: (...parts: string[]) => path.join(root.path, ...parts),
    async [Symbol.asyncDispose]() {
      await tap[Symbol.asyncDispose]();
      await root[Symbol.asyncDispose]();
    },
  };
}
