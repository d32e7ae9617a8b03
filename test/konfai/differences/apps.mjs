import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { unzip } from '../../support/unzip.mjs';
import { doing, logOf, reaches, submit } from '../jobs.mjs';

export const apps = [
  {
    what: 'Values of `--apps`',
    theirs: 'a JSON file `{"apps": [...]}`',
    ours: 'the same file, and also app directories, directories of apps and repository ids; repeatable',
    verdict: 'better',
    probe: async ({ server, app }) =>
      String((await (await server.fetch('/repo_apps_list')).json()).apps[0] === app),
    seen: ['true', 'true'],
  },
  {
    what: 'An app with broken files',
    theirs: '`"available": false`',
    ours: '`"available": false`, and a `reason` that names the field',
    verdict: 'better',
    probe: async ({ server, brokenApp }) => {
      const { available, reason } = await (await server.fetch(`/repo_apps/${brokenApp}`)).json();
      return `${available} ${/short_description/.test(reason)}`;
    },
    seen: ['false false', 'false true'],
  },
  {
    what: 'Keys of `app.json` that the service does not use (`task`, `parameters`, `vram_plan`)',
    theirs: 'not returned',
    ours: 'returned by `/repo_apps/{app}`; `remote-app apps APP` shows them',
    verdict: 'better',
    probe: async ({ server, app }) =>
      String('task' in (await (await server.fetch(`/repo_apps/${app}`)).json())),
    seen: ['false', 'true'],
  },
  {
    what: 'Configuration files in sub-folders (`/repo_apps_config/{app}`)',
    theirs: 'all at the top of the archive',
    ours: 'at the top of the archive, and also in their folders; hidden files and `__pycache__` are left out',
    verdict: 'better',
    probe: async ({ server, app }) => {
      await mkdir(path.join(app, 'more'), { recursive: true });
      await writeFile(path.join(app, 'more', 'extra.yml'), 'a: 1\n');
      const response = await server.fetch(`/repo_apps_config/${app}`);
      const names = [...unzip(Buffer.from(await response.arrayBuffer())).keys()];
      await rm(path.join(app, 'more'), { recursive: true });
      return names
        .filter((name) => name.includes('extra'))
        .sort()
        .join(' ');
    },
    seen: ['extra.yml', 'extra.yml more/extra.yml'],
  },
  {
    what: 'Files left behind when a client asks for the configuration of an app in a directory',
    theirs: '`APP_configs` and `APP_configs.zip` beside the app',
    ours: 'none',
    verdict: 'better',
    probe: async ({ server, app }) => {
      await rm(`${app}_configs`, { recursive: true, force: true });
      await (await server.fetch(`/repo_apps_config/${app}`)).arrayBuffer();
      return String(existsSync(`${app}_configs`));
    },
    seen: ['true', 'false'],
  },
];

/** The log of a job that is to look for a file. */
async function logOfLooking({ server, app }, file) {
  const id = await submit(server, app, doing(`SEES=${file}`));
  await reaches(server, id, 'done');
  return logOf(server, id);
}

export const servers = [
  {
    what: 'What a job can see of the machine',
    theirs: 'everything that the user of the server can see, and the network',
    ours: 'with bubblewrap installed, only the system, its app, its own files and its own GPUs; `--bind` and `--network APP` add to this ([sandbox.md](sandbox.md#what-a-job-sees))',
    verdict: 'better',
    probe: async (context) => {
      const log = await logOfLooking(context, `${context.brokenApp}/app.json`);
      if (log[0].startsWith('[remote-app]') && !log.some((line) => line.includes('in a sandbox')))
        return null;
      return log.find((line) => line.startsWith('file: '));
    },
    seen: ['file: seen', 'file: not seen'],
  },
  {
    what: "The server's token in the environment of jobs",
    theirs: 'yes',
    ours: 'no, and no other variable whose name suggests a secret',
    verdict: 'better',
    probe: async (context) => {
      const log = await logOfLooking(context, '/');
      return log.find((line) => line.startsWith('token in')).endsWith('yes') ? 'yes' : 'no';
    },
    seen: ['yes', 'no'],
  },
  {
    what: '`--auth bearer` without a token in the environment',
    theirs: 'does not start',
    ours: 'starts without a token, and says that it is open to all; `--auth required` does not start',
    verdict: 'purpose',
    why: 'the specification says so',
    probe: async ({ start }) => {
      const server = await start({ token: '', auth: 'bearer' }).catch(() => null);
      await server?.stop();
      return server === null ? 'ended' : 'listens';
    },
    seen: ['ended', 'listens'],
  },
  {
    what: 'The token',
    theirs: '`KONFAI_API_TOKEN`, or `--token`',
    ours: '`SERVICE_API_TOKEN`, `--token-env KONFAI_API_TOKEN` or `--token-file`; never on the command line, where all users of the machine can see it',
    verdict: 'purpose',
    why: 'the specification names the variable',
    probe: async ({ start }) => {
      const server = await start({ tokenVariable: 'KONFAI_API_TOKEN' });
      const statuses = [(await fetch(`${server.url}/health`)).status, (await server.fetch('/health')).status];
      await server.stop();
      return statuses.join(' ');
    },
    seen: ['401 200', '401 200'],
  },
  {
    what: 'A request from a page of another web site to a server without a token',
    theirs: 'answered',
    ours: 'refused with 403',
    verdict: 'better',
    probe: async ({ start }) => {
      const server = await start({ token: '' });
      const { status } = await fetch(`${server.url}/repo_apps_list`, {
        headers: { Origin: 'https://elsewhere.example', 'Sec-Fetch-Site': 'cross-site' },
      });
      await server.stop();
      return String(status);
    },
    seen: ['200', '403'],
  },
  {
    what: 'Limits: active jobs; bytes of a file, of an upload; log streams; seconds between keep-alives',
    theirs: '32; 2 GiB, 6 GiB; 200; 15',
    ours: '256, otherwise the same; flags of `serve` change all except the log streams',
    verdict: 'purpose',
    why: 'a cohort may be submitted at once',
    probe: async ({ limits }) => limits(),
    seen: ['32, 2GiB, 6GiB, 200, 15', '256, 2GiB, 6GiB, 200, 15'],
  },
  {
    what: 'Maximum extracted size of a data set for fine-tuning',
    theirs: '64 GiB; `KONFAI_APPS_MAX_DATASET_BYTES`',
    ours: 'the same as for any archive, ten times the largest upload; `--max-dataset-size 64GiB`',
    verdict: 'purpose',
    why: 'the specification bounds every upload',
    probe: async ({ datasetLimit }) => datasetLimit(),
    seen: ['64GiB', 'none'],
  },
  {
    what: '`/health`, `/available_devices`, `/ram`, `/vram`',
    theirs: 'as its clients expect them',
    ours: 'the same fields',
    verdict: 'same',
    probe: async ({ server }) => {
      const keys = async (where) =>
        Object.keys(await (await server.fetch(where)).json())
          .sort()
          .join(' ');
      const vram = (await server.fetch('/vram')).status;
      return `${await keys('/health')}, ${await keys('/available_devices')}, ${await keys('/ram')}, ${vram}`;
    },
    seen: Array(2).fill('status, devices_index devices_name, total_gb used_gb, 422'),
  },
];
