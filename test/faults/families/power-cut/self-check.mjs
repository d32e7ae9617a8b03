import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DiskModel } from './disk-model.mjs';

function* differences(node, directory) {
  const there = readdirSync(directory);
  for (const name of node.entries.keys())
    if (!there.includes(name)) yield `${path.join(directory, name)} is not there`;
  for (const name of there) {
    const file = path.join(directory, name);
    const child = node.entries.get(name);
    const info = lstatSync(file);
    if (child === undefined && (info.isFile() || info.isDirectory())) yield `${file} was never made`;
    else if (info.isDirectory()) yield* differences(child, file);
    else if (info.isFile() && !readFileSync(file).equals(child.data)) yield `${file} has other content`;
  }
}

/** The model must end with the content of the disk: otherwise it does not understand a call. */
export function checkModel(context, base, calls) {
  const model = new DiskModel(base);
  for (const call of calls) model.apply(call);
  const [first] = differences(model.root, base);
  context.check(first === undefined, `The harness does not understand a call of the trace: ${first}`);
}
