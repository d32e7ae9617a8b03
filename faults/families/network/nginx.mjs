import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { remoteApp } from '../../support/client.mjs';
import { hasNginx, startNginx } from '../../support/nginx.mjs';
import { Server } from '../../support/server.mjs';

/** Longer than a stock nginx waits for bytes of the server, in milliseconds. */
const longSilence = 65_000;

/**
 * Through a stock nginx with TLS and a path prefix, log lines arrive as they are printed: each line is printed
 * only when the one before it has arrived, so that a proxy which gathers them would never end.
 */
async function followLines(context, nginx, { lines, silence }) {
  const nonce = context.random.word();
  const scan = path.join(context.scratch, `${nonce}.nii`);
  const gate = path.join(context.scratch, `${nonce}.gate`);
  writeFileSync(scan, nonce);
  writeFileSync(`${gate}1`, '');
  let seen = 0;
  const onLine = async (stdout) => {
    const arrived = stdout.split('\n').filter((line) => line.startsWith('line ')).length;
    if (arrived === seen) return;
    seen = arrived;
    context.count('lines through nginx');
    if (seen === 1) await delay(silence);
    writeFileSync(`${gate}${arrived + 1}`, '');
  };
  const set = ['--set', `lines=${lines}`, '--set', `gate=${gate}`];
  const words = ['infer', scan, ...set, '--output', path.join(context.scratch, `${nonce}-output`)];
  const environment = { NODE_EXTRA_CA_CERTS: nginx.certificate };
  const { code, stderr } = await remoteApp(context, words, { url: nginx.url, environment, onLine });
  context.check(
    code === 0 && seen === lines,
    `infer through nginx: ${code}, ${seen} of ${lines} lines: ${stderr}`,
  );
  const drops = /trying again/.test(stderr);
  context.check(!drops, `nginx cut a log stream of ${silence} ms of silence: ${stderr}`);
}

export async function throughNginx(context) {
  if (!hasNginx()) {
    context.note('LEFT OUT: nginx or openssl is not installed (apt-get install nginx openssl)');
    return;
  }
  // Its own server, because the others are killed while clients use them.
  const server = await new Server(context, { flags: ['--cpu-slots', '2'] }).start();
  const nginx = await startNginx(context, server.url);
  try {
    const long = context.rounds >= 10 ? [{ lines: 2, silence: longSilence }] : [];
    const all = [{ lines: 20, silence: 0 }, ...long];
    await Promise.all(all.map((each) => followLines(context, nginx, each)));
  } finally {
    await nginx.close();
    await server.close();
  }
}
