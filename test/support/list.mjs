// @ts-check

/**
 * The list of the words of a text, for names without blanks.
 * @param {TemplateStringsArray} texts
 * @returns {string[]}
 */
export const list = ([text = '']) => text.split(/\s+/);
