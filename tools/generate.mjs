/** Writes what is derived from the code: the manifest of the commands, the pages, the schema of app.json and the OpenAPI document. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { appSchema } from './app-schema.mjs';
import { cliPage } from './cli-page.mjs';
import { httpPage } from './http-page.mjs';
import { konfaiPage } from './konfai-page.mjs';
import { manPage } from './man-page.mjs';
import { openApi } from './openapi.mjs';
import { referencePage } from './reference-page.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

execFileSync(process.execPath, ['node_modules/oclif/bin/run.js', 'manifest'], {
  cwd: root,
  stdio: ['ignore', 'ignore', 'inherit'],
  // Keeps the generator from looking for a newer version of itself.
  env: { ...process.env, OCLIF_SKIP_NEW_VERSION_CHECK: '1', OCLIF_NEW_VERSION_CHECK: 'false' },
});
const read = (file) => JSON.parse(readFileSync(`${root}${file}`, 'utf8'));
const [commands, description] = [read('oclif.manifest.json'), read('package.json')];
writeFileSync(`${root}docs/remote-app.1`, manPage(commands, description));
writeFileSync(`${root}docs/cli.md`, cliPage(commands, description));
writeFileSync(`${root}docs/reference.md`, referencePage());
writeFileSync(`${root}docs/http.md`, httpPage(readFileSync(`${root}docs/http.md`, 'utf8')));
writeFileSync(`${root}docs/konfai.md`, konfaiPage(readFileSync(`${root}docs/konfai.md`, 'utf8')));
writeFileSync(`${root}docs/app.schema.json`, `${JSON.stringify(appSchema(), null, 2)}\n`);
writeFileSync(`${root}docs/openapi.json`, `${JSON.stringify(openApi(), null, 2)}\n`);
