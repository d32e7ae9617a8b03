import path from 'node:path';
import { excerpt } from '../../contract/index.js';
import {
  aboutEvaluation,
  channelInputs,
  inferLine,
  inSentences,
  type ModelApp,
  type ModelSource,
  segmentation,
  terminologyOf,
} from './model-app.js';
import { BundleConfig, type Component } from './monai-bundle-config.js';
import { type MonaiBundle, readMonaiBundle } from './monai-bundle-folder.js';

/** Packages that every bundle app needs: the oldest version that works, and the first that is too new. */
const provided: Readonly<Record<string, readonly [string, string?]>> = {
  'pytorch-ignite': ['0.5', '0.6'],
  torch: ['2.6', '3'],
  numpy: ['1.26', '3'],
  scipy: ['1.11', '2'],
  SimpleITK: ['2.3', '3'],
  nibabel: ['5.2', '6'],
  tqdm: ['4.60', '5'],
};

/** The version of MONAI that the apps are tested with. */
const triedMonai = '1.6.1';

/** Packages that some MONAI classes need, and that not every bundle lists. */
const neededBy: readonly (readonly [RegExp, string])[] = [
  [/^(KeepLargestConnectedComponentd|RemoveSmallObjectsd)$/, 'scikit-image'],
  [/^(SwinUNETR|UNETR|ViT|ViTAutoEnc)$/, 'einops'],
];

/** The later one of two versions. */
const later = (one: string, other: string): string =>
  one.localeCompare(other, 'en', { numeric: true }) < 0 ? other : one;

/** A package name as pip compares it. */
const plainName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-');

const isVersion = (text: string): boolean => /^\d+(\.\d+)*$/.test(text);

/**
 * `requirements.txt`. The bundle's own versions are only minimum versions, because few of those releases run on a newer Python.
 */
function requirementsOf({ metadata, packages, config }: MonaiBundle): string {
  const { monai_version: monai, pytorch_version: torch } = metadata;
  const isNewer = isVersion(monai) && later(triedMonai, monai) !== triedMonai;
  const lines = [isNewer ? `monai>=${monai}` : `monai==${triedMonai}`];
  for (const [name, [oldest, tooNew]] of Object.entries(provided)) {
    const min = name === 'torch' && isVersion(torch) ? later(oldest, torch) : oldest;
    lines.push(`${name}>=${min},<${tooNew}`);
  }
  const more = new Map(
    Object.entries(packages).map(([name, version]) => [plainName(name), [name, version] as const]),
  );
  const classes = BundleConfig.classes(config.components());
  const needed = [
    ...neededBy.filter(([of]) => classes.some((name) => of.test(name))).map(([, name]) => name),
    ...(config.text.includes('ITKReader') ? ['itk'] : []),
    ...(config.file.endsWith('.json') ? [] : ['pyyaml']),
  ];
  for (const name of needed) if (!more.has(name)) more.set(name, [name, '']);
  const has = new Set(['monai', ...Object.keys(provided)].map(plainName));
  for (const [plain, [name, version]] of more) {
    // The name and version come from the bundle, so they are checked.
    if (has.has(plain) || !/^[A-Za-z0-9][\w.-]*$/.test(name)) continue;
    lines.push(isVersion(version) ? `${name}>=${version}` : name);
  }
  return `${lines.join('\n')}\n`;
}

/** Transforms that do not change labels. */
const harmless = new Set([
  ...['Invertd', 'SaveImaged', 'EnsureTyped', 'CastToTyped', 'ToDeviced', 'ToTensord', 'ToNumpyd'],
  ...['KeepLargestConnectedComponentd', 'RemoveSmallObjectsd', 'FillHolesd', 'SqueezeDimd'],
]);

/** The postprocessing transforms, and the index of the one that produces labels. */
function postprocessing({ content }: BundleConfig) {
  const listed = (content.postprocessing as Readonly<Record<string, unknown>>).transforms;
  const transforms: readonly Component[] = Array.isArray(listed) ? listed : [];
  const classes = BundleConfig.classes(transforms);
  const at = classes.indexOf('AsDiscreted');
  return { transforms, classes, at, discrete: transforms[at] };
}

