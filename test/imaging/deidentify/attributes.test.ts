import { readFile } from 'node:fs/promises';
import { attributes, identifyingTags } from '@remote-app/volumes/attributes';
import { describe, expect, test } from 'vitest';

const facts = new Map(
  (await readFile(new URL('basic-profile.txt', import.meta.url), 'utf8'))
    .split('\n')
    .filter((line) => /^[0-9a-f]{8} /.test(line))
    .map((line) => line.split(' ') as [tag: string, action: string]),
);

describe('attributes that may be sent', () => {
  test.each(Object.entries(attributes))(
    'The table %s allows no attribute that the Basic Profile removes',
    (_, table) => {
      const kept = [...table.values()].flatMap(({ tag, name, treatment, option, fallback }) => {
        const action = facts.get(tag);
        if (action === undefined || option !== null) return [];
        // A value of our own, or none, in place of that of the file.
        const isReplaced = treatment === 'uid' || treatment === 'pseudonym' || treatment === 'fallback';
        const mayBe = treatment === 'uid' ? /U/ : fallback === '' ? /Z/ : /D|Z/;
        return isReplaced && mayBe.test(action) ? [] : [`${name}: ${action}`];
      });
      expect(kept).toEqual([]);
    },
  );

  test('The allowed attributes are not checked against an empty list of facts', () => {
    expect(facts.size).toBeGreaterThan(600);
    expect(facts.get('00100010')).toBe('Z');
    expect(facts.get('0008103e')).toBe('X');
  });

  test('Free text is allowed only in attributes that are sent empty or with known words', () => {
    const texts = [...attributes.emission.values()].filter(({ vrs }) =>
      /^(?:LO|SH|CS|UC|LT|ST|UT|PN|AE)$/.test(vrs[0] ?? ''),
    );
    const free = texts.filter(({ treatment }) => !['terms', 'fallback', 'pseudonym'].includes(treatment));
    expect(free.map(({ name }) => name)).toEqual([]);
    const open = texts.filter(
      ({ allows }) => allows('Meier') || allows('MEIER') || allows('Anna') || allows('A1B2C3D4'),
    );
    expect(open.map(({ name }) => name)).toEqual([]);
  });

  test('Each allowed attribute has a reason', () => {
    expect([...attributes.emission.values()].filter(({ reason }) => !/^[A-Z].{10}/.test(reason))).toEqual([]);
  });
});

test('Identifying attributes are emptied, replaced or missing in the table of images', () => {
  const kept = identifyingTags.filter((tag) => {
    const treatment = attributes.image.get(tag)?.treatment;
    return treatment !== undefined && treatment !== 'fallback' && treatment !== 'pseudonym';
  });
  expect(kept).toEqual([]);
});
