import { execFile as execFileWithCallback } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { remoteApp } from '../../support/client.mjs';
import { hasNginx, startNginx } from '../../support/nginx.mjs';
import { Server } from '../../support/server.mjs';

const execFile = promisify(execFileWithCallback);

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

/**
 * A large upload that is refused while it comes: the answer arrives, also through a proxy that writes on at full speed and
 * asks for a connection for each request.
 */
async function refuseLarge(context, nginx) {
  const form = path.join(context.scratch, `${context.random.word()}.form`);
  writeFileSync(form, Buffer.alloc(64 * 1024 * 1024));
  const url = new URL('/unbuffered/apps/no-such-app/infer', nginx.url).href;
  // Without `Expect`, which nginx would answer by itself.
  const words = [
    '-sk',
    '-o',
    '/dev/null',
    '-w',
    '%{http_code}',
    '-H',
    'Expect:',
    '-T',
    form,
    '-X',
    'POST',
    url,
  ];
  for (let count = 0; count < 3; count += 1) {
    const { stdout } = await execFile('curl', words, { timeout: 60_000 }).catch((error) => error);
    context.count('refusals through nginx');
    context.check(stdout === '404', `A large upload to no app was answered ${stdout} through nginx`);
  }
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
    await context.attempt('A large upload that is refused', () => refuseLarge(context, nginx));
  } finally {
    await nginx.close();
    await server.close();
  }
}
