import { rooms } from './edges.js';

/** Which rooms may import a package, and why no other room may. */
export interface PackageRule {
  readonly rooms: readonly string[];
  readonly reason: string;
}

const cli = [
  'commands',
  'commands/token',
  'cli/tokens',
  'cli/serve',
  'cli/completion',
  'cli/submit',
  'cli/jobs',
  'cli',
];

const koa = 'Only the HTTP side of the server knows Koa: jobs and the client do not.';
const commandLine = 'Only the command line knows oclif.';
const terminal = 'Only one room of the command line writes to a terminal.';
const parser = 'Only an upload reads forms.';
const archives = 'One module writes and reads archives; nobody else knows their packages.';

/** By package; `node:*` is every module of Node that has no rule of its own. No room may import a package that is not listed. */
export const packages: Readonly<Record<string, PackageRule>> = {
  '@oclif/core': { rooms: ['start', ...cli], reason: commandLine },
  ora: { rooms: ['cli/terminal'], reason: terminal },
  chalk: { rooms: ['cli/terminal'], reason: terminal },
  'fast-string-width': { rooms: ['cli/terminal'], reason: terminal },
  undici: {
    rooms: ['client/connection'],
    reason: 'One room of the client makes requests.',
  },
  tinyglobby: { rooms: ['client/inputs'], reason: 'Only what is sent is searched for.' },
  koa: { rooms: ['server/app.ts', 'server/http', 'server/uploads'], reason: koa },
  '@koa/router': { rooms: ['server/routes'], reason: koa },
  'koa-body': { rooms: ['server/uploads'], reason: parser },
  '@huggingface/hub': { rooms: ['server/hub'], reason: 'One room of the server asks the hub.' },
  yaml: {
    rooms: ['cli/serve', 'files', 'server/apps'],
    reason: 'Only the configurations of a server and of an app are YAML.',
  },
  'prom-client': {
    rooms: ['server/metrics'],
    reason: 'Who tells of what happens does not know what it is counted with.',
  },
  formidable: { rooms: ['server/uploads'], reason: parser },
  send: { rooms: ['server/routes'], reason: 'Only a route answers with a file.' },
  execa: { rooms: ['server/jobs'], reason: 'Only the trash runs a program to remove what it cannot.' },
  'p-limit': { rooms: ['files'], reason: 'Turns are given in one place.' },
  archiver: { rooms: ['archive'], reason: archives },
  unzipper: { rooms: ['archive'], reason: archives },
  zod: {
    rooms: [
      'client/connection',
      'server/apps',
      'server/hub',
      'server/jobs',
      'server/executors',
      'server/executors/resident',
      'access',
      'server/usage',
      'contract',
    ],
    reason: 'What comes from outside is parsed where it comes in, and has types from there on.',
  },
  'node:http': {
    rooms: ['server/check.ts', 'server/http', 'server/uploads'],
    reason: "The client makes its requests with undici, and HTTP ends at the server's doors.",
  },
  'node:child_process': {
    rooms: [
      'cli/serve',
      'client/ssh',
      'server/executors/local',
      'server/executors/slurm',
      'server/executors/resident',
      'server/sandbox',
      'server/devices',
      'server/apps',
      'runner',
      'files',
    ],
    reason: 'No process is started but by those that see to its end.',
  },
  'node:*': {
    rooms: Object.keys(rooms).filter((room) => room !== 'contract'),
    reason: rooms.contract?.reason ?? '',
  },
};
