import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { file, formOf } from '../../../support/form.mjs';
import { zip } from '../../../support/zip.mjs';
import { checkDirectories } from '../../invariants.mjs';
import { kill, request, steps } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { hostileArchives } from './archives.mjs';

const mebibyte = 2 ** 20;
/** What an upload may extract to: ten times the largest upload, which is 2 MiB here. */
const limit = 20 * mebibyte;

const escaped = () => ['/tmp/remote-app-escaped', '/tmp/escaped'].filter((each) => existsSync(each));

/** All entries under a directory, from which jobs that end remove some meanwhile. */
function entriesOf(directory) {
  for (;;) {
    try {
      return readdirSync(directory, { recursive: true, withFileTypes: true });
    } catch (cause) {
      if (cause.code !== 'ENOENT' || !existsSync(directory)) throw cause;
    }
  }
}

/** Bytes of all files under a directory. */
function sizeOf(directory) {
  const entries = entriesOf(directory);
  const size = (entry) =>
    statSync(path.join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  return entries.filter((entry) => entry.isFile()).reduce((sum, entry) => sum + size(entry), 0);
}

/** Sends a form; returns the answer, and the most bytes on the disk meanwhile. */
async function send(server, operation, form) {
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, sizeOf(server.jobsDirectory));
  }, 20);
  const sent = request(server, `/apps/witness/${operation}`, { method: 'POST', body: formOf(form) });
  const answer = await sent.finally(() => clearInterval(timer));
  return { ...answer, most };
}

async function refused(context, server, what, operation, form) {
  const uploaded = Object.values(form)
    .flat()
    .reduce((sum, { size }) => sum + size, 0);
  const before = sizeOf(server.jobsDirectory) + uploaded;
  const { status, text, most } = await send(server, operation, form);
  context.count('hostile archives uploaded');
  const isRefused = [400, 413, 422].includes(status);
  context.check(
    isRefused,
    `An upload with ${what} (${operation}) was answered with ${status}: ${text.slice(0, 200)}`,
  );
  const grown = (most - before) / mebibyte;
  context.check(
    grown <= limit / mebibyte + 1,
    `An upload with ${what} (${operation}) took ${grown.toFixed(0)} MiB of disk`,
  );
  if (status === 200) await kill(server, JSON.parse(text).job_id);
  context.check(escaped().length === 0, `An upload with ${what} (${operation}) wrote ${escaped()}`);
}

/** Each archive as a data set and as a directory volume. */
export async function hostileUploads(context, server) {
  for (const [what, given] of Object.entries(hostileArchives(limit))) {
    if (what === 'a million entries') continue;
    const forms = {
      fine_tune: { dataset: file('data.zip', given) },
      infer: { inputs: file('scan.konfaidir.zip', given) },
    };
    for (const [operation, form] of Object.entries(forms)) {
      await context.attempt(`An upload with ${what}`, () => refused(context, server, what, operation, form));
    }
  }
  await context.attempt('Many archives in one upload', () => {
    const each = zip([{ name: 'zeros', content: Buffer.alloc(limit - mebibyte), deflated: true }]);
    const inputs = Array.from({ length: 8 }, (_, at) => file(`volume-${at}.konfaidir.zip`, each));
    return refused(context, server, 'eight volumes that are each within the limit', 'infer', { inputs });
  });
  await context.attempt('Names that cannot grow', async () => {
    const inputs = [file(`${'n'.repeat(251)}.nii`), file(`${'n'.repeat(251)}.nii`)];
    // Its inputs go when it ends, so it waits to be killed.
    const { status, text } = await send(server, 'infer', { inputs, options: steps({ pause: '600' }) });
    const id = status === 200 ? JSON.parse(text).job_id : null;
    const names = id === null ? [] : readdirSync(path.join(server.jobsDirectory, id, 'Input/inputs/g0'));
    context.check(
      names.length === 2,
      `Two files of one name of 255 bytes became ${names.length} (${status})`,
    );
    if (id !== null) await kill(server, id);
  });
  await checkDirectories(context, server);
  await context.attempt('A million entries', async () => {
    const roomy = await new Server(context, { flags: ['--max-jobs', '4'] }).start();
    const archive = hostileArchives(limit)['a million entries']();
    try {
      await refused(context, roomy, 'a million entries', 'fine_tune', {
        dataset: file('data.zip', archive),
      }).catch((cause) => context.violation(`An upload with a million entries: ${cause.message}`));
      await checkDirectories(context, roomy);
    } finally {
      await roomy.close();
    }
  });
}
