/** The mode of files that people share, such as results: the umask decides, and a setgid directory gives its group. */
export const sharedMode = 0o666;

/** The mode of all other files: tokens, settings, what a server keeps. */
export const privateMode = 0o600;
