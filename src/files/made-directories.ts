/** Directories of packages and of what Python compiled: they hold nothing that the author of an app wrote. */
export const madeDirectories: ReadonlySet<string> = new Set(['node_modules', '__pycache__']);
