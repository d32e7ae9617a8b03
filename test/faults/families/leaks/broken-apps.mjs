import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** A text that no answer may contain. */
export const secret = 'a-secret-that-nobody-is-told';

const manifest = (command) =>
  JSON.stringify({
    display_name: 'App',
    description: 'An app.',
    short_description: 'App',
    tta: 0,
    mc_dropout: 0,
    command,
  });

function write(directory, files) {
  for (const [name, content] of Object.entries(files)) {
    const target = path.join(directory, name);
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, content);
  }
}

/** An app with all kinds of files that must not be sent. */
export function temptingApp(context, directory) {
  const outside = path.join(context.scratch, 'outside');
  write(outside, { id_rsa: secret, 'folder/deep': secret });
  const hidden = [
    '.env',
    '.env.local',
    '.git/config',
    '.ssh/id_rsa',
    'nested/.hidden/key',
    'nested/deep/.env',
    '.netrc',
  ];
  const weights = ['model.pt', 'nested/MODEL.PTH', 'a.ckpt', 'a.onnx', 'a.safetensors', 'a.bin', 'a.h5'];
  write(directory, {
    'app.json': manifest(['sh', '-c', 'true']),
    'Prediction.yml': 'a: 1',
    'nested/More.yml': 'b: 2',
    ...Object.fromEntries([...hidden, ...weights].map((name) => [name, secret])),
  });
  symlinkSync(path.join(outside, 'id_rsa'), path.join(directory, 'key.yml'));
  symlinkSync(path.join(outside, 'folder'), path.join(directory, 'folder'));
  symlinkSync('.env', path.join(directory, 'visible.yml'));
  symlinkSync('../../outside', path.join(directory, 'nested', 'up'));
}

/** Apps that cannot run, each for another reason; returns their names. */
export function brokenApps(folder) {
  const apps = {
    missing: { 'app.json': manifest(['no-such-program-anywhere']) },
    folder: { 'app.json': manifest(['run']), 'run/file': '' },
    forbidden: { 'app.json': manifest(['main']), main: '#!/bin/sh\n' },
    interpreter: { 'app.json': manifest(['main.sh']), 'main.sh': '#!/no/such/interpreter\n' },
    binary: { 'app.json': manifest(['main.out']), 'main.out': '\x7fELF broken' },
    json: { 'app.json': '{"display_name": ' },
    list: { 'app.json': '[]' },
    empty: { 'app.json': '' },
    types: { 'app.json': JSON.stringify({ display_name: 1, description: [], command: 'sh' }) },
    manifest: { 'app.json/file': '' },
    models: {
      'app.json': JSON.stringify({ ...JSON.parse(manifest(['sh'])), models: ['../outside/model'] }),
    },
  };
  for (const [name, files] of Object.entries(apps)) write(path.join(folder, name), files);
  return Object.keys(apps);
}
