/** The languages that a new app can be written in: its command, the last word of which is the program's file. */
export const languages = {
  python: ['python3', 'main.py'],
  shell: ['sh', 'main.sh'],
  javascript: ['node', 'main.mjs'],
} as const satisfies Record<string, readonly [string, string]>;
export type Language = keyof typeof languages;

export const languageNames = Object.keys(languages) as readonly Language[];
