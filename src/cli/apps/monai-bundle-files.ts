import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { counted, excerpt, quotePath, shellWord } from '../../contract/index.js';
import { namesIn, treeEntries } from '../../files/index.js';
import { checkCheckpoint, checkIsInside } from './model-app.js';
import type { BundleConfig } from './monai-bundle-config.js';

/** The weights of a bundle, as paths relative to the bundle. */
export interface BundleWeights {
  /** Loaded by the bundle's CheckpointLoader. */
  readonly checkpoint: string;
  /** Other files in `models` that the configuration names. */
  readonly others: readonly string[];
  /** What was left out, in sentences. */
  readonly notes: readonly string[];
}

/** Maximum size of a file that is copied with the code. */
const maxBytes = 16 * 1024 * 1024;

/** The end of a message: the command that downloads the weights, if the bundle lists where they are. */
function remedyOf(directory: string): string {
  const hasList = namesIn(directory).some((name) => /^large_files\.(ya?ml|json)$/.test(name));
  return hasList
    ? `: 'python -m monai.bundle download_large_files --bundle_path ${shellWord(directory)}' downloads it`
    : '';
}

/** @throws UsageError for weights that are missing, incomplete or outside the bundle */
export function bundleWeights(config: BundleConfig): BundleWeights {
  const { directory, file: configFile } = config;
  const loaders = config.components('CheckpointLoader');
  if (loaders.length !== 1)
    throw config.fault(
      `has ${counted(loaders.length, 'CheckpointLoader')}, and needs one, which loads its weights`,
    );
  const given = config.valueOf(loaders[0]?.load_path);
  if (typeof given !== 'string')
    throw config.fault(
      `does not say where its weights are in a way that is understood: write "$@bundle_root + '/models/model.pt'" for 'load_path'`,
    );
  const checkpoint = path.relative(directory, path.resolve(directory, given));
  if (checkpoint.startsWith('..'))
    throw config.fault(
      `loads weights from outside of the bundle, ${quotePath(given)}: copy them into its folder 'models'`,
    );
  const there = namesIn(path.join(directory, 'models'));
  const isNamed = (name: string) => config.text.includes(name);
  const weights = there.filter((name) => /\.(pt|pth|ts|ckpt)$/.test(name) && `models/${name}` !== checkpoint);
  if (!existsSync(path.join(directory, checkpoint))) {
    const instead = weights.length > 0 ? `; there is ${excerpt(weights.join(', '), 500)}` : '';
    throw new UsageError(
      `${quotePath(directory)} has no weights: ${configFile} loads ${checkpoint}, which is not there${instead}${remedyOf(directory)}`,
    );
  }
  for (const value of config.values()) {
    const named = typeof value === 'string' && /\.pth?\b/.test(value) ? config.valueOf(value) : undefined;
    if (typeof named !== 'string' || !/[/\\].*\.pth?$/.test(named)) continue;
    if (!existsSync(path.resolve(directory, named)))
      throw new UsageError(
        `${quotePath(path.join(directory, configFile))} names ${quotePath(path.relative(directory, path.resolve(directory, named)))}, which is not there${remedyOf(directory)}`,
      );
  }
  const others = weights.filter(isNamed).map((name) => `models/${name}`);
  for (const name of [checkpoint, ...others])
    checkCheckpoint(path.join(directory, name), remedyOf(directory));
  const unused = weights.filter((name) => !isNamed(name));
  return {
    checkpoint,
    others,
    notes: unused.map((name) => `models/${name} is left out: ${configFile} does not load it`),
  };
}

/** Folders of a bundle without code. */
const withoutCode = new Set(['configs', 'docs', 'models']);

/**
 * Code files at the top of a bundle, and folders with code, with everything in them. @throws UsageError for a link that leads
 * outside
 */
function codeIn(directory: string): string[] {
  const isLeftOut = (place: string) => {
    if (path.basename(place).startsWith('.') || existsSync(path.join(place, 'pyvenv.cfg'))) return true;
    checkIsInside(place, directory);
    return false;
  };
  return namesIn(directory).flatMap((name) => {
    if (withoutCode.has(name)) return [];
    const files = [...treeEntries(path.join(directory, name), isLeftOut)]
      .filter(({ stats }) => stats?.isFile())
      .map(({ file }) => path.relative(directory, file));
    return files.some((file) => file.endsWith('.py')) ? files : [];
  });
}

/** Configuration, code and licence, as paths relative to the bundle, and what was left out, as sentences. */
export function bundleFiles({ directory, file, text }: BundleConfig) {
  const configs = namesIn(path.join(directory, 'configs'))
    .map((name) => `configs/${name}`)
    .filter(
      (name) => name === 'configs/metadata.json' || name === file || text.includes(path.basename(name)),
    );
  const licences = ['LICENSE', 'LICENSE.txt', 'LICENSE.md', 'docs/data_license.txt'];
  const all = [
    ...configs,
    ...licences.filter((name) => existsSync(path.join(directory, name))),
    ...codeIn(directory),
  ];
  const isLarge = (name: string) => statSync(path.join(directory, name)).size > maxBytes;
  return {
    files: all.filter((name) => !isLarge(name)),
    notes: all.filter(isLarge).map((name) => `${name} is left out: it is larger than 16 MiB`),
  };
}
