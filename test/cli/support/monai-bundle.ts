import { monaiBundleApp } from '../../../src/cli/apps/monai-bundle-app.js';
import { type Changes, plantedFolder, refusalOf } from '../../support/model-folder.js';
import { bundleName, inference, metadata, monaiBundle } from '../../support/monai-bundle.js';

/** What `init --from` makes of a bundle. */
export const appOf = (directory: string) =>
  monaiBundleApp({
    ...{ task: undefined, weights: undefined, environment: {}, root: process.cwd() },
    source: directory,
  });

/** Plants a bundle until the end of the test, with what is different in it. */
export const bundle = (changes: Changes = {}) => plantedFolder(bundleName, monaiBundle(), changes);

export const madeOf = async (changes: Changes) => appOf(await bundle(changes));

/** Why no app can be made of a bundle; empty if it can. */
export const refusal = (directory: string) => refusalOf(appOf, directory);

export const config = 'configs/inference.json';
export const about = 'configs/metadata.json';

/** A bundle whose inference, or metadata, differs in these. */
export const configured = (changes: object) => ({ [config]: { ...inference, ...changes } });
export const described = (changes: object) => ({ [about]: { ...metadata, ...changes } });
