import type { Segment, VolumeFile } from '@remote-app/volumes';
import { organKey, type Terminology } from '../matching/index.js';
import { readColour } from '../pictures/index.js';

/** `#eb8` and `#e0b088` as `#rrggbb`; null for what is no colour. */
function hexOf(color: string | undefined | null): string | null {
  const parts = color ? readColour(color) : null;
  return parts && `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** What the labels of a volume are called: as the app says it, and otherwise as the file does. The first name of a value counts. */
export function segmentsOf(volume: VolumeFile, terminology: Terminology): Segment[] {
  const own = (volume.labels ?? []).map(({ value, name, colour }): Segment => {
    return { value, name, color: hexOf(colour), snomed: null };
  });
  const said = Object.entries(terminology).map(([value, { name, color, snomed }]): Segment => {
    return { value: Number(value), name, color: hexOf(color), snomed: snomed ?? null };
  });
  return [...said, ...own];
}

/** The label of an app that has the name of a file; null if it has none of that name. */
export function segmentNamed(name: string, terminology: Terminology): Omit<Segment, 'value'> | null {
  const said = Object.values(terminology).find((each) => organKey(each.name) === organKey(name));
  return said ? { name: said.name, color: hexOf(said.color), snomed: said.snomed ?? null } : null;
}
