import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { steps, submit } from './api.mjs';

const encoded = (bytes) => Buffer.from(bytes).toString('base64');

/** Steps of the planter app (`apps/planter`). Names and targets are texts or bytes. */
export const step = {
  file: (name, content, base) => ({ do: 'file', base, name: encoded(name), content: encoded(content) }),
  directory: (name, base) => ({ do: 'directory', base, name: encoded(name) }),
  link: (name, target, base) => ({ do: 'link', base, name: encoded(name), target: encoded(target) }),
  hardLink: (name, target, base) => ({ do: 'hardLink', base, name: encoded(name), target: encoded(target) }),
  fifo: (name, base) => ({ do: 'fifo', base, name: encoded(name) }),
  socket: (name, base) => ({ do: 'socket', base, name: encoded(name) }),
  mode: (name, mode, base) => ({ do: 'mode', base, mode, name: encoded(name) }),
  remove: (name, base) => ({ do: 'remove', base, name: encoded(name) }),
  many: (name, count, base) => ({ do: 'many', base, count, name: encoded(name) }),
  abyss: (depth, base) => ({ do: 'abyss', base, depth }),
  print: (text) => ({ do: 'print', text }),
  wait: (gate) => ({ do: 'wait', file: gate }),
};

/** Submits a job of the planter that carries out these steps; `home` is a directory that the job may read. */
export async function plant(context, server, home, plan, device = { cpu: '1' }) {
  const at = path.join(home, `plan-${context.serial()}.json`);
  writeFileSync(at, JSON.stringify(plan), { mode: 0o644 });
  const form = { inputs: file('scan.nii'), options: steps({ plan: at }), ...device };
  return submit(server, 'planter', 'infer', form);
}
