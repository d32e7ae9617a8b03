import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { curl, remoteApp } from '../support/command.mjs';
import { GiB, randomFile, randomFiles } from '../support/data.mjs';
import { submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { startBare } from '../support/node-server.mjs';
import { nothing, times } from '../support/reach.mjs';
import { curlForm, receiving, withServer } from '../support/uploading.mjs';
import { peakMemory } from '../support/usage.mjs';

const fileSize = 256 * 1024;

/**
 * What is uploaded: one file, or many. `grace` is how long the server keeps it: one file leaves the disk before
 * the next comes; many stay until the end of the row, for removing them would slow down the next (see Workshop).
 */
const oneFile = {
  what: 'upload 1 GiB in one file',
  grace: 0,
  make: async ({ workshop }) => [await randomFile(workshop, GiB)],
};
const manyFiles = {
  what: 'upload 2,000 files of 256 KiB',
  grace: 86_400,
  make: async ({ workshop }) => {
    const directory = await randomFiles(workshop, 2000, fileSize);
    return (await readdir(directory)).sort().map((name) => path.join(directory, name));
  },
};

/**
 * curl sends the same form to both, byte for byte: the bare server writes it as it comes. The bare server keeps its file as
 * long as ours does: memory that was free a moment ago is quicker to write to than other memory.
 */
async function curlAgainstBare(bench, content) {
  const { workshop, rounds } = bench;
  const form = await curlForm(workshop, await content.make(bench));
  const bare = await startBare(workshop);
  try {
    return await withServer(workshop, content.grace, async (server, settle) => {
      const sides = {
        figure: async () => {
          const url = server.submitUrl('nothing');
          const sample = await receiving(server, () => curl(workshop, ['--config', form, url]));
          await settle();
          return sample;
        },
        yardstick: () => receiving(bare, () => curl(workshop, ['--config', form, bare.url])),
      };
      const { figure, yardstick } = await interleave(2 * rounds, sides);
      return {
        figure: figure.seconds,
        yardstick: yardstick.seconds,
        cpu: [figure.cpu, yardstick.cpu],
        memory: [peakMemory(server.pid), peakMemory(bare.pid)],
      };
    });
  } finally {
    await bare.stop();
  }
}

/** Our client and curl by turns, to our server. The whole of each command counts, its start too. */
async function clientAgainstCurl(bench, content) {
  const { workshop, rounds } = bench;
  const files = await content.make(bench);
  const form = await curlForm(workshop, files);
  const source = files.length > 1 ? path.dirname(files[0]) : files[0];
  return withServer(workshop, content.grace, async (server, settle) => {
    // The app is named, as in curl's URL.
    const client = ['infer', '--detach', '--app', 'nothing', '--cpu', '1', '--server', server.url, source];
    const settled = async (sending) => {
      const sample = await sending;
      await settle();
      return sample;
    };
    const sides = {
      figure: () => settled(remoteApp(workshop, client)),
      yardstick: () => settled(curl(workshop, ['--config', form, server.submitUrl('nothing')])),
    };
    await submit(server, 'nothing');
    // A second each, most of it the server's, which differs by a tenth: a ratio near 1 needs many of them.
    const { figure, yardstick } = await interleave(5 * rounds, sides);
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
    };
  });
}

const row = (name, content, sender, yardstick, reach, measure) => ({
  name,
  what: `${content.what}, by ${sender}`,
  yardstick,
  unit: 's',
  reach,
  measure: (bench) => measure(bench, content),
});

const bareServer = 'curl, the same bytes to a bare Node server';
const ownServer = 'curl to our server';

export const rows = [
  row('upload-many', manyFiles, 'curl', bareServer, times(2), curlAgainstBare),
  row('upload-one-client', oneFile, 'our client', ownServer, nothing, clientAgainstCurl),
  row('upload-many-client', manyFiles, 'our client', ownServer, nothing, clientAgainstCurl),
];
