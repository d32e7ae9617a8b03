import path from 'node:path';
import {
  isSameGeometry,
  type Slice,
  type SliceChoice,
  VolumeError,
  type VolumeFile,
} from '@remote-app/volumes';
import { foldedName } from '../../files/index.js';

/** A mask of one value, by what it is called. */
interface NamedMask {
  readonly file: VolumeFile;
  /** Without the ending. */
  readonly name: string;
}

/** Words of names of organs and structures, as TotalSegmentator and others write them. */
const anatomy = new Set(
  `adrenal aorta aortic artery arteries atrial atrium autochthon bladder bone bones bowel brachiocephalic brain brainstem breast
  bronchus bronchi cardiac carotid caudate cavity cava cerebellum cheek clavicula clavicle cochlea colon costal cortex duct
  duodenum ear edema enhancing esophagus eye face fat femur fibula fluid foot gallbladder gland globus gluteus gtv gyrus hand
  hard head heart hip hippocampus humerus hypopharynx iliac iliopsoas intestine jugular kidney larynx lens lesion lesions ligament
  lips liver lobe lung lungs mandible mass meninges muscle myocardium nerve nodule nucleus oesophagus optic oral ovary palate
  pallidum pancreas parotid patella pelvis pharynx pleural portal prostate psoas ptv ctv pulmonary putamen radius rectum
  rib ribs sacrum scapula scrotum seminal shoulder sinus skin skull spinal spine spleen splenic sternum stomach subclavian
  submandibular subcutaneous tarsal teeth testis thalamus thigh thymus thyroid tibia tissue tongue torso trachea trunk tumor
  tumour ulna ureter urethra urinary uterus vagina vein veins vena ventricle ventricles vertebra vertebrae vesicle vessel
  vessels organ organs roi segment structure body necrosis infarct hematoma haemorrhage hemorrhage cyst stone calcification`.split(
    /\s+/,
  ),
);

/** Words that say nothing of what a mask is of. */
const sides = /^(left|right|upper|lower|middle|inferior|superior|anterior|posterior|small|large|l|r)$/;

/** A name by its words alone: `Kidney left` and `kidney_left` are one. */
export const organKey = (name: string): string =>
  foldedName(name)
    .split(/[_\-.\s]+/)
    .filter(Boolean)
    .join(' ');

/**
 * A name in front of that of the organ, such as that of the patient, and the organ's own; null where none is named.
 * @param known keys of other names of organs
 */
function partsOf(
  name: string,
  known: ReadonlySet<string>,
): { readonly prefix: string; readonly organ: string } | null {
  if (known.has(organKey(name))) return { prefix: '', organ: name };
  const words = [...foldedName(name).matchAll(/[^_\-.\s]+/g)];
  const first = words.findIndex(([word]) => anatomy.has(word.replace(/\d+$/, '')));
  if (first < 0) return null;
  let from = first;
  while (from > 0 && sides.test(words[from - 1]?.[0] ?? '')) from -= 1;
  const at = words[from]?.index ?? 0;
  return { prefix: name.slice(0, at).replace(/[_\-.\s]+$/, ''), organ: name.slice(at) };
}

/** Words that say how a mask came about: two masks of one organ are not two organs. */
const waysMade =
  /^(mask|masks|seg|segmentation|label|labels|pred|prediction|gt|truth|manual|auto|final|ensemble|uncertainty|(rater|fold|model|member|checkpoint)(\d*|all)|v\d+)$/;

const ownName = (name: string): string =>
  organKey(name)
    .replaceAll(/\b(rater|fold|model|member|checkpoint) (?=(\d+|all)\b)/g, '$1')
    .split(' ')
    .filter((word) => !waysMade.test(word))
    .join(' ');

/** Most masks of one case: labels have 16 bits, and their files are open at once. */
const maxOrgans = 500;

/** Masks that are the organs of one patient, and how many of those beside them are no organs by their names. */
export interface OrganGroup<T extends NamedMask> {
  readonly masks: readonly T[];
  /** The name in front of all of them; empty for that of their folder. */
  readonly prefix: string;
}

