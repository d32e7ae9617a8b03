import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ServiceError, UsageError } from './errors.mjs';
import { INPUT_NAMES } from './features.mjs';
import { ROW } from './model.mjs';

const FORMAT = 'tissue-logistic-1';

/** The app's checkpoints by name, in name order. Read at run time: a file dropped into the folder is one more. */
export async function listCheckpoints(appDirectory) {
  const files = await readdir(path.join(appDirectory, 'checkpoints')).catch(() => []);
  const names = files.filter((file) => file.endsWith('.json')).map((file) => file.slice(0, -'.json'.length));
  if (names.length === 0)
    throw new ServiceError(`The app has no checkpoints in ${path.join(appDirectory, 'checkpoints')}.`);
  return names.sort();
}

/** The named checkpoints, with or without `.json`; or the first `count` of those that app.json lists. */
export async function loadCheckpoints(appDirectory, { names, count = 1, shipped }) {
  const available = await listCheckpoints(appDirectory);
  const wanted = names?.map(stem) ?? firstOf(shipped?.map(stem) ?? available, count);
  const missing = wanted.find((name) => !available.includes(name));
  if (missing !== undefined)
    throw new UsageError(`The app has no checkpoint '${missing}'; it has ${available.join(', ')}.`);
  const models = await Promise.all(
    wanted.map(async (name) => ({ name, ...(await load(appDirectory, name)) })),
  );
  const other = models.find((model) => model.classes !== models[0].classes);
  if (other !== undefined)
    throw new ServiceError(
      `Checkpoints ${models[0].name} and ${other.name} have different classes: use them apart.`,
    );
  return models;
}

function firstOf(names, count) {
  if (count > names.length)
    throw new UsageError(
      `The app has ${names.length} checkpoints (${names.join(', ')}), and --ensemble asks for ${count}.`,
    );
  return names.slice(0, Math.max(1, count));
}

function stem(name) {
  return path.basename(name, '.json');
}

async function load(appDirectory, name) {
  const file = path.join(appDirectory, 'checkpoints', `${name}.json`);
  let json;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ServiceError(`Checkpoint ${name}.json cannot be read: ${error.message}`);
  }
  const rows = json?.weights;
  const fits =
    json?.format === FORMAT &&
    json.inputs?.join() === INPUT_NAMES.join() &&
    [json.mean, json.scale].every((list) => Array.isArray(list) && list.length === ROW - 1) &&
    Array.isArray(rows) &&
    rows.length > 1 &&
    rows.every((row) => Array.isArray(row) && row.length === ROW && row.every(Number.isFinite));
  if (!fits)
    throw new ServiceError(
      `Checkpoint ${name}.json is not one of this app's (${FORMAT}, with ${ROW - 1} inputs).`,
    );
  return {
    classes: rows.length,
    mean: json.mean,
    scale: json.scale,
    weights: Float64Array.from(rows.flat()),
  };
}

/** Writes a checkpoint in the layout of a formatted file, so that training again shows as no change at all. */
export async function saveCheckpoint(file, { classes, mean, scale, weights }) {
  const rows = Array.from({ length: classes }, (_, c) => weights.subarray(c * ROW, (c + 1) * ROW));
  const text = `{
  "format": "${FORMAT}",
  "inputs": [
    ${INPUT_NAMES.map((name) => JSON.stringify(name)).join(',\n    ')}
  ],
  "mean": ${wrapped(mean, '  ')},
  "scale": ${wrapped(scale, '  ')},
  "weights": [
    ${rows.map((row) => wrapped(row, '    ')).join(',\n    ')}
  ]
}
`;
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, text);
}

/** An array of numbers, of seven digits each, in lines of at most 110 characters. */
function wrapped(values, indent) {
  const lines = [];
  for (const value of values) {
    const text = `${Number(value.toPrecision(7))}`;
    const last = lines.at(-1);
    // 3 is for the ', ' before the number and the ',' after it.
    if (last === undefined || indent.length + 2 + last.length + text.length + 3 > 110) lines.push(text);
    else lines[lines.length - 1] = `${last}, ${text}`;
  }
  return `[\n${indent}  ${lines.join(`,\n${indent}  `)}\n${indent}]`;
}
