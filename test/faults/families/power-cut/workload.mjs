import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import {
  appendUpload,
  beginUpload,
  ended,
  job,
  kill,
  request,
  steps,
  submit,
  tus,
} from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';
import { tracer } from './trace.mjs';

/** Runs a small workload under strace. Returns the jobs by id, the trace and where the data lay. */
export async function recordWorkload(context) {
  const { random } = context;
  const trace = path.join(context.scratch, `trace-${context.serial()}`);
  const witness = path.join(context.scratch, 'witness');
  const gate = path.join(context.scratch, 'gate-');
  const data = path.join(context.scratch, `cut-${String(context.serial()).padStart(6, '0')}`);
  const server = await new Server(context, {
    dataDirectory: data,
    launcher: tracer(trace),
    environment: { UV_USE_IO_URING: '0' },
    flags: ['--cpu-slots', '2', '--grace', '600'],
  }).start();
  const jobs = new Map();
  const add = async (fate, settings = {}) => {
    const content = `${fate} ${random.word(random.integer(20, 3000))}`;
    const noise = random.integer(0, 30);
    const options = steps({ witness, nonce: 'any', lines: 2, noise, ...settings });
    const id = await submit(server, 'witness', 'infer', {
      inputs: file('scan.nii', content),
      options,
      cpu: '1',
    });
    jobs.set(id, { id, fate, content, noise });
    return id;
  };
  const uploads = new Map();
  /** Sends an upload in two pieces. The last request is answered with all of it that is there. */
  const upload = async () => {
    const content = Buffer.from(random.word(random.integer(20, 30_000)));
    const name = createHash('sha256').update(content).digest('hex');
    uploads.set(name, content);
    const half = random.integer(1, content.length - 1);
    await beginUpload(server, name, content.length, content.subarray(0, half));
    await appendUpload(server, name, half, content.subarray(half));
    await beginUpload(server, name, content.length);
    return name;
  };
  try {
    const [kept] = [await upload(), await upload()];
    await request(server, `/uploads/${kept}`, { method: 'DELETE', headers: tus });
    uploads.delete(kept);
    const first = await add('done');
    const killed = await add('killed', { gate: `${gate}never` });
    await ended(server, first);
    await request(server, `/jobs/${first}/result`);
    const [slow, failed] = [await add('done', { gate }), await add('error', { code: 3 })];
    // Both slots are taken, so these wait, with only their uploads on the disk.
    const waiting = [await add('done'), await add('done')];
    await until('the one to be killed runs', async () => (await job(server, killed)).status === 'running');
    await kill(server, killed);
    await job(server, killed);
    for (const line of [1, 2]) writeFileSync(`${gate}${line}`, '');
    for (const id of random.shuffle([slow, failed, ...waiting])) await ended(server, id);
    for (const id of [slow, ...waiting]) await request(server, `/jobs/${id}/result`);
  } finally {
    await server.close();
  }
  return { jobs, uploads, trace, data };
}
