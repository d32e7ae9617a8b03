import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { AppError } from './errors.mjs';
import { computeFeatures } from './features.mjs';
import { readVolume, requireSameGeometry } from './volume.mjs';

/**
 * A training set on disk: `DIR/<case>/image.*` and `DIR/<case>/label.*`, in any format that is read; `image`
 * may also be a directory with a DICOM series. If everything is inside one folder, that folder is used.
 */
export async function findDataset(directory) {
  const names = await directoriesIn(directory);
  const cases = (await Promise.all(names.map((name) => findCase(directory, name)))).filter(Boolean);
  if (cases.length > 0) return cases;
  if (names.length === 1) return findDataset(path.join(directory, names[0]));
  throw new AppError(
    `${path.basename(directory)} holds no training cases: each is a folder with image.nii.gz and label.nii.gz (or another format).`,
  );
}

async function directoriesIn(directory) {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => {
    throw new AppError(`${path.basename(directory)} is not a directory that can be read.`);
  });
  const isCase = (entry) => entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== '__MACOSX';
  return entries
    .filter(isCase)
    .map((entry) => entry.name)
    .sort();
}

async function findCase(directory, name) {
  const folder = path.join(directory, name);
  const entries = await readdir(folder);
  const find = (role) =>
    entries.find(
      (entry) => (entry === role || entry.startsWith(`${role}.`)) && !/\.(z?raw|img)(\.gz)?$/.test(entry),
    );
  const [image, label] = [find('image'), find('label')];
  if (image === undefined && label === undefined) return undefined;
  if (image === undefined || label === undefined)
    throw new AppError(`${name} has no ${image === undefined ? 'image' : 'label'} file.`);
  return { name, image: path.join(folder, image), label: path.join(folder, label) };
}

/** A case ready to train on: its features and its labels. */
export async function loadCase({ name, image, label }, classes, log) {
  const volume = await readVolume(image, log);
  const truth = await readVolume(label, log);
  const labelName = path.join(name, path.basename(label));
  requireSameGeometry(volume, path.join(name, path.basename(image)), truth, labelName);
  const labels = Uint8Array.from(truth.data);
  for (let i = 0; i < labels.length; i += 1) {
    if (labels[i] !== truth.data[i] || labels[i] >= classes)
      throw new AppError(
        `${labelName} holds ${truth.data[i]}, and the checkpoint knows the labels 0 to ${classes - 1}.`,
      );
  }
  return { name, features: computeFeatures(volume), labels };
}
