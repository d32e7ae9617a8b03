import { list } from '../support/list.mjs';
import { modules } from './edges.js';

/** Which modules may import a package, and why no other module may. */
export interface PackageRule {
  readonly modules: readonly string[];
  readonly reason: string;
}

const cli = list`commands commands/token cli/tokens cli/serve cli/completion cli/submit cli/jobs
  cli/command cli/terminal`;

const koa = 'Only the HTTP side of the server knows Koa: jobs and the client do not.';
const commandLine = 'Only the command line knows oclif.';
const terminal = 'Only one module of the command line writes to a terminal.';
const archives = 'One module writes and reads archives; nobody else knows their packages.';

/** By package; `node:*` is every module of Node that has no rule of its own. No module may import a package that is not listed. */
export const packages: Readonly<Record<string, PackageRule>> = {
  '@oclif/core': { modules: ['start', ...cli], reason: commandLine },
  ora: { modules: ['cli/terminal'], reason: terminal },
  chalk: { modules: ['cli/terminal'], reason: terminal },
  'fast-string-width': { modules: ['cli/terminal'], reason: terminal },
  undici: { modules: ['client/connection'], reason: 'One module of the client makes requests.' },
  '@remote-app/volumes': {
    modules: list`imaging/inputs imaging/matching imaging/convert imaging/deidentify imaging/pictures
      volumes.ts`,
    reason: 'Only imaging reads volumes; the server moves files.',
  },
  '@remote-app/volumes/headers': {
    modules: ['imaging/deidentify', 'imaging/inputs'],
    reason: 'Only the client finds and sends scans, so only it reads how they begin.',
  },
  '@remote-app/volumes/identity': {
    modules: ['server/submissions'],
    reason: 'Only the server refuses scans with identifying attributes.',
  },
  '@remote-app/volumes/attributes': {
    modules: ['imaging/deidentify'],
    reason: 'Only de-identification decides what may leave.',
  },
  'fast-png': { modules: ['imaging/pictures'], reason: 'Pictures are drawn in one place.' },
  '@jsquash/jpeg': { modules: ['imaging/pictures'], reason: 'Slices of a page are written with it.' },
  picomatch: { modules: ['imaging/inputs'], reason: 'Only what is sent is searched for.' },
  koa: { modules: ['server/app.ts', 'server/http', 'server/submissions'], reason: koa },
  'koa-body': { modules: ['server/submissions'], reason: 'Only submissions have a body of JSON.' },
  '@koa/router': { modules: ['server/routes'], reason: koa },
  '@huggingface/hub': { modules: ['server/hub'], reason: 'One module of the server asks the hub.' },
  yaml: {
    modules: ['cli/apps', 'cli/serve', 'server/apps'],
    reason: 'Only the configurations of a server, of an app and of a bundle of MONAI are YAML.',
  },
  'prom-client': {
    modules: ['server/metrics'],
    reason: 'Who tells of what happens does not know what it is counted with.',
  },
  send: { modules: ['server/routes'], reason: 'Only a route answers with a file.' },
  execa: {
    modules: ['programs'],
    reason: 'One module runs the programs that are run for what they print or for their end.',
  },
  'p-limit': { modules: ['files'], reason: 'Turns are given in one place.' },
  archiver: { modules: ['archive'], reason: archives },
  unzipper: { modules: ['archive'], reason: archives },
  zod: {
    modules: list`cli/apps client/connection imaging/matching client/case imaging/inputs server/apps
      server/hub server/jobs server/devices server/executors server/executors/resident access server/usage`,
    reason: 'What comes from outside is parsed where it comes in, and has types from there on.',
  },
  'node:http': {
    modules: ['server/check.ts', 'server/http', 'client/gateway'],
    reason:
      'The client makes its requests with undici, and HTTP ends at the doors of the server and the gateway.',
  },
  'node:child_process': {
    modules: ['client/ssh', 'server/executors/local', 'server/executors/resident', 'runner', 'files'],
    reason:
      'Runners, workers and what outlives this process are started with it, and what these or a start without execa run.',
  },
  'node:*': {
    modules: Object.keys(modules).filter((module) => module !== 'contract'),
    reason: modules.contract?.reason ?? '',
  },
};
