import { expect, test } from 'vitest';
import { introduce } from '../../../src/cli/serve/announcements.js';
import { ServerLog } from '../../../src/cli/serve/server-log.js';
import type { RunningServer } from '../../../src/server/running-server.js';

/** What a start says of so many apps. */
function saidOf(apps: readonly string[]): string {
  let text = '';
  const output = {
    write: (piece: string) => {
      text += piece;
      return true;
    },
  };
  const server = {
    url: 'x',
    dataDirectory: '/data',
    apps,
    appProblems: [],
    recovered: { ended: 0, active: 0 },
  };
  introduce(server as unknown as RunningServer, new ServerLog(output), output);
  return text;
}

test('a start names twenty apps, and counts the others', () => {
  const apps = Array.from({ length: 22 }, (_, at) => `app${at + 1}`);
  expect(saidOf(apps.slice(0, 20))).toMatch(/Serving 20 apps: app1, .*, app20\.\n/);
  expect(saidOf(apps)).toMatch(/Serving 22 apps: app1, .*, app20 and 2 more\.\n/);
});