/**
 * Masks of one folder, grid and patient that each have one organ, named by its file: what TotalSegmentator writes. Those
 * that name no organ belong to them where nearly all others in the folder do.
 * @param masks each of one value
 * @param known other names of organs, such as those of the app's labels
 */
export function organGroups<T extends NamedMask>(
  masks: readonly T[],
  known: readonly string[] = [],
): OrganGroup<T>[] {
  const keys = new Set(known.map(organKey));
  const groups: { masks: T[]; prefix: string; folder: string }[] = [];
  const unnamed: T[] = [];
  for (const mask of masks) {
    const parts = partsOf(mask.name, keys);
    if (!parts) {
      unnamed.push(mask);
      continue;
    }
    const folder = path.dirname(path.resolve(mask.file.path));
    const same = groups.find(
      (group) =>
        group.folder === folder &&
        group.prefix === parts.prefix &&
        group.masks.length < maxOrgans &&
        isSameGeometry(group.masks[0]?.file ?? mask.file, mask.file),
    );
    if (same) same.masks.push(mask);
    else groups.push({ masks: [mask], prefix: parts.prefix, folder });
  }
  for (const mask of unnamed) {
    // Such as `segmentation`: of all of them, or of another thing.
    if (ownName(mask.name) === '') continue;
    const folder = path.dirname(path.resolve(mask.file.path));
    const beside = groups.filter((group) => group.folder === folder);
    const [only] = beside;
    const others = unnamed.filter((each) => path.dirname(path.resolve(each.file.path)) === folder).length;
    const isOfAll = beside.length === 1 && only?.prefix === '' && only.masks.length >= 2 * others;
    if (isOfAll && only.masks[0] && isSameGeometry(only.masks[0].file, mask.file)) only.masks.push(mask);
  }
  return groups.filter(({ masks: own, prefix }) => {
    const names = own.map(({ name }) => ownName(nameInGroup(name, prefix)));
    return own.length > 1 && new Set(names).size === names.length;
  });
}

/** The name of an organ of a group. */
export const nameInGroup = (name: string, prefix: string): string =>
  name.slice(prefix.length).replace(/^[_\-.\s]+/, '');

/** Masks of organs as one segmentation, whose labels have the names of the files. */
export function organsOf<T extends NamedMask>({ masks, prefix }: OrganGroup<T>): VolumeFile {
  const ordered = masks.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const files = ordered.map(({ file }) => file);
  const [first] = files;
  if (!first) throw new RangeError('There is no mask.');
  const folder = path.dirname(first.path);
  const length = first.size[0] * first.size[1];
  const values = files.length > 255 ? new Uint16Array(length) : new Uint8Array(length);
  const put = (slice: Slice, label: number) => {
    for (let at = 0; at < length; at += 1) if (slice.values[at]) values[at] = label;
  };
  return {
    path: folder,
    format: first.format,
    size: first.size,
    affine: first.affine,
    hasOrientation: first.hasOrientation,
    components: 1,
    frames: 1,
    modality: null,
    labels: ordered.map(({ name }, at) => ({ value: at + 1, name: nameInGroup(name, prefix), colour: null })),
    async *slices({ only, frame = 0 }: SliceChoice = {}) {
      if (frame !== 0) throw new VolumeError(`${folder} holds one segmentation.`);
      const readers = files.map((file) => file.slices(only ? { only } : {}));
      try {
        for (;;) {
          values.fill(0);
          let k: number | undefined;
          for (const [index, reader] of readers.entries()) {
            const { value, done } = await reader.next();
            if (done) return;
            k = value.k;
            put(value, index + 1);
          }
          if (k === undefined) return;
          yield { k, values };
        }
      } finally {
        for (const reader of readers) await reader.return();
      }
    },
    async *layers() {
      for (const [index, file] of files.entries())
        for await (const slice of file.slices()) {
          values.fill(0);
          put(slice, index + 1);
          yield { k: slice.k, values };
        }
    },
  };
}
