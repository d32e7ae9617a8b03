import path from 'node:path';

/**
 * Which files and packages share a file of the bundle, because they are loaded together: every file more is half a
 * millisecond. `ours` are paths below src/; one that ends with a slash is a directory. The first of two groups that name a
 * file has it. `with` are the groups that are loaded with a group, because its files import theirs.
 */
const groups = [
  {
    // What every command needs.
    name: 'base',
    with: [],
    packages: ['@oclif'],
    ours: [
      'commands/',
      'contract/',
      'files/error-code',
      'files/monotonic-time',
      'files/small-file',
      'client/errors',
      'client/nearest',
      'client/write-error',
      'client/connection/identifiers',
      'client/connection/server-url',
      'client/connection/ssh-address',
      'client/connection/profiles',
      'cli/settings',
    ],
    but: ['contract/app-manifest'],
  },
  {
    // What every command needs that sends a request to the server.
    name: 'connection',
    with: ['base'],
    packages: ['undici'],
    ours: [
      'cli/open-transport',
      'client/connection/api',
      'client/connection/backoff',
      'client/connection/check-answer',
      'client/connection/connection',
      'client/connection/health-answer',
      'client/connection/patience',
      'client/connection/read-body',
      'client/connection/reply',
      'client/connection/time-limit',
      'client/connection/transport-error',
      'client/connection/transport/connector',
      'client/connection/transport/socket-faults',
    ],
  },
  {
    // What both sides need to check what they read.
    name: 'checks',
    with: [],
    packages: ['zod/v4/core'],
    ours: [],
  },
  {
    // What reads every answer except that of a health check.
    name: 'answers',
    with: ['base', 'checks'],
    packages: ['zod/v4/mini'],
    ours: ['client/connection/answer-schemas'],
  },
  {
    // What the server needs when it starts, and the commands that change tokens.
    name: 'tokens',
    with: ['base', 'checks'],
    packages: ['zod/v4/classic'],
    ours: ['access/limits', 'access/token-file'],
  },
  {
    // What a command needs whose server is reached through a proxy or ssh, or cannot be reached.
    name: 'reach',
    with: ['base', 'connection'],
    ours: ['client/ssh/', 'client/connection/transport/'],
  },
  {
    // What every command needs that shows a job.
    name: 'words',
    with: ['base'],
    packages: ['chalk', 'fast-string-width', 'fast-string-truncated-width'],
    ours: [
      'cli/job-text',
      'cli/terminal/colours',
      'cli/terminal/format',
      'cli/terminal/bar-block',
      'cli/terminal/bar-text',
      'cli/terminal/log-rows',
      'cli/terminal/text-reporter',
      'cli/terminal/time-text',
      'cli/terminal/transfer',
    ],
  },
  {
    // What the server needs when it starts of what is in the group "transfer" otherwise, or where archives are: it sends no request.
    name: 'names',
    with: ['base'],
    packages: ['inherits'],
    ours: [
      'extract/errors',
      'files/file-lock',
      'files/first-bytes',
      'files/read-buffers',
      'files/garbage-collector',
      'files/safe-name',
      'files/time-slice',
      'files/windows-names',
    ],
  },
  {
    // What the server needs when it starts, and `serve --check` or a server of a cluster as well. What these files import comes with them.
    name: 'setup',
    with: ['base', 'checks', 'names', 'tokens'],
    ours: [
      'files/is-gone',
      'files/turns',
      'runner/program',
      'server/access/',
      'server/apps/',
      'server/data-directory/',
      'server/devices/',
      'server/executors/runs/',
      'server/http/listen',
      'server/hub/hub-settings',
      'server/hub/tracked-repository',
      'server/sandbox/',
      'server/setup-error',
      'server/when-there-is-room',
    ],
    but: ['server/apps/prediction-file'],
  },
  {
    // What every command needs that sends volumes or fetches a result.
    name: 'transfer',
    with: ['base', 'connection', 'names'],
    ours: ['client/', 'cli/apps/app-choice', 'cli/submit/'],
  },
];

/** Whether a module is the file, or in the directory, of this name. */
const isAt = (modules, name, id) =>
  id.startsWith(path.join(modules, name.endsWith('/') ? name : `${name}.js`));

/**
 * The groups as the bundler takes them.
 * @param modules directory of the compiled sources
 */
export const splittingGroups = (modules) =>
  groups.map(({ name, packages = [], ours, but = [] }, index) => ({
    name,
    test: (id) =>
      (ours.some((each) => isAt(modules, each, id)) && !but.some((each) => isAt(modules, each, id))) ||
      packages.some((each) => id.includes(`/node_modules/${each}/`)),
    priority: groups.length - index,
  }));

/** Checks that every name in the groups is that of a module, so that a file which is moved does not leave its group unnoticed. */
export function checkGroups(modules, ids) {
  for (const { name, packages = [], ours, but = [] } of groups) {
    const gone = [
      ...[...ours, ...but].filter((each) => !ids.some((id) => isAt(modules, each, id))),
      ...packages.filter((each) => !ids.some((id) => id.includes(`/node_modules/${each}/`))),
    ];
    if (gone.length > 0)
      throw new Error(`The group ${name} of the bundle names ${gone.join(', ')}: not there`);
  }
}

/**
 * Checks that each group is loaded with the groups that it names alone: one file that a group of the server has as well can add
 * that group to every upload, which takes 30 ms.
 */
export function checkLoadedWith(chunks) {
  const nameOf = new Map(chunks.map(({ fileName, name }) => [fileName, name]));
  for (const { name, with: expected } of groups) {
    const { imports } = chunks.find((chunk) => chunk.name === name);
    const others = imports
      .map((file) => nameOf.get(file))
      .filter((each) => groups.some((group) => group.name === each) && !expected.includes(each));
    if (others.length > 0) {
      throw new Error(
        `The group ${name} of the bundle would be loaded with ${others.join(', ')}: put what both use into a group that it names`,
      );
    }
  }
}
