/** A form's values by field; a list is sent as repeated parts. */
export type FormValues = Readonly<Record<string, string | File | readonly (string | File)[]>>;

/** A file part. */
export const file = (name: string, content: string | Uint8Array<ArrayBuffer> = 'voxels'): File =>
  new File([content], name);

/** A multipart form, its parts in the order given. */
export function formOf(values: FormValues): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) {
    for (const each of [value].flat() as (string | File)[]) {
      if (typeof each === 'string') form.append(name, each);
      else form.append(name, each, each.name);
    }
  }
  return form;
}

/** The field `options`. */
export const options = (value: unknown) => ({ options: JSON.stringify(value) });

/** What the probe is to do, in order (test/fixtures/apps/probe). */
export const steps = (...overrides: string[]) => options({ config_overrides: overrides });

/** The step that prints bytes as they are. */
export const printBytes = (bytes: string | Uint8Array): string =>
  `bytes=${Buffer.from(bytes as string).toString('base64')}`;

/** The least that each operation takes. */
export const least = {
  infer: { inputs: file('ct.nii') },
  evaluate: { inputs: file('ct.nii'), gt: file('gt.nii') },
  uncertainty: { inputs: file('stack.nii') },
  pipeline: { inputs: file('ct.nii'), gt: file('gt.nii') },
} as const satisfies Record<string, FormValues>;