/** The label values in results and their names; null if only the bundle's code determines them. */
function labelsOf({
  config,
  output,
}: MonaiBundle): { readonly value: number; readonly name: string }[] | null {
  const names = output.channel_def ?? {};
  const { classes, at, discrete } = postprocessing(config);
  const isClear =
    at === classes.lastIndexOf('AsDiscreted') && classes.slice(at + 1).every((name) => harmless.has(name));
  if (discrete === undefined || !isClear || (discrete.to_onehot ?? null) !== null) return null;
  if (config.valueOf(discrete.argmax) === true) {
    const labels = Object.entries(names).map(([value, name]) => ({ value: Number(value), name }));
    const isWhole = labels.every(({ value }) => Number.isSafeInteger(value) && value >= 0);
    const found = labels.filter(({ value }) => value !== 0);
    return isWhole && found.length > 0 ? found : null;
  }
  const only = Object.values(names);
  return (discrete.threshold ?? null) !== null && only.length === 1
    ? [{ value: 1, name: only[0] ?? '' }]
    : null;
}

/** Whether resampling to the scan's grid interpolates labels, which would produce values in between. */
function interpolatesLabels({ config }: MonaiBundle): boolean {
  const { transforms, at } = postprocessing(config);
  const later = at < 0 ? [] : transforms.slice(at + 1);
  return later.some((each) => each._target_.endsWith('Invertd') && each.nearest_interp === false);
}

/** Whether probabilities exist on the scan's grid, right before they become labels. */
function hasProbabilities({ config }: MonaiBundle): boolean {
  const { transforms, classes, at, discrete } = postprocessing(config);
  const isDecision = discrete?.argmax === true || typeof discrete?.threshold === 'number';
  const isProbable = transforms
    .slice(0, Math.max(at, 0))
    .some(
      (each) => each._target_.endsWith('Activationsd') && (each.softmax === true || each.sigmoid === true),
    );
  const resampled = config.components('SaveImaged').some(({ resample }) => (resample ?? false) !== false);
  return isDecision && isProbable && classes.lastIndexOf('Invertd') < at && !resampled;
}

const isSize = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => Number.isInteger(each) && each > 0);

/** The inferer, which runs the network on patches. */
const infererOf = (config: BundleConfig): Component | undefined =>
  config.components('SlidingWindowInferer', 'SlidingWindowInfererAdapt', 'SliceInferer')[0];

/** The patch size of a network that works on patches. */
function patchSizeOf({ config, input }: MonaiBundle): { patch_size?: number[] } {
  const inferer = infererOf(config);
  const roi = config.valueOf(inferer?.roi_size);
  if (isSize(roi)) return { patch_size: roi };
  return isSize(input.spatial_shape) ? { patch_size: input.spatial_shape } : {};
}

/** The inferer's settings that `--set` can change. */
function parametersOf({ config }: MonaiBundle) {
  const inferer = infererOf(config);
  if (!inferer) return {};
  const overlap = config.valueOf(inferer.overlap ?? 0.25);
  const batch = config.valueOf(inferer.sw_batch_size ?? 1);
  return {
    ...(typeof overlap === 'number' && {
      overlap: {
        default: overlap,
        min: 0,
        max: 0.95,
        description: 'How far patches overlap, as a part of the patch: more takes longer',
      },
    }),
    ...(typeof batch === 'number' && {
      sw_batch_size: {
        default: batch,
        type: 'integer',
        min: 1,
        description: 'Patches that the network sees at once: fewer need less memory',
      },
    }),
  };
}

function descriptionOf({ metadata, licence }: MonaiBundle): string {
  const { name, version, task, description, intended_use, copyright } = metadata;
  return inSentences([
    description || task,
    `A bundle of MONAI${name && `: ${name}`}${version && `, version ${version}`}`,
    intended_use,
    copyright,
    licence && `Licence: ${licence}`,
  ]);
}

