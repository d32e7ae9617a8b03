// @ts-check

/**
 * A form's values by field; a list is sent as repeated parts.
 * @typedef {Readonly<Record<string, string | File | readonly (string | File)[]>>} FormValues
 */

/**
 * A file part.
 * @param {string} name
 * @param {string | Uint8Array<ArrayBuffer>} [content]
 */
export const file = (name, content = 'voxels') => new File([content], name);

/**
 * A multipart form, its parts in the order given.
 * @param {FormValues} values
 */
export function formOf(values) {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) {
    for (const each of [value].flat()) {
      if (typeof each === 'string') form.append(name, each);
      else form.append(name, each, each.name);
    }
  }
  return form;
}
