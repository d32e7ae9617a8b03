import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { listJobs } from '../../support/api.mjs';
import { remoteApp } from '../../support/client.mjs';
import { FaultyProxy, faultKinds } from '../../support/proxy.mjs';
import { until } from '../../support/until.mjs';

/** A client sends a submission at most four times, so the network may break three of them. */
const mostInUploads = 3;
const mostAfterwards = 4;

/** Faults of successive connections: early ones in the upload or its answer, later ones in logs and the download. */
function plan(random) {
  const fault = (direction, after) => ({
    kind: random.pick(faultKinds),
    direction,
    after,
    pause: random.integer(50, 1200),
  });
  const inUploads = Array.from({ length: random.integer(0, mostInUploads) }, () =>
    random.chance(0.7) ? fault('up', random.integer(0, 200_000)) : fault('down', random.integer(0, 400)),
  );
  const afterwards = Array.from({ length: random.integer(1, mostAfterwards) }, () =>
    fault('down', random.pick([random.integer(0, 1500), random.integer(1500, 400_000)])),
  );
  return [...inUploads, ...afterwards];
}

/** One `remote-app infer` over a network that breaks: its output and result are as without faults. */
export async function inferThroughFaults(context, server, { deaths = 0 } = {}) {
  const { random } = context;
  const proxy = await FaultyProxy.open(() => server.url);
  const nonce = random.word(12);
  const directory = path.join(context.scratch, nonce);
  const witness = path.join(context.scratch, `${nonce}.witness`);
  mkdirSync(directory);
  const scan = random.bytes(random.integer(1, 300_000));
  writeFileSync(path.join(directory, 'scan.bin'), scan);
  proxy.faults = plan(random);
  const planned = proxy.faults.length;
  const faults = JSON.stringify(proxy.faults);
  const lines = random.integer(5, 60);
  const settings = { witness, nonce, lines, pause: '0.02', noise: 300 };
  const set = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const words = [
    'infer',
    path.join(directory, 'scan.bin'),
    ...set,
    '--output',
    path.join(directory, 'Output'),
  ];
  try {
    const running = remoteApp(context, words, { url: proxy.url });
    for (let death = 0; death < deaths; death += 1) {
      const isAccepted = async () => (await listJobs(server)).some(({ status }) => status === 'running');
      await until('the job runs', isAccepted).catch(() => {});
      await delay(random.integer(0, 300));
      await server.kill();
      await server.start();
      context.count('deaths of the server under a client');
    }
    const { code, stdout, stderr } = await running;
    const where = `infer ${nonce} through ${faults}`;
    context.check(code === 0, `${where} ended with ${code}: ${stderr.slice(-600)}`);
    const own = stdout.split('\n').filter((line) => line.startsWith('line '));
    const expected = Array.from({ length: lines }, (_, at) => `line ${at + 1} of ${lines}`);
    context.check(
      own.join() === expected.join(),
      `${where} lacks or repeats a log line: ${own.length} of ${lines}`,
    );
    const starts = readFileSync(witness, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith(` ${nonce}`));
    context.check(starts.length === 2, `${where} made ${starts.length / 2} jobs`);
    if (code === 0) {
      const answer = readFileSync(path.join(directory, 'Output', 'answer'));
      context.check(answer.equals(scan), `${where} brought another result`);
    }
  } catch (cause) {
    context.violation(`infer ${nonce} through ${faults}: ${cause.message}`);
  } finally {
    context.count('infer through a broken network');
    context.count('  connections broken', proxy.happened);
    context.count('  connections spared', planned - proxy.happened);
    await proxy.close();
  }
}
