/** Attributes that may leave for one reason. */
export interface AttributeGroup {
  readonly reason: string;
  /** The option of PS3.15 (E.1-1) that keeps attributes which the Basic Profile removes. */
  readonly option?: string;
  /** `emission`: only in PET and NM. `timed`: also in objects with functional groups. */
  readonly only?: 'emission' | 'timed';
  /**
   * Whether a file is refused if the numbers, times or items of these attributes cannot be kept: without them, the image would
   * mean something else.
   */
  readonly isNeeded?: boolean;
  /**
   * One attribute per line: tag, value representations and keyword, with `*` for any number of values. A colon introduces the
   * values that may leave: `A | B`, a list in terms.ts (`@list`) or a regular expression (`/x/`). A question mark introduces the
   * replacement for other values; without one, the attribute is removed. With `?!`, the file is refused.
   */
  readonly rows: string;
}

/**
 * How a value is treated: valid numbers, listed terms, mapped or standard UIDs, a pseudonym, a shifted time, items, parts of a
 * Siemens CSA header, or a fallback.
 */
export type Treatment =
  | 'numbers'
  | 'terms'
  | 'uid'
  | 'well-known'
  | 'pseudonym'
  | 'time'
  | 'items'
  | 'csa'
  | 'fallback';

/** An attribute that may leave. */
export interface Attribute {
  readonly tag: string;
  readonly vrs: readonly string[];
  /** `Modality (0008,0060)`. */
  readonly name: string;
  readonly treatment: Treatment;
  /** Whether a text, without its padding, may leave. */
  readonly allows: (text: string) => boolean;
  /** The replacement for a value that may not leave; null to remove the attribute. */
  readonly fallback: string | null;
  /** Whether a file is refused if a value may not leave. */
  readonly isNeeded: boolean;
  readonly maxValues: number;
  readonly reason: string;
  readonly option: string | null;
}

/** Maximum number of values of an attribute that is not a list: a matrix has 16. */
const fewValues = 16;

const line =
  /^(?<tag>[0-9a-f]{8}) (?<vrs>[A-Z|]+) (?<keyword>\w+)(?<list>\*?)(?:: ?(?<values>[^?]*?)(?<fallback> ?\?.*)?)?$/;

const nothing = (): boolean => false;

/** Makes the test for the values after the colon of a line. */
function testOf(values: string, lists: Readonly<Record<string, string>>): (text: string) => boolean {
  const [, pattern, list] = /^(?:\/(.*)\/)?(?:@(\w+))?$/.exec(values) ?? [];
  const words = list === undefined ? (pattern === undefined ? values : '') : lists[list];
  if (words === undefined) throw new Error(`There is no list of terms '${list}'`);
  const terms = new Set(words.split('|').map((each) => each.replaceAll(/\s+/g, ' ').trim()));
  terms.delete('');
  if (pattern === undefined) return (text) => terms.has(text);
  const whole = new RegExp(`^(?:${pattern})$`);
  return (text) => whole.test(text) || terms.has(text);
}

function treatmentOf(vr: string, values: string): Treatment {
  if (values === 'well-known' || values === 'pseudonym' || values === 'csa') return values;
  if (values !== '') return 'terms';
  if (vr === 'UI') return 'uid';
  if (vr === 'SQ') return 'items';
  if (/^(?:DA|TM|DT)$/.test(vr)) return 'time';
  return /^(?:DS|IS|US|SS|UL|SL|FL|FD|AT|OW)$/.test(vr) ? 'numbers' : 'fallback';
}

/** Formats a tag: `(0008,1030)`. */
export const tagText = (tag: string): string => `(${tag.slice(0, 4)},${tag.slice(4).toUpperCase()})`;

/** Parses the rows of attribute groups, in order. @throws Error for a line that cannot be read */
export function readTable(
  groups: readonly AttributeGroup[],
  lists: Readonly<Record<string, string>>,
): (Attribute & Pick<AttributeGroup, 'only'>)[] {
  return groups.flatMap(({ reason, option, only, isNeeded, rows }) =>
    rows
      .trim()
      .split('\n')
      .map((row) => {
        const { tag, vrs, keyword, list, values, fallback } = line.exec(row.trim())?.groups ?? {};
        if (tag === undefined || vrs === undefined)
          throw new Error(`This is no line of an attribute: ${row}`);
        const told = values?.trim() ?? '';
        const ways = vrs.split('|');
        const replaced = fallback?.replace('?', '').trim() ?? null;
        const isNever = told === '' && replaced !== null;
        const treatment = isNever ? 'fallback' : treatmentOf(ways[0] ?? '', told);
        return {
          tag,
          vrs: ways,
          name: `${keyword} ${tagText(tag)}`,
          treatment,
          allows: told === '' ? nothing : testOf(told, lists),
          fallback: replaced === '!' ? null : replaced,
          isNeeded: replaced === '!' || (isNeeded === true && /^(?:numbers|time|items)$/.test(treatment)),
          maxValues: list ? Number.POSITIVE_INFINITY : fewValues,
          reason,
          option: option ?? null,
          ...(only ? { only } : {}),
        };
      }),
  );
}
