/** The mode of files that are shared between users, such as results: the umask decides, and a setgid directory sets the group. */
export const sharedMode = 0o666;

/** The mode of all other files: tokens, settings, and the server's own data. */
export const privateMode = 0o600;
