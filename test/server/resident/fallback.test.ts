import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { findProgram } from '../../../src/files/find-program.js';
import { sandbox } from '../../support/sandbox.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { doing, hostsOf, workerState } from './support.js';

/** A directory with a `bwrap` that makes every sandbox but one whose user may mount, as some kernels do. */
async function refusingMounts(): Promise<AsyncDisposable & { readonly path: string }> {
  const root = await temporary();
  const program = path.join(root.path, 'bwrap');
  const real = findProgram('bwrap', String(process.env.PATH));
  writeFileSync(
    program,
    `#!/bin/sh
case " $* " in
  *' CAP_SYS_ADMIN '*) echo 'bwrap: mounting is not permitted' >&2; exit 1 ;;
esac
exec ${real} "$@"
`,
  );
  chmodSync(program, 0o755);
  return root;
}

test.runIf(sandbox)(
  'If a sandbox cannot mount, each job starts its own resident app, and the log says so',
  async () => {
    await using directory = await refusingMounts();
    await using server = await TestServer.start({
      runners: true,
      apps: [apps.resident],
      app: 'resident',
      flags: ['--sandbox', 'bwrap'],
      environment: { PATH: `${directory.path}:${process.env.PATH}` },
    });
    const { api } = server;
    for (let left = 2; left > 0; left -= 1) {
      const { view, log, id } = await api.run('infer', doing());
      expect(view).toMatchObject({ status: 'done', start: null });
      expect(log).toContain('in a sandbox without network, where no app can stay loaded\n');
      expect((await workerState(api, id)).jobs).toBe(1);
    }
    expect(hostsOf(server)).toEqual([]);
    await until('the admin is told', () => server.stderr.includes('bwrap: mounting is not permitted'));
  },
);
