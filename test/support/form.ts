import { type FormValues, file } from './form.mjs';

/** The field `options`. */
export const options = (value: unknown) => ({ options: JSON.stringify(value) });

/** What the probe is to do, in order (test/fixtures/apps/probe). */
export const steps = (...overrides: string[]) => options({ config_overrides: overrides });

/** The step that prints bytes as they are. */
export const printBytes = (bytes: string | Uint8Array): string =>
  `bytes=${Buffer.from(bytes as string).toString('base64')}`;

/** The smallest valid form of each operation. */
export const least = {
  infer: { inputs: file('ct.nii') },
  evaluate: { inputs: file('ct.nii'), gt: file('gt.nii') },
  uncertainty: { inputs: file('stack.nii') },
  pipeline: { inputs: file('ct.nii'), gt: file('gt.nii') },
} as const satisfies Record<string, FormValues>;
