/**
 * 32 hexadecimal digits that nothing else has. They are no secret, so they do not come from `node:crypto`: to load it takes
 * 8 ms of a start.
 */
export const uniqueText = (): string =>
  Array.from({ length: 4 }, () =>
    Math.floor(Math.random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  ).join('');
