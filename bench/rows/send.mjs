import { randomBytes } from 'node:crypto';
import { open, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { shellApp } from '../support/apps.mjs';
import { remoteApp } from '../support/command.mjs';
import { GiB, randomFile } from '../support/data.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost, times } from '../support/reach.mjs';
import { writeSeries } from '../support/scans.mjs';
import { Server } from '../support/server.mjs';

const slices = 5000;
/** Pixels of a row and of a column: the series has 0.6 GiB, and counts for its files. */
const side = 256;

const contents = {
  one: {
    what: '1 GiB in one file',
    make: (workshop) => randomFile(workshop, GiB),
  },
  series: {
    what: `a series of ${slices} slices of ${side} x ${side}`,
    make: async (workshop) => {
      const series = await workshop.directory('series');
      await writeSeries(series, slices, side);
      return series;
    },
  },
};

/** Runs `measure` with what sends a source to a server, whose job is gone before the next. */
async function withSender(workshop, flags, measure) {
  const app = await shellApp(workshop, 'nothing', ':');
  const server = await Server.start(workshop, {
    apps: [app],
    flags: ['--grace', '0', '--max-keep', '0', ...flags],
  });
  const words = ['infer', '--detach', '--app', 'nothing', '--cpu', '1', '--server', server.url];
  try {
    return await measure(async (...more) => {
      const sample = await remoteApp(workshop, [...words, ...more]);
      await server.emptied();
      return sample;
    });
  } finally {
    await server.stop();
    await rm(server.dataDirectory, { recursive: true });
  }
}

/** Changes the last bytes of a file, or of one slice of a series: its content is then new to every server. */
async function renew(source) {
  const isSeries = (await stat(source)).isDirectory();
  const name = isSeries ? path.join(source, (await readdir(source)).sort()[0]) : source;
  const file = await open(name, 'r+');
  await file.write(randomBytes(8), 0, 8, (await file.stat()).size - 8);
  await file.close();
}

/** Uploads against forms, by the same client. The server has none of the files yet. */
async function measureFirst({ workshop, rounds }, content) {
  const source = await content.make(workshop);
  const renewed = async (send) => {
    await renew(source);
    return send(source);
  };
  return withSender(workshop, [], (asUploads) =>
    withSender(workshop, ['--keep-uploads', '0'], async (asForm) => {
      const { figure, yardstick } = await interleave(rounds, {
        figure: () => renewed(asUploads),
        yardstick: () => renewed(asForm),
      });
      return {
        figure: figure.seconds,
        yardstick: yardstick.seconds,
        cpu: [figure.cpu, yardstick.cpu],
      };
    }),
  );
}

/** The same command again. */
async function measureAgain({ workshop, rounds }, content) {
  const source = await content.make(workshop);
  return withSender(workshop, [], async (asUploads) => {
    await asUploads(source);
    const { figure } = await interleave(rounds, { figure: () => asUploads(source) });
    return { figure: figure.seconds, cpu: [figure.cpu] };
  });
}

const rowsOf = (name, content) => [
  {
    name: `send-${name}`,
    what: `send ${content.what} as uploads, the whole command, its hashes too`,
    yardstick: 'the same as a form',
    unit: 's',
    reach: times(1.15),
    measure: (bench) => measureFirst(bench, content),
  },
  {
    name: `send-${name}-again`,
    what: `the same command a second time`,
    yardstick: '-',
    unit: 's',
    reach: atMost(5, 's'),
    measure: (bench) => measureAgain(bench, content),
  },
];

export const rows = Object.entries(contents).flatMap(([name, content]) => rowsOf(name, content));
