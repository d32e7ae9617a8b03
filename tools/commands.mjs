/** The commands as data, for the pages that are made of them: what oclif wrote about them in its manifest. */

import { commandGroups } from '../dist/start/help.js';

/** Whether every command, or every command of a client, has a flag. */
export const isShared = ({ helpGroup }) => helpGroup === 'SERVER' || helpGroup === 'GLOBAL';

export const shownFlags = ({ flags }) => Object.values(flags).filter(({ hidden }) => !hidden);

/** The flags of a command that are not shared by a group of commands. */
export const ownFlags = (command) => shownFlags(command).filter((flag) => !isShared(flag));

/** The commands in the groups of the help: each title with its commands. */
export const groupsOf = (manifest) =>
  Object.entries(commandGroups).map(([title, names]) => [
    title,
    names.flatMap((name) =>
      Object.values(manifest.commands).filter(({ id }) => id === name || id.startsWith(`${name}:`)),
    ),
  ]);

export const commandsOf = (manifest) => groupsOf(manifest).flatMap(([, commands]) => commands);

/** The shared flags of all commands, each once. */
export const sharedFlags = (commands) => [
  ...new Map(
    commands
      .flatMap(shownFlags)
      .filter(isShared)
      .map((flag) => [flag.name, flag]),
  ).values(),
];

/** The environment variables that flags have, each once, with the name of the flag. */
export const variablesOf = (commands) => [
  ...new Map(
    commands
      .flatMap(shownFlags)
      .filter(({ env }) => env)
      .map(({ env, name }) => [env, name]),
  ),
];

/** The spellings of a flag: its letter, and its name. */
export const spellings = ({ name, char, allowNo }) => [
  ...(char ? [`-${char}`] : []),
  `--${allowNo ? '[no-]' : ''}${name}`,
];

/** A command as it is typed: a space stands between a topic and its command. */
export const typed = ({ id }) => id.replaceAll(':', ' ');

/** Fills in the placeholders of oclif in the texts of a command. */
export const filled = (text, bin, command) =>
  text.replaceAll('<%= config.bin %>', bin).replaceAll('<%= command.id %>', typed(command));
