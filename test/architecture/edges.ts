import { list } from '../support/list.mjs';

/**
 * The modules of src/, which of them may import which, and which packages they may use: the whole rule, as data.
 * A module is a folder; a file that may import more than the rest of its folder is a module of its own.
 */
export interface Module {
  /** The modules that it may import. Each is further down in the table, so no import leads back up. */
  readonly imports: readonly string[];
  /** Why it may import no other. */
  readonly reason: string;
}

/**
 * Modules whose files import files of others instead of the entry, which reads all of its module: each job waits until its
 * runner has read what it imports.
 */
export const pastEntries: readonly string[] = ['runner'];

const bothSides = 'Both sides stand on this module: it imports neither.';

/** From the top to the bottom. */
export const modules: Readonly<Record<string, Module>> = {
  'volumes.ts': {
    imports: [],
    reason: 'Apps import it as `remote-app/volumes`; it only passes on the package.',
  },
  start: {
    imports: list`cli/terminal contract`,
    reason: 'oclif imports the command that was typed; it knows the rest.',
  },
  commands: {
    imports: list`cli/serve cli/completion cli/convert cli/submit cli/show cli/jobs cli/apps cli/server
      cli/command cli/terminal client/connection client contract`,
    reason: 'A command is metadata, a parse and one call.',
  },
  'commands/token': {
    imports: list`cli/tokens cli/command client/connection client access`,
    reason: 'A command is metadata, a parse and one call; of these only the list asks a server.',
  },
  'cli/tokens': {
    imports: list`cli/server cli/command cli/terminal client access contract`,
    reason: 'Tokens are changed in their file, with no server.',
  },
  'cli/serve': {
    imports: list`cli/command cli/terminal client server/serve.ts server/check.ts server/settings.ts
      server/devices server programs files contract`,
    reason:
      'Code that only `serve` uses starts the server through its entry, and gets everything else passed in.',
  },
  'cli/completion': {
    imports: list`client/connection contract`,
    reason: 'Completion knows the commands as oclif describes them, and asks the server for values.',
  },
  'cli/submit': {
    imports: list`cli/show cli/jobs cli/apps cli/command cli/terminal client/cohort client/case imaging
      client/submit client/result client/connection client files programs contract`,
    reason: 'A submission is read from the command line here; how it is sent is the business of the client.',
  },
  'cli/show': {
    imports: list`imaging cli/terminal client/case client/connection client files contract`,
    reason: 'Pictures are shown from files; a server is asked only for the names of labels.',
  },
  'cli/convert': { imports: list`imaging cli/terminal`, reason: 'Files are converted without a server.' },
  'cli/jobs': {
    imports: list`cli/command cli/terminal client/case client/logs client/result imaging client/connection
      client files contract`,
    reason: 'What commands do with jobs knows no submission and no server.',
  },
  'cli/server': {
    imports: list`cli/apps cli/command cli/terminal client/gateway client/connection client contract`,
    reason:
      'A server is asked about itself here, or passed on to other programs, not asked about its jobs and apps.',
  },
  'cli/apps': {
    imports: list`cli/terminal client/result client/connection client programs files contract`,
    reason: 'Apps are shown and written, not run; a new one may get its Python environment.',
  },
  'cli/command': {
    imports: list`cli/terminal client/ssh client/connection client files contract`,
    reason: 'Only `serve` knows the server, and what the commands share knows no command.',
  },
  'cli/terminal': {
    imports: list`client/case client files contract`,
    reason: 'Output for people is written by other modules.',
  },
  imaging: {
    imports: list`imaging/convert imaging/pictures imaging/deidentify imaging/inputs client/case`,
    reason: 'The entry of imaging implements what client/case asks of it, and knows no command.',
  },
  'imaging/convert': {
    imports: list`imaging/matching imaging/pictures imaging/inputs client/case client contract`,
    reason: 'Results are converted from files, without a server and without a command line.',
  },
  'imaging/pictures': {
    imports: list`imaging/matching imaging/inputs client/case client files contract`,
    reason: 'Pictures are drawn from files, without a server and without a command line.',
  },
  'imaging/matching': {
    imports: list`imaging/inputs client/case client files contract`,
    reason:
      'Which scan a result belongs to is told by records, names and grids, and nothing is drawn for it.',
  },
  'imaging/deidentify': {
    imports: list`imaging/inputs client/case client archive files contract`,
    reason: 'What may leave of a scan is known without a server and without a command line.',
  },
  'imaging/inputs': {
    imports: list`client/case client archive files contract`,
    reason: 'Files are found without a server.',
  },
  'client/cohort': {
    imports: list`client/case client/submit client/logs client/result client/connection client files
      contract`,
    reason: 'Many cases are each run as one; what is kept of them together is known here alone.',
  },
  'client/case': {
    imports: list`client/submit client/logs client/result client/connection client files contract`,
    reason: 'The client knows the contract, not the server, and no flags.',
  },
  'client/submit': {
    imports: list`client/connection client archive files contract`,
    reason: 'What is sent knows the connection, not what the server does with it.',
  },
  'client/logs': {
    imports: list`client/connection client files contract`,
    reason: 'A log stream knows the connection, not what was sent before it or comes after it.',
  },
  'client/result': {
    imports: list`client/connection client archive files contract`,
    reason: 'A result knows the connection, not what was sent or logged before it.',
  },
  'client/gateway': {
    imports: list`client/connection client files contract`,
    reason: 'A gateway passes on requests and answers.',
  },
  'client/ssh': {
    imports: list`client/connection client files contract`,
    reason: 'A tunnel carries bytes to a server, and knows no request.',
  },
  'client/connection': {
    imports: list`client files contract`,
    reason: 'A connection carries requests and answers, and does not know what they are for.',
  },
  client: {
    imports: list`archive files contract`,
    reason: "The client's errors and its reporter stand below all its modules.",
  },
  'server/serve.ts': {
    imports: list`server/open-server.ts server/running-server.ts server/settings.ts server/app.ts
      server/http server/jobs server/data-directory server/metrics server files`,
    reason:
      'A server is opened, assembled and closed here; it knows neither the client nor the command line.',
  },
  'server/open-server.ts': {
    imports: list`server/running-server.ts server/settings.ts server/on-end.ts server/usage server/audit
      server/access server/apps server/hub server/submissions server/uploads server/jobs
      server/executors/local server/open-executor.ts server/devices server/sandbox server/data-directory
      server runner files`,
    reason: 'Everything that a server needs is opened here, before it answers a request.',
  },
  'server/running-server.ts': {
    imports: list`server/settings.ts server/open-executor.ts server/executors/slurm server/devices server
      files`,
    reason: 'What a running server offers is a type.',
  },
  'server/open-executor.ts': {
    imports: list`server/settings.ts server/executors server/executors/local server/executors/slurm
      server/devices server/sandbox server/data-directory server`,
    reason: 'Which executor runs the jobs is decided here: nobody else knows more than one.',
  },
  'server/check.ts': {
    imports: list`server/settings.ts server/on-end.ts server/try-on-gpus.ts server/audit server/http
      server/apps server/executors/slurm server/sandbox server/devices server/data-directory server/access
      server access files contract`,
    reason: 'A check looks at what a start would use, and starts no server.',
  },
  'server/try-on-gpus.ts': {
    imports: list`server/settings.ts server/apps server/executors server/executors/local server/sandbox
      server/devices server contract`,
    reason: 'A trial of an app runs as a job does, without a server.',
  },
  'server/on-end.ts': {
    imports: list`server files programs contract`,
    reason: 'The program that is run for ends is told of them as others are, and knows no record of a job.',
  },
  'server/app.ts': {
    imports: list`server/audit server/routes server/http server/access server`,
    reason: 'The application is middleware and routes; what these need is handed to it.',
  },
  'server/routes': {
    imports: list`server/settings.ts server/usage server/http server/uploads server/submissions server/apps
      server/jobs server/executors server access archive files contract`,
    reason: 'A route is thin: HTTP in, a call, HTTP out.',
  },
  'server/settings.ts': {
    imports: list`server/apps server/submissions server/sandbox server/executors/slurm`,
    reason: 'Settings are values, and do nothing.',
  },
  'server/submissions': {
    imports: list`server/http server/uploads server/jobs server archive multipart files contract`,
    reason:
      'A submission becomes the files of a job; nothing here starts one. Of scans it reads only who they identify.',
  },
  'server/http': {
    imports: list`server/audit server/access server access files contract`,
    reason: 'What every request goes through knows no job.',
  },
  'server/usage': {
    imports: list`server/data-directory server files contract`,
    reason: 'What was used is told by others, and asked for by a route.',
  },
  'server/audit': {
    imports: list`server access files contract`,
    reason: 'What is noted for an auditor is told by others.',
  },
  'server/access': {
    imports: list`server access files contract`,
    reason: 'Who may come in knows neither a request nor a job.',
  },
  'server/uploads': {
    imports: list`server/data-directory server access files contract`,
    reason: 'Uploads are kept by owner and content; this module knows no job that names them.',
  },
  'server/apps': {
    imports: list`server/hub server/jobs server/executors server files programs contract`,
    reason: 'An app knows what its job is asked to do, not how it came or is run.',
  },
  'server/hub': {
    imports: list`server files contract`,
    reason: 'Repositories are fetched and kept without knowing what an app does with them.',
  },
  'server/jobs': {
    imports: list`server/executors server/data-directory server access archive files programs contract`,
    reason: 'Jobs know no transport, no app and no device.',
  },
  'server/executors/local': {
    imports: list`server/executors/resident server/sandbox server/executors server/devices server runner
      access files contract`,
    reason: 'The local executor places jobs and runs them; it knows no record of a job and no transport.',
  },
  'server/executors/slurm': {
    imports: list`server/sandbox server/executors server runner files programs contract`,
    reason:
      'Slurm places and runs jobs; what is known here of a cluster is known nowhere else in the server.',
  },
  'server/data-directory': {
    imports: list`server runner files contract`,
    reason: 'The data directory is locked and made before there is a job.',
  },
  'server/executors/resident': {
    imports: list`server/sandbox server/executors server runner files contract`,
    reason: 'Workers are kept and ended without knowing how a job is placed.',
  },
  'server/sandbox': {
    imports: list`server/executors server/devices server files programs contract`,
    reason: 'A sandbox is words before a command line: it starts no job, and knows no record of one.',
  },
  'server/executors': {
    imports: list`runner files contract`,
    reason:
      'What an executor is, and what a runner leaves in a job directory, does not depend on where jobs run.',
  },
  'server/devices': {
    imports: list`server files programs contract`,
    reason: 'Devices know neither the jobs that use them nor a transport.',
  },
  'server/metrics': {
    imports: list`server contract`,
    reason: 'Metrics listen to events and ask what they are handed; they know no module of the server.',
  },
  server: {
    imports: list`access files contract`,
    reason:
      "The server's error, its events, its reports, its memory and its waits stand below all its modules.",
  },
  runner: {
    imports: list`files contract`,
    reason: 'The runner and the worker host are programs of their own: they know neither side.',
  },
  access: {
    imports: list`files contract`,
    reason: 'The file of the tokens is read by the server and written by a command: it imports neither.',
  },
  archive: { imports: list`files contract`, reason: bothSides },
  multipart: {
    imports: list`contract`,
    reason: 'A form is read without knowing what is done with its parts.',
  },
  programs: { imports: list`files`, reason: 'A program is found and run without knowing for whom.' },
  files: {
    imports: [],
    reason: 'Files are whole or not there for whoever uses them: this module knows nobody.',
  },
  contract: { imports: [], reason: 'The contract is pure: it imports neither side nor the machine.' },
};
