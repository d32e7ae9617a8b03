/** Attributes that may leave for one reason. */
export interface AttributeGroup {
  readonly reason: string;
  /** The option of PS3.15 (E.1-1) that keeps what the Basic Profile would remove. */
  readonly option?: string;
  /** `emission`: of PET and nuclear medicine alone. `timed`: of these and of objects with functional groups. */
  readonly only?: 'emission' | 'timed';
  /**
   * One a line: tag, value representations, keyword, with `*` if it has any number of values. After a colon the values that
   * may leave, as `A | B`, a list of terms.ts (`@list`) or an expression (`/x/`), and after a question mark what is written in
   * place of others: without it, the attribute is left out.
   */
  readonly rows: string;
}

/**
 * What is written for a value: numbers that are numbers, one of the terms, a mapped UID, a UID of the standard, a pseudonym,
 * a shifted time, the items, or never the value itself.
 */
export type Treatment =
  | 'numbers'
  | 'terms'
  | 'uid'
  | 'well-known'
  | 'pseudonym'
  | 'time'
  | 'items'
  | 'fallback';

/** An attribute that may leave. */
export interface Attribute {
  readonly tag: string;
  readonly vrs: readonly string[];
  /** `Modality (0008,0060)`. */
  readonly name: string;
  readonly treatment: Treatment;
  /** Whether a text, without the padding around it, may leave. */
  readonly allows: (text: string) => boolean;
  /** What is written in place of a value that may not leave; null if nothing is. */
  readonly fallback: string | null;
  readonly mostValues: number;
  readonly reason: string;
  readonly option: string | null;
}

/** Most values of an attribute that is no list: a matrix has 16. */
const fewValues = 16;

const line =
  /^(?<tag>[0-9a-f]{8}) (?<vrs>[A-Z|]+) (?<keyword>\w+)(?<list>\*?)(?:: ?(?<values>[^?]*?)(?<fallback> ?\?.*)?)?$/;

const nothing = (): boolean => false;

/** The test of what stands after the colon of a line. */
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
  if (values === 'well-known' || values === 'pseudonym') return values;
  if (values !== '') return 'terms';
  if (vr === 'UI') return 'uid';
  if (vr === 'SQ') return 'items';
  if (/^(?:DA|TM|DT)$/.test(vr)) return 'time';
  return /^(?:DS|IS|US|SS|UL|SL|FL|FD|AT|OW)$/.test(vr) ? 'numbers' : 'fallback';
}

/** The attributes of groups, in their order. @throws Error for a line that cannot be read */
export function readTable(
  groups: readonly AttributeGroup[],
  lists: Readonly<Record<string, string>>,
): (Attribute & Pick<AttributeGroup, 'only'>)[] {
  return groups.flatMap(({ reason, option, only, rows }) =>
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
        return {
          tag,
          vrs: ways,
          name: `${keyword} (${tag.slice(0, 4)},${tag.slice(4).toUpperCase()})`,
          treatment: isNever ? 'fallback' : treatmentOf(ways[0] ?? '', told),
          allows: told === '' ? nothing : testOf(told, lists),
          fallback: replaced,
          mostValues: list ? Number.POSITIVE_INFINITY : fewValues,
          reason,
          option: option ?? null,
          ...(only ? { only } : {}),
        };
      }),
  );
}
