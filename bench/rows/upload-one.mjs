import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { curl, run } from '../support/command.mjs';
import { GiB, randomFile } from '../support/data.mjs';
import { interleave } from '../support/interleave.mjs';
import { NodeServer, startBare } from '../support/node-server.mjs';
import { times } from '../support/reach.mjs';
import { curlForm, receiving, withServer } from '../support/uploading.mjs';
import { peakMemory } from '../support/usage.mjs';

/** Uploads take between one and three seconds each, and a tenth of that is chance: a ratio near 1 needs many of them. */
const roundsPerRun = 3;

/** The protocol's two requests: the creation, which answers with an address, and the bytes. */
async function sendByTus(workshop, { url }, file, size) {
  const version = ['--header', 'Tus-Resumable: 1.0.0'];
  const create = ['--request', 'POST', '--header', `Upload-Length: ${size}`];
  const created = await curl(workshop, [...version, ...create, '--write-out', '%header{location}', url]);
  const patch = ['--request', 'PATCH', '--header', 'Upload-Offset: 0', '--upload-file', file];
  const type = ['--header', 'Content-Type: application/offset+octet-stream'];
  const sent = await curl(workshop, [...version, ...patch, ...type, created.stdout]);
  return { seconds: created.seconds + sent.seconds };
}

const filesIn = async (directory) => (await readdir(directory)).map((name) => path.join(directory, name));

/** An upload to the tus server, which syncs nothing, and how long a sync takes afterwards: `synced` is both. */
async function throughTus(workshop, server, file, size) {
  const sample = await receiving(server, () => sendByTus(workshop, server, file, size));
  const { seconds } = await run(workshop, 'sync', await filesIn(server.directory));
  await server.emptied();
  return { ...sample, synced: sample.seconds + seconds };
}

/** Uploads to our server and to the two others in turns. Resolves with figures for each of them. */
async function byTurns({ workshop, rounds }) {
  const file = await randomFile(workshop, GiB);
  const form = await curlForm(workshop, [file]);
  const bare = await startBare(workshop);
  const tus = await NodeServer.start(workshop, 'tus-server');
  const { size } = await stat(file);
  try {
    return await withServer(workshop, 0, async (server, settle) => {
      const medians = await interleave(rounds * roundsPerRun, {
        ours: async () => {
          const url = server.submitUrl('nothing');
          const sample = await receiving(server, () => curl(workshop, ['--config', form, url]));
          await settle();
          return sample;
        },
        bare: async () => {
          const sample = await receiving(bare, () => curl(workshop, ['--config', form, bare.url]));
          await bare.emptied();
          return sample;
        },
        tus: () => throughTus(workshop, tus, file, size),
      });
      const servers = { ours: server, bare, tus };
      return Object.fromEntries(
        Object.entries(medians).map(([name, each]) => [
          name,
          { ...each, memory: peakMemory(servers[name].pid) },
        ]),
      );
    });
  } finally {
    await Promise.all([bare.stop(), tus.stop()]);
  }
}

/** What all rows of one upload are taken from. */
const oneMeasurement = (bench) => bench.workshop.once('upload-one', () => byTurns(bench));

/** Our upload against another server. The note says what one that syncs nothing would take with a sync. */
const against = (rival) => async (bench) => {
  const { ours, [rival]: other } = await oneMeasurement(bench);
  const ratio = (ours.seconds / other.synced).toFixed(2);
  return {
    figure: ours.seconds,
    yardstick: other.seconds,
    cpu: [ours.cpu, other.cpu],
    memory: [ours.memory, other.memory],
    ...(other.synced ? { note: `${other.synced.toFixed(2)} s with a sync behind it, ratio ${ratio}` } : {}),
  };
};

const row = (name, yardstick, reach, rival) => ({
  name,
  what: 'upload 1 GiB in one file, by curl',
  yardstick,
  unit: 's',
  reach,
  measure: against(rival),
});

export const rows = [
  row('upload-one', 'curl, the same bytes to a bare Node server', times(1.3), 'bare'),
  row('upload-one-tus', 'curl to @tus/server, one PATCH, which syncs nothing', times(1.2), 'tus'),
];
