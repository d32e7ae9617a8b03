import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DiskModel } from './disk-model.mjs';

/** Which changes of names survive a power cut besides the synced ones: none, all, or random ones. */
const names = {
  'no name that was not synced': () => () => false,
  'every name': () => () => true,
  'names by chance': (random) => () => random.chance(0.5),
  // As with a journal: every change up to some moment, and none after it. All synced changes are before it.
  'names up to a moment': (random, steps) => {
    const last = steps.findLastIndex(({ isDurable }) => isDurable);
    const moment = random.integer(last, steps.length);
    return (at) => at <= moment;
  },
};

/** What remains of a file's content that was not synced. */
const alike = {
  'old contents': ({ durable }) => durable ?? Buffer.alloc(0),
  'empty files': ({ durable, data }) =>
    durable === null || durable.length > data.length ? Buffer.alloc(0) : durable,
  'torn contents': ({ durable, data }, random) => {
    const least = Math.min(durable?.length ?? 0, data.length);
    return data.subarray(0, random.integer(least, data.length));
  },
  'zeros in contents': ({ durable, data }) => {
    const left = Buffer.alloc(data.length);
    durable?.copy(left, 0, 0, Math.min(durable.length, data.length));
    return left;
  },
  'every content': ({ data }) => data,
};

const contents = {
  ...alike,
  // Whole or zeros more often than others: a file of the right size is the easiest to be taken in by.
  'contents by chance': (node, random) => {
    const likely = [alike['every content'], alike['every content'], alike['zeros in contents']];
    return random.pick([...likely, random.pick(Object.values(alike))])(node, random);
  },
};

/** One of the states that the disk may be in: a tree of names with contents, and a text that says which state. */
function survivors(model, random) {
  const [which, choose] = random.pick(Object.entries(names));
  const [what, content] = random.pick(Object.entries(contents));
  const isLeft = choose(random, model.steps);
  const tree = new Map([[model.root, new Map()]]);
  const entriesOf = (directory) => {
    if (!tree.has(directory)) tree.set(directory, new Map());
    return tree.get(directory);
  };
  for (const [at, { changes, isDurable }] of model.steps.entries()) {
    if (!isDurable && !isLeft(at)) continue;
    for (const [directory, name, node] of changes) {
      if (node === null) entriesOf(directory).delete(name);
      else entriesOf(directory).set(name, node);
    }
  }
  const left = new Map();
  // A file of several names has one content.
  const contentOf = (node) => {
    if (node.data === node.durable) return node.data;
    if (!left.has(node)) left.set(node, content(node, random));
    return left.get(node);
  };
  return { what: `${which}, ${what}`, tree, root: model.root, contentOf };
}

/**
 * What may be on the disk if the power is cut after so many calls of a trace.
 * @param base the directory of which this is asked
 * @returns the state, and words that say when the cut was
 */
export function cutAfter(calls, count, base, random) {
  const model = new DiskModel(base);
  for (const call of calls.slice(0, count)) model.apply(call);
  const state = survivors(model, random);
  const last = calls[count - 1];
  const where = [last?.opened, last?.args[0]?.path, ...(last?.paths ?? [])].find((each) =>
    each?.startsWith(base),
  );
  const call = `${last?.name ?? 'nothing'} ${where?.slice(base.length) ?? ''}`.trim();
  return { state, when: `after call ${count} of ${calls.length}, ${call}, with ${state.what}` };
}

/**
 * Writes a state to a directory. `changed` are texts in names and contents and what they become: the path that the
 * tree had, and the ids of its jobs.
 */
export function materialise({ tree, root, contentOf }, directory, changed = []) {
  const change = (text) => changed.reduce((left, [from, to]) => left.replaceAll(from, to), text);
  const write = (node, at) => {
    mkdirSync(at, { mode: 0o700 });
    for (const [name, child] of tree.get(node) ?? []) {
      const file = path.join(at, change(name));
      if (child.kind === 'directory') write(child, file);
      else if (child.kind === 'link') symlinkSync(child.target, file);
      else {
        const text = change(contentOf(child).toString('latin1'));
        writeFileSync(file, text, { encoding: 'latin1', mode: 0o600 });
      }
    }
  };
  write(root, directory);
}
