import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig } from '../../src/cli/serve/config-file.js';
import { serveFlags } from '../../src/cli/serve/flags.js';

const at = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const page = readFileSync(at('docs/container.md'), 'utf8');
const containerfile = readFileSync(at('packaging/image/Containerfile'), 'utf8');

test('The Kubernetes manifests are valid YAML, refer to each other, and use the user of the image', () => {
  const [, manifests = ''] = /^```yaml\n(.*?)^```$/ms.exec(page) ?? [];
  const documents = parseAllDocuments(manifests, { strict: true });
  expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
  const [claim, deployment, service] = documents.map((each) => each.toJS());
  expect([claim.kind, deployment.kind, service.kind]).toEqual([
    'PersistentVolumeClaim',
    'Deployment',
    'Service',
  ]);
  const { strategy, selector, template } = deployment.spec;
  expect(strategy.type).toBe('Recreate');
  expect(template.metadata.labels).toEqual(selector.matchLabels);
  expect(service.spec.selector).toEqual(selector.matchLabels);
  const [{ volumeMounts, args, ports }] = template.spec.containers;
  expect(volumeMounts).toEqual([{ name: template.spec.volumes[0].name, mountPath: '/data' }]);
  expect(template.spec.volumes[0].persistentVolumeClaim.claimName).toBe(claim.metadata.name);
  expect(service.spec.ports[0].targetPort).toBe(ports[0].name);
  expect(containerfile).toContain(`\nEXPOSE ${ports[0].containerPort}\n`);
  const { runAsUser, runAsGroup } = template.spec.securityContext;
  expect(containerfile).toContain(`\nUSER ${runAsUser}:${runAsGroup}\n`);
  for (const word of args.filter((each: string) => each.startsWith('--')))
    expect(Object.keys(serveFlags)).toContain(word.slice(2));
});

test('The configuration in the image is valid', () => {
  const names = readConfig(at('packaging/image/serve.yaml'), serveFlags).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['apps', 'auth', 'data-dir']));
});
