/**
 * The mode of a new file that a person asked for, and of what a colleague's next command needs beside it: the umask decides, as for
 * the files of any other program, and a setgid directory gives its group.
 */
export const sharedMode = 0o666;

/** The mode of all others: tokens, settings, what a server keeps. */
export const privateMode = 0o600;
