/**
 * Makes synthetic head volumes with their true labels:
 *   node phantom.mjs --out DIR --cases 3 --size 48 --seed 1 [--layout flat|dataset] [--contrast pd|t1|t2] [--format nii.gz]
 * `flat` writes image/<case>.nii.gz and label/<case>.nii.gz; `dataset` writes <case>/image.nii.gz and
 * <case>/label.nii.gz, which is what fine-tuning reads. The shipped checkpoints were trained on `pd`; the others are
 * domains that they have not seen.
 */
import { AppError } from './lib/errors.mjs';
import { makeHeads } from './lib/make-heads.mjs';

try {
  for (const image of await makeHeads(process.argv.slice(2))) console.log(image);
} catch (error) {
  process.stderr.write(`${error instanceof AppError ? error.message : (error.stack ?? error)}\n`);
  process.exitCode = error instanceof AppError ? error.exitCode : 1;
}
