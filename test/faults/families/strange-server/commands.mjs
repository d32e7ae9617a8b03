const id = 'abcdef012345';

const infer = ['infer', 'scan.nii', '--app', 'app', '--patience', '5'];

/** Every command of a client, with short time limits where it has flags for them. */
export const commands = {
  health: () => ['health'],
  gpus: () => ['gpus'],
  jobs: () => ['jobs'],
  status: () => ['status', id],
  logs: () => ['logs', id, '--patience', '5'],
  kill: () => ['kill', id],
  apps: () => ['apps'],
  'apps app': () => ['apps', 'app'],
  result: (_context, output) => ['result', id, '--wait', '2', '--patience', '5', '-o', output],
  infer: (_context, output) => [...infer, '--wait', '2', '-o', output],
  'infer --detach': () => [...infer, '--detach'],
  login: (context) => ['login', '--token-file', 'token', '--profile', `profile${context.serial()}`],
  'jobs --json': () => ['jobs', '--json'],
  'status --json': () => ['status', id, '--json'],
};
