import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';
import { AppError, UsageError } from './errors.mjs';

/**
 * The settings of one operation: a flat YAML file of the app's own directory, whose values `--set NAME=VALUE`
 * replaces. The file is also the list of what may be set and of each setting's type.
 */
export async function readSettings(appDirectory, fileName, overrides = []) {
  const text = await readInside(appDirectory, fileName);
  const settings = parseYaml(text, fileName);
  for (const override of overrides) applyOverride(settings, override, fileName);
  return settings;
}

/** Reads a file by a name relative to `directory`; a name or a link that leads out of it is refused. */
async function readInside(directory, name) {
  const root = await realpath(directory);
  const leaves = (file) => path.relative(root, file).split(path.sep)[0] === '..';
  if (path.isAbsolute(name) || leaves(path.resolve(root, name)))
    throw new UsageError(`'${name}' is not inside the app: give a name relative to it.`);
  let file;
  try {
    file = await realpath(path.resolve(root, name));
    if (leaves(file)) throw new UsageError(`'${name}' leads out of the app through a link.`);
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError(`The app has no readable file '${name}' (${error.code ?? error.message}).`);
  }
}

function parseYaml(text, fileName) {
  let settings;
  try {
    settings = parse(text);
  } catch (error) {
    throw new AppError(`${fileName} is not valid YAML: ${error.message.split('\n')[0]}`);
  }
  if (settings === null || typeof settings !== 'object' || Array.isArray(settings)) {
    throw new AppError(`${fileName} must hold 'name: value' lines.`);
  }
  return settings;
}

function applyOverride(settings, override, fileName) {
  const equals = override.indexOf('=');
  const name = equals < 0 ? override : override.slice(0, equals);
  if (equals < 1) throw new UsageError(`--set needs NAME=VALUE, not '${override}'.`);
  if (!Object.hasOwn(settings, name)) {
    throw new UsageError(`--set: ${fileName} has no '${name}'; it has ${Object.keys(settings).join(', ')}.`);
  }
  const value = parseYaml(`value: ${override.slice(equals + 1)}`, `The value of --set ${name}`).value;
  if (typeof value !== typeof settings[name]) {
    throw new UsageError(
      `--set ${name} needs a ${typeof settings[name]}, not '${override.slice(equals + 1)}'.`,
    );
  }
  settings[name] = value;
}

/** Refuses a setting that is not one of `choices`, whether it comes from the file or from `--set`. */
export function requireChoice(settings, name, choices) {
  if (!choices.includes(settings[name]))
    throw new UsageError(`Setting '${name}' must be one of ${choices.join(', ')}, not '${settings[name]}'.`);
}

/** Refuses a number setting outside [low, high]. */
export function requireRange(settings, name, low, high) {
  const value = settings[name];
  if (typeof value !== 'number' || !(value >= low && value <= high))
    throw new UsageError(`Setting '${name}' must be a number from ${low} to ${high}, not '${value}'.`);
}
