import path from 'node:path';
import { counted, excerpt, quotePath } from '../../contract/index.js';
import {
  aboutEvaluation,
  channelInputs,
  inferLine,
  inSentences,
  type ModelApp,
  type ModelSource,
  nnunetReference,
  segmentation,
  terminologyOf,
} from './model-app.js';
import { type NnunetFolder, readNnunetFolder } from './nnunet-folder.js';

/** Maximum number of extra test-time augmentation passes: all flips of the axes that the trainer mirrors. */
function maxPasses({ trainer, patchSize }: NnunetFolder): number {
  if (/nomirror/i.test(trainer)) return 0;
  return 2 ** (/onlymirror01/i.test(trainer) ? 2 : patchSize.length) - 1;
}

const descriptionOf = ({ about, trainer, configuration, folds }: NnunetFolder): string =>
  inSentences([
    about.description,
    `A network of nnU-Net v2 (${configuration}, ${trainer}, ${counted(folds.length, 'fold')})`,
    about.reference && `Reference: ${about.reference}`,
    about.licence && `Licence: ${about.licence}`,
  ]);

function manifestOf(folder: NnunetFolder) {
  const { channels, labels, folds, patchSize } = folder;
  const named = excerpt(labels.map(({ name }) => name).join(', '), 200);
  return {
    short_description: `Segments ${named}`,
    description: descriptionOf(folder),
    tta: maxPasses(folder),
    models: folds.map(({ name }) => name),
    patch_size: patchSize,
    parameters: {
      step_size: {
        default: 0.5,
        min: 0.1,
        max: 1,
        description: 'Step from one patch to the next, as a part of the patch: a smaller one takes longer',
      },
    },
    inputs: channelInputs(channels, (name) => /^ct$/i.test(name)),
    ...segmentation,
    terminology: terminologyOf(labels),
    citation: [nnunetReference, ...(folder.about.reference ? [{ text: folder.about.reference }] : [])],
  };
}

const aboutOf = (folder: NnunetFolder): string => {
  const { channels, folds, fileEnding } = folder;
  const passes = maxPasses(folder);
  const infer = inferLine(channels);
  const both = `${passes > 0 ? ` --tta ${passes}` : ''}${folds.length > 1 ? ` --ensemble ${folds.length}` : ''}`;
  return `A network of nnU-Net v2, from \`${folder.directory}\`. \`model/\` has its plans and its weights, which are Python pickles:
loading them runs what is in them, so take them only from somebody whom you trust.

    ${infer}      # ${channels.join(', ')}
    ${infer}${both}      # what nnUNetv2_predict does by itself

- One fold and no mirroring is the default. \`--ensemble N\` takes the first N of ${folds.map(({ name }) => name).join(', ')};
  \`--ensemble-models\` takes those that you name.${passes > 0 ? ` \`--tta ${passes}\` mirrors all axes; less mirrors fewer.` : ''}
- Results are called like the scan of the first channel, and end with \`${fileEnding}\`. DICOM series and other formats are converted first.
- \`--uncertainty\` also writes \`<case>_stack.nii.gz\`: for each fold, how probable it finds the label that all folds chose together.
${aboutEvaluation}
- Postprocessing that nnU-Net found for a network is not applied, as \`nnUNetv2_predict\` does not apply it.
`;
};

/** @throws UsageError for a folder that is not an nnU-Net v2 network, or that needs something that cannot be served */
export function nnunetApp({ source = '' }: ModelSource): ModelApp {
  const folder = readNnunetFolder(source);
  const inModel = (name: string) => path.posix.join('model', name);
  return {
    manifest: manifestOf(folder),
    templates: [
      'main.py',
      'cases.py',
      'evaluation.py',
      'requirements.txt',
      'Evaluation.yml',
      'Uncertainty.yml',
    ],
    copies: Object.fromEntries(
      ['dataset.json', 'plans.json'].map((name) => [inModel(name), path.join(folder.directory, name)]),
    ),
    weights: Object.fromEntries(folder.folds.map(({ name, file }) => [inModel(name), file])),
    about: aboutOf(folder),
    source: folder.directory,
    notes: [
      ...(folder.directory === source
        ? []
        : [
            `The network is ${path.relative(source, folder.directory)}, the only one in ${quotePath(source)}`,
          ]),
      ...folder.notes,
    ],
  };
}
