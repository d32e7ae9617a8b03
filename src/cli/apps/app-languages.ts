/** The languages that a new app can be written in: its command, the last word of which is the program's file. */
export const languages = {
  python: ['python3', 'main.py'],
  shell: ['sh', 'main.sh'],
  javascript: ['node', 'main.mjs'],
} as const satisfies Record<string, readonly [string, string]>;
export type Language = keyof typeof languages;

export const languageNames = Object.keys(languages) as readonly Language[];

/** Those that a resident app can be written in: the file beside the program that speaks with the server. */
export const residentHelpers: Readonly<Partial<Record<Language, string>>> = {
  python: 'resident.py',
  javascript: 'resident.mjs',
};
