import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { shellApp } from '../support/apps.mjs';
import { remoteApp } from '../support/command.mjs';
import { emptyFile, GiB, MiB } from '../support/data.mjs';
import { plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory, resetPeak, residentMemory } from '../support/usage.mjs';

/**
 * Hands its input back as its result. A name that ends in .gz tells the service not to deflate it: what is packed,
 * sent and extracted is then as large as what was uploaded.
 */
const back = `for file in "$(dirname "$input")"/*; do mv "$file" "$output/$(basename "$file").gz"; done`;

/** Three files: 2 GiB is the most that one may have, 6 GiB the most that an upload may. */
async function transfer({ workshop }, server, bytes) {
  const files = await Promise.all([1, 2, 3].map((part) => emptyFile(workshop, Math.floor(bytes / 3), part)));
  const target = await workshop.directory('result');
  const at = ['--server', server.url];
  const before = cpuSeconds(server.pid);
  resetPeak(server.pid);
  const upload = await remoteApp(workshop, ['infer', '--detach', '--cpu', '1', ...at, ...files], {
    memory: true,
  });
  const id = upload.stdout.trim();
  const serverPeak = peakMemory(server.pid);
  const serverCpu = cpuSeconds(server.pid) - before;
  await server.ended(id);
  const result = await remoteApp(workshop, ['result', id, '--output', target, ...at], { memory: true });
  const wholePeak = peakMemory(server.pid);
  await rm(target, { recursive: true });
  return { upload, result, serverPeak, serverCpu, wholePeak };
}

/** One transfer gives three rows. A peak hardly varies, so it is measured once: that already moves 36 GiB. */
async function measureAll(bench) {
  const { workshop } = bench;
  const bytes = 6 * GiB;
  await workshop.needs(4.2 * bytes);
  const app = await shellApp(workshop, 'back', back);
  // A detached job asks for more than the grace, as much as the server allows.
  const flags = ['--grace', '1', '--max-keep', '0'];
  const server = await Server.start(workshop, { apps: [app], flags });
  try {
    await delay(1000);
    const idle = residentMemory(server.pid);
    const small = await transfer(bench, server, MiB);
    const large = await transfer(bench, server, bytes);
    await server.emptied();
    return { idle, small, large };
  } finally {
    await server.stop();
  }
}

const row = (name, what, yardstick, reach, read) => ({
  name: `memory-${name}`,
  what,
  yardstick,
  unit: 'MiB',
  reach: plus(reach, 'MiB'),
  measure: async (bench) => read(await bench.workshop.once('transfer', () => measureAll(bench))),
});

const client =
  (part) =>
  ({ small, large }) => ({
    figure: large[part].memory,
    yardstick: small[part].memory,
    cpu: [large[part].cpu, small[part].cpu],
    note: `${large[part].seconds.toFixed(0)} s`,
  });

export const rows = [
  row('server-upload', 'server memory, 6 GiB upload', 'its own, idle', 96, ({ idle, large }) => ({
    figure: large.serverPeak,
    yardstick: idle,
    cpu: [large.serverCpu],
    note: `${large.wholePeak.toFixed(0)} MiB with the packing and the sending of the result`,
  })),
  row('client-upload', 'client memory, 6 GiB upload', 'its own at 1 MiB', 96, client('upload')),
  row('client-result', 'client memory, 6 GiB result', 'its own at 1 MiB', 96, client('result')),
];
