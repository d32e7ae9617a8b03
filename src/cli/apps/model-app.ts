/** The kinds of trained networks that `init --from` makes an app of. */
export const modelKinds = ['nnunet'] as const;
export type ModelKind = (typeof modelKinds)[number];

/** A trained network as an app: what `app.json` says of it, and which files it is made of. */
export interface ModelApp {
  /** `app.json`, but for its name, its schema and its command. */
  readonly manifest: Readonly<Record<string, unknown>>;
  /** Files of `templates/from/KIND`, or of `templates/from/shared`. */
  readonly templates: readonly string[];
  /** Other files of the app, with the files of the source that they are copies of. */
  readonly copies: Readonly<Record<string, string>>;
  /** The same for weights, which may be large. */
  readonly weights: Readonly<Record<string, string>>;
  /** What the README says of it, in Markdown. */
  readonly about: string;
  /** What of the source was left out, in sentences. */
  readonly notes: readonly string[];
}

/** A colour for each label. The golden angle keeps the hues of any number of labels apart. */
export function colourOf(index: number): string {
  const hue = (index * 137.508 + 10) % 360;
  const lightness = [0.58, 0.44, 0.72][index % 3] ?? 0.58;
  const reach = 0.62 * Math.min(lightness, 1 - lightness);
  const part = (offset: number) => {
    const at = (offset + hue / 30) % 12;
    const value = lightness - reach * Math.max(-1, Math.min(at - 3, 9 - at, 1));
    return Math.round(255 * value)
      .toString(16)
      .padStart(2, '0');
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

/** A text as a sentence. */
export const sentence = (text: string): string =>
  /[.!?]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;

/** What an app reads or writes, as `app.json` declares it. */
export const volume = (name: string, type: string, more = {}) => ({
  display_name: name,
  volume_type: type,
  required: true,
  ...more,
});
