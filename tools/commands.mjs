/** The commands as data, for the pages that are made of them: what oclif wrote about them in its manifest. */

/** A flag that every command, or every command of a client, has. */
export const isShared = ({ helpGroup }) => helpGroup === 'SERVER' || helpGroup === 'GLOBAL';

export const shownFlags = ({ flags }) => Object.values(flags).filter(({ hidden }) => !hidden);

/** The flags of a command that no other group of commands shares with it. */
export const ownFlags = (command) => shownFlags(command).filter((flag) => !isShared(flag));

export const commandsOf = (manifest) =>
  Object.values(manifest.commands).filter(({ hidden, id }) => !hidden && id !== 'help');

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

/** How a flag is typed: its letter, and its name. */
export const spellings = ({ name, char, allowNo }) => [
  ...(char ? [`-${char}`] : []),
  `--${allowNo ? '[no-]' : ''}${name}`,
];

/** A command as it is typed: a space stands between a topic and its command. */
export const typed = ({ id }) => id.replaceAll(':', ' ');

/** Fills in what the texts of a command leave to oclif. */
export const filled = (text, bin, command) =>
  text.replaceAll('<%= config.bin %>', bin).replaceAll('<%= command.id %>', typed(command));
