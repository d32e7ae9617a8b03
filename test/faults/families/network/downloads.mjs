import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { unzip } from '../../../support/unzip.mjs';
import { ended, request, steps, submit } from '../../support/api.mjs';
import { remoteApp } from '../../support/client.mjs';
import { FaultyProxy } from '../../support/proxy.mjs';

const checksum = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Pieces of a result by `Range`, put together, are the result. */
async function byRanges(context, server, id, whole, tag) {
  const { random } = context;
  const pieces = [];
  for (let at = 0; at < whole.length; ) {
    const end = Math.min(whole.length, at + random.integer(1, Math.ceil(whole.length / 3))) - 1;
    const headers = { range: `bytes=${at}-${end}`, 'if-range': tag };
    const answer = await request(server, `/jobs/${id}/result`, { headers });
    context.check(answer.status === 206, `A range of the result of ${id} answered ${answer.status}`);
    pieces.push(answer.bytes);
    at = end + 1;
    context.count('ranges of a download');
  }
  context.check(
    checksum(Buffer.concat(pieces)) === checksum(whole),
    `The ranges of ${id} are not its result`,
  );
}

/** `remote-app result` continues where it was over a network that cuts it repeatedly. */
async function byClient(context, server, id, whole) {
  const { random } = context;
  const proxy = await FaultyProxy.open(() => server.url);
  const cut = () => ({
    kind: random.pick(['cut', 'reset']),
    direction: 'down',
    after: random.integer(1000, 900_000),
    pause: 0,
  });
  proxy.faults = Array.from({ length: 4 }, cut);
  const output = path.join(context.scratch, `result-${context.serial()}`);
  try {
    const { code, stderr } = await remoteApp(context, ['result', id, '--output', output], { url: proxy.url });
    context.check(code === 0, `remote-app result through cuts ended with ${code}: ${stderr.slice(-500)}`);
    context.count('downloads cut in the middle', proxy.happened);
    if (code !== 0) return;
    const saved = readFileSync(path.join(output, 'result.zip'));
    context.check(checksum(saved) === checksum(whole), `The resumed download of ${id} is not its result`);
  } finally {
    await proxy.close();
  }
}

export async function downloadByRanges(context, server) {
  const form = { inputs: file('scan.nii', 'here'), options: steps({ lines: 1, noise: 2000 }) };
  const id = await submit(server, 'witness', 'infer', form);
  await ended(server, id);
  const { bytes: whole, headers } = await request(server, `/jobs/${id}/result`);
  unzip(whole);
  await byRanges(context, server, id, whole, headers.get('etag'));
  await byClient(context, server, id, whole);
}
