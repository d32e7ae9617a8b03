import path from 'node:path';
import { VolumeError, type VolumeFile } from '@remote-app/volumes';
import type { Terminology } from '../../imaging/matching/index.js';
import { type CaseView, type ShownCase, viewCase } from '../../imaging/pictures/index.js';

export interface ViewOptions {
  /** Which volume of a file with several, counted from 1. */
  readonly frame: number;
  readonly terminology: Terminology;
  /** Aborted when a person ends the command: no further case is read, and no half of a file is left. */
  readonly signal: AbortSignal;
}

/** One picture of a case. */
export interface LayerView {
  readonly name: string;
  readonly view: CaseView;
  /** What the app calls the unit of the scan's values. */
  readonly unit: string | null;
  readonly scan: VolumeFile | null;
  readonly mask: VolumeFile | null;
}

/** What a case is drawn with: each segmentation on its scan, and each map with the first of them. */
function layersOf({ scan, masks, maps }: ShownCase): Omit<LayerView, 'view'>[] {
  const [first] = masks;
  const onScan = masks.map(({ name, file, units }) => ({ name, scan, mask: file, unit: units.inputs }));
  const unit = maps[0]?.units.inputs ?? null;
  const alone =
    masks.length === 0 && scan ? [{ name: path.basename(scan.path), scan, mask: null, unit }] : [];
  return [
    ...onScan,
    ...alone,
    ...maps.map(({ name, file, units }) => ({
      ...{ name, scan: file, mask: first?.file ?? null },
      unit: units.outputs,
    })),
  ];
}

/** The views of a case. A volume that cannot be drawn is a problem, and does not hide the others. */
export async function viewsOf(
  shown: ShownCase,
  options: ViewOptions,
  view: { slices: number; maxPixels: number },
  problems: string[],
): Promise<LayerView[]> {
  const how = { ...view, frame: options.frame - 1, signal: options.signal };
  const layers = layersOf(shown);
  const labels = new Map(shown.masks.map(({ file, terminology }) => [file, terminology]));
  const views: LayerView[] = [];
  for (const layer of layers) {
    // What a person gives goes before what the record says.
    const recorded = layer.mask ? labels.get(layer.mask) : undefined;
    const terminology = { ...recorded, ...options.terminology };
    const name = layers.length === 1 ? shown.name : `${shown.name}: ${layer.name}`;
    try {
      const volumes = { name, scan: layer.scan, mask: layer.mask, terminology, unit: layer.unit };
      views.push({ ...layer, view: await viewCase(volumes, how) });
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      problems.push(error.message);
    }
  }
  return views;
}
