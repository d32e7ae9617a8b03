import path from 'node:path';
import { isSameGeometry, labelMapOf, type VolumeFile } from '@remote-app/volumes';
import { foldedName } from '../../files/index.js';

/** A single-value mask with its name. */
interface NamedMask {
  readonly file: VolumeFile;
  /** Its name without the extension. */
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

/** Words that qualify a structure without naming it. */
const sides = /^(left|right|upper|lower|middle|inferior|superior|anterior|posterior|small|large|l|r)$/;

/** A name reduced to its words: `Kidney left` and `kidney_left` are equal. */
export const organKey = (name: string): string =>
  foldedName(name)
    .split(/[_\-.\s]+/)
    .filter(Boolean)
    .join(' ');

/**
 * Splits a name into a prefix, such as the patient's name, and the name of the organ; null if no organ is named.
 * @param known keys of further organ names
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

/** Words about how a mask was made: two masks of one organ made in different ways are not two organs. */
const waysMade =
  /^(mask|masks|seg|segmentation|label|labels|pred|prediction|gt|truth|manual|auto|final|ensemble|uncertainty|(rater|fold|model|member|checkpoint)(\d*|all)|v\d+)$/;

const ownName = (name: string): string =>
  organKey(name)
    .replaceAll(/\b(rater|fold|model|member|checkpoint) (?=(\d+|all)\b)/g, '$1')
    .split(' ')
    .filter((word) => !waysMade.test(word))
    .join(' ');

/** Maximum number of masks of one case: labels have 16 bits, and all files are open at the same time. */
const maxOrgans = 500;

/** Masks that are the organs of one patient. */
export interface OrganGroup<T extends NamedMask> {
  readonly masks: readonly T[];
  /** The prefix of all their names; empty if they have none. */
  readonly prefix: string;
}

/**
 * Groups masks of one folder, grid and patient, each of one organ that its file is named after, as TotalSegmentator writes them.
 * A mask whose name is not an organ is included if nearly all others in its folder are.
 * @param masks each of one value
 * @param known further organ names, such as those of the app's labels
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
    // A name such as `segmentation` may mean all of the organs, or something else.
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

/** The name of an organ, without the prefix of its group. */
export const nameInGroup = (name: string, prefix: string): string =>
  name.slice(prefix.length).replace(/^[_\-.\s]+/, '');

/** Combines masks of organs into one segmentation whose labels are named after the files. */
export function organsOf<T extends NamedMask>({ masks, prefix }: OrganGroup<T>): VolumeFile {
  const ordered = masks.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const files = ordered.map(({ file }) => file);
  const labels = ordered.map(({ name }, at) => ({
    value: at + 1,
    name: nameInGroup(name, prefix),
    colour: null,
  }));
  return labelMapOf(files, labels, path.dirname(files[0]?.path ?? ''));
}
