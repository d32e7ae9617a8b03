import { copyFileSync, cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Api } from '../../support/api.js';
import { file } from '../../support/form.mjs';
import { apps, type TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

/** A submission to the app that stays loaded, which does what is named: `test/fixtures/apps/resident/main.mjs`. */
export const doing = (deed = 'nothing', more: Record<string, string> = {}) => ({
  inputs: [file('in.nii.gz', 'volume')],
  options: JSON.stringify({ config_overrides: [`do=${deed}`] }),
  cpu: '1',
  ...more,
});

/** The same on a GPU. */
export const onGpu = (gpu: string | null, deed = 'nothing') => {
  const { cpu: _, ...form } = doing(deed);
  return gpu === null ? form : { ...form, gpu };
};

/** A copy of the app in a directory of its own, which a test may change. */
export async function ownApp(load?: string): Promise<AsyncDisposable & { readonly app: string }> {
  const root = await temporary();
  const app = path.join(root.path, 'resident');
  cpSync(apps.resident, app, { recursive: true });
  if (load !== undefined) writeFileSync(path.join(app, 'load.txt'), load);
  return Object.assign(root, { app });
}

/** A file of `templates/resident`. */
const template = (file: string): string =>
  fileURLToPath(new URL(`../../../templates/resident/${file}`, import.meta.url));

/** The languages of apps that a test writes: what runs them, and the helper that they import. */
const languages = {
  javascript: { command: ['node', 'main.mjs'], helper: 'resident.mjs' },
  python: { command: ['python3', 'main.py'], helper: 'resident.py' },
  shell: { command: ['sh', 'main.sh'], helper: null },
} as const;
export type Language = keyof typeof languages;

/** A resident app with this program, in a directory of its own. */
export async function writtenApp(
  language: Language,
  program: string,
): Promise<AsyncDisposable & { readonly app: string }> {
  const root = await temporary();
  const app = path.join(root.path, 'resident');
  const { command, helper } = languages[language];
  const manifest = JSON.parse(readFileSync(path.join(apps.resident, 'app.json'), 'utf8'));
  await plant(app, { [command[1]]: program, 'app.json': JSON.stringify({ ...manifest, command }) });
  if (helper) copyFileSync(template(`${language}/${helper}`), path.join(app, helper));
  return Object.assign(root, { app });
}

/** What a job of the app said about its worker: how many jobs it has had, its process, and whose it is. */
export async function workerState(
  api: Api,
  id: string,
): Promise<{ jobs: number; pid: number; marker: string }> {
  const [jobs, pid, marker = ''] = String((await api.result(id)).get('jobs.txt'))
    .trim()
    .split(' ');
  return { jobs: Number(jobs), pid: Number(pid), marker };
}

/** Names of the worker hosts' directories of a server. */
export function hostsOf(server: TestServer): string[] {
  const directory = path.join(server.dataDirectory, 'workers');
  return existsSync(directory) ? readdirSync(directory) : [];
}

/** Resolves when no worker, and nothing of one, is left. */
export const noWorkerLeft = (server: TestServer) =>
  until('no worker is left', () => hostsOf(server).length === 0 && server.workers().length === 0);

/** The app's own lines of a log, without those of the service. */
export const ownLines = (log: string): string[] =>
  [...log.matchAll(/^data: (.*)$/gm)].flatMap(([, line = '']) =>
    line.startsWith('[remote-app]') ? [] : [line],
  );
