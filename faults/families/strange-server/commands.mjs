const id = 'abcdef012345';

/** Every command of a client; none waits long where it has a say in it. */
export const commands = {
  health: () => ['health'],
  gpus: () => ['gpus'],
  jobs: () => ['jobs'],
  status: () => ['status', id],
  logs: () => ['logs', id],
  kill: () => ['kill', id],
  apps: () => ['apps'],
  'apps app': () => ['apps', 'app'],
  result: (_context, output) => ['result', id, '--wait', '2', '-o', output],
  infer: (_context, output) => ['infer', 'scan.nii', '--app', 'app', '--wait', '2', '-o', output],
  'infer --detach': () => ['infer', 'scan.nii', '--app', 'app', '--detach'],
  login: (context) => ['login', '--token-file', 'token', '--profile', `profile${context.serial()}`],
  'jobs --json': () => ['jobs', '--json'],
  'status --json': () => ['status', id, '--json'],
};
