/** Writes what is derived from the code: the command manifest, the reference page and the OpenAPI document. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openApi } from './openapi.mjs';
import { referencePage } from './reference-page.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

execFileSync(process.execPath, ['node_modules/oclif/bin/run.js', 'manifest'], {
  cwd: root,
  stdio: ['ignore', 'ignore', 'inherit'],
  // The generator need not ask whether there is a newer one of it.
  env: { ...process.env, OCLIF_SKIP_NEW_VERSION_CHECK: '1', OCLIF_NEW_VERSION_CHECK: 'false' },
});
writeFileSync(`${root}docs/reference.md`, referencePage());
writeFileSync(`${root}docs/openapi.json`, `${JSON.stringify(openApi(), null, 2)}\n`);