const monaiReference = {
  text: 'Cardoso MJ, Li W, Brown R, et al. MONAI: an open-source framework for deep learning in healthcare (2022).',
  doi: '10.48550/arXiv.2211.02701',
};

function manifestOf(bundle: MonaiBundle, labels: ReturnType<typeof labelsOf>) {
  const { channels, input, metadata, weights } = bundle;
  const named = excerpt(labels?.map(({ name }) => name).join(', ') || metadata.task || metadata.name, 200);
  const isHounsfield = (name: string) => input.format === 'hounsfield' || /^ct$/i.test(name);
  return {
    short_description: labels ? `Segments ${named}` : named || 'A segmentation by MONAI',
    description: descriptionOf(bundle),
    tta: 0,
    models: [path.basename(weights.checkpoint)],
    ...patchSizeOf(bundle),
    parameters: parametersOf(bundle),
    inputs: channelInputs(channels, isHounsfield),
    ...segmentation,
    terminology: terminologyOf(labels ?? []),
    citation: [monaiReference, ...metadata.references.map((text) => ({ text }))],
  };
}

const aboutOf = (bundle: MonaiBundle, isUncertain: boolean): string => {
  const { channels, directory, config, metadata } = bundle;
  const made = [
    metadata.monai_version && `MONAI ${metadata.monai_version}`,
    metadata.pytorch_version && `PyTorch ${metadata.pytorch_version}`,
  ].filter((each) => each !== '');
  return `A bundle of MONAI, from \`${directory}\`. \`bundle/\` has its configuration, its code and its weights.
Its configuration is code, which runs when the app is loaded: take bundles only from somebody whom you trust.

    ${inferLine(channels)}      # ${channels.join(', ')}

- The program runs the evaluator of \`${config.file}\`, with its preprocessing, inferer and postprocessing, as \`python -m monai.bundle run\`
  does. The scans, the device, the weights and the place of the results are those of the app; handlers are left out.
- Results are called like the scan of the first channel, and are NIfTI. DICOM series and other formats are converted first.${
    isUncertain
      ? '\n- `--uncertainty` also writes `<case>_stack.nii.gz`: how probable the network finds the label that it chose.'
      : '\n- The bundle has no probabilities on the grid of the scan: `pipeline` needs `--no-uncertainty`.'
  }
${aboutEvaluation}${
  made.length > 0
    ? `\n- The bundle was made with ${made.join(' and ')}; the program is tried with MONAI ${triedMonai}.`
    : ''
}
`;
};

/** `Uncertainty.yml`, which declares that the app supports this operation. */
const uncertainty =
  '# This app estimates uncertainty: 1 less the probability of the label. There is nothing to set.\n';

/** @throws UsageError for a folder that is not a MONAI bundle, or that needs something that cannot be served */
export function monaiBundleApp({ source = '' }: ModelSource): ModelApp {
  const bundle = readMonaiBundle(source);
  const labels = labelsOf(bundle);
  const isUncertain = hasProbabilities(bundle);
  const placed = (names: readonly string[], place: (name: string) => string) =>
    Object.fromEntries(names.map((name) => [`bundle/${place(name)}`, path.join(bundle.directory, name)]));
  const { others, checkpoint } = bundle.weights;
  return {
    manifest: manifestOf(bundle, labels),
    templates: ['main.py', 'cases.py', 'evaluation.py', 'Evaluation.yml'],
    texts: {
      'requirements.txt': requirementsOf(bundle),
      ...(isUncertain && { 'Uncertainty.yml': uncertainty }),
    },
    copies: placed(bundle.files, (name) => name),
    weights: placed([...others, checkpoint], (name) => `models/${path.basename(name)}`),
    about: aboutOf(bundle, isUncertain),
    source,
    notes: [
      ...bundle.notes,
      ...(interpolatesLabels(bundle)
        ? [
            `${bundle.config.file} interpolates labels (Invertd with nearest_interp false after AsDiscreted), so results have numbers between them`,
          ]
        : []),
      ...(labels === null
        ? [
            "The values of its labels are not known: what metadata.json says does not fit its postprocessing; add a 'terminology' to app.json",
          ]
        : []),
    ],
  };
}
