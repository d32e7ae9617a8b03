import { type CaseView, millilitresText, type ShownCase } from '../../imaging/pictures/index.js';
import { type CommandIo, formatTable } from '../terminal/index.js';
import type { LayerView } from './case-views.js';

/** A case, in the document of `--json`. */
export interface CaseDocument {
  readonly name: string;
  /** In the table beside its result; null without one. */
  readonly status: string | null;
  /** Paths, as they were typed or found; null if there is none. */
  readonly scan: string | null;
  readonly mask: string | null;
  readonly maps: readonly string[];
  /** Those of `mask`. */
  readonly labels: readonly LabelDocument[];
  /** All segmentations, `mask` first. */
  readonly layers: readonly {
    readonly name: string;
    readonly path: string;
    readonly labels: readonly LabelDocument[];
  }[];
  readonly notes: readonly string[];
}

interface LabelDocument {
  readonly value: number;
  readonly name: string;
  readonly voxels: number;
  readonly millilitres: number;
}

const labelsOf = (view: CaseView | undefined) =>
  (view?.labels ?? []).map(({ value, name, voxels, millilitres }) => ({ value, name, voxels, millilitres }));

export function documentOf(shown: ShownCase, views: readonly LayerView[]): CaseDocument {
  const { name, scan, masks, maps, notes, status } = shown;
  const segmentations = masks.map((mask) => ({
    name: mask.name,
    path: mask.file.path,
    labels: labelsOf(views.find((each) => each.mask === mask.file && each.scan === scan)?.view),
  }));
  const [first] = segmentations;
  return {
    name,
    status,
    scan: scan?.path ?? null,
    mask: first?.path ?? null,
    maps: maps.map(({ file }) => file.path),
    labels: first?.labels ?? [],
    layers: segmentations,
    notes: [...notes, ...(views[0]?.view.notes ?? [])],
  };
}

export const labelHeading = ['LABEL', 'VALUE', 'VOXELS', 'VOLUME'] as const;

export const rowOf = ({ name, value, voxels, millilitres }: CaseDocument['labels'][number]): string[] => [
  name,
  String(value),
  String(voxels),
  millilitresText(millilitres),
];

/** Prints the labels of all cases. */
export async function printTable(cases: readonly CaseDocument[], io: CommandIo): Promise<void> {
  const rows = cases.flatMap(({ name, layers }) => {
    const isOne = layers.length < 2;
    const ofLayers = layers.flatMap((layer) =>
      layer.labels.map((label) => [isOne ? name : `${name}: ${layer.name}`, ...rowOf(label)]),
    );
    return ofLayers.length === 0 ? [[name, '-', '-', '-', '-']] : ofLayers;
  });
  await io.writeOut(`${formatTable(['CASE', ...labelHeading], rows).join('\n')}\n`);
}
