import { describe, expect, test } from 'vitest';
import { readRepositoryName } from '../../../src/server/hub/index.js';

describe('the name of an app of a repository', () => {
  test.each([
    ['VBoussot/ImpactSynth:MR', ['VBoussot/ImpactSynth', 'main', 'MR']],
    ['VBoussot/ImpactSynth', ['VBoussot/ImpactSynth', 'main', null]],
    ['a/b@v1.8.7:MR_T1', ['a/b', 'v1.8.7', 'MR_T1']],
    ['a/b@refs/pr/3:X', ['a/b', 'refs/pr/3', 'X']],
    [`a/b@${'0f'.repeat(20)}:X-1.0`, ['a/b', '0f'.repeat(20), 'X-1.0']],
  ])('The name of an app of a repository is read: %s', (text, [repository, revision, folder]) => {
    expect(readRepositoryName(text)).toEqual({ repository, revision, folder });
  });

  // They become directories of the cache, parts of an address and an argument of the engine.
  test.each([
    'name',
    'a/b/c',
    '../b:X',
    'a/..:X',
    '-a/b:X',
    'a/b--c:X',
    'a..b/c:X',
    'a/b:..',
    'a/b:.',
    'a/b:X/Y',
    'a/b:-X',
    'a/b@:X',
    'a/b@../x:X',
    'a/b@-x:X',
    'a/b@x/../../y:X',
    'a/b@x//y:X',
    'a/b@x?y:X',
    'a/b:X:Y',
    'a/b:X\n',
    `a/${'b'.repeat(97)}:X`,
  ])('%j is not the name of an app of a repository', (text) => {
    expect(readRepositoryName(text)).toBe(null);
  });
});
