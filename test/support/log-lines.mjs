// @ts-check

/**
 * The data of the events in the text of a log stream. Does not use the parser of the client.
 * @param {string} text
 */
export const linesOf = (text) =>
  text
    .split('\n\n')
    .slice(0, -1)
    .map((event) => event.replace(/^id: \d+\n/, ''))
    .filter((event) => event.startsWith('data: '))
    .map((event) => event.slice('data: '.length));
