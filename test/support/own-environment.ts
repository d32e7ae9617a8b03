/** What commands in this process change of it, how many of them run now, and how it was before. */
let borrowed: { readonly key: string; count: number; readonly giveBack: () => void } | null = null;

function replaceEnvironment(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name];
  for (const [name, value] of Object.entries(env)) if (value !== undefined) process.env[name] = value;
}

/**
 * Runs something with this working directory and these environment variables alone. Two of these at once must agree on them, since
 * a process has one of each.
 */
export async function withOwnEnvironment<T>(
  directory: string,
  env: NodeJS.ProcessEnv,
  run: () => Promise<T>,
): Promise<T> {
  const key = JSON.stringify([directory, Object.entries(env).sort()]);
  if (borrowed !== null && borrowed.key !== key) {
    throw new Error('Another command runs in this process with another environment: use runProcess');
  }
  if (borrowed === null) {
    const before = { directory: process.cwd(), env: { ...process.env } };
    const giveBack = () => {
      replaceEnvironment(before.env);
      process.chdir(before.directory);
    };
    borrowed = { key, count: 0, giveBack };
    process.chdir(directory);
    replaceEnvironment(env);
  }
  const mine = borrowed;
  mine.count += 1;
  try {
    return await run();
  } finally {
    mine.count -= 1;
    if (mine.count === 0) {
      borrowed = null;
      mine.giveBack();
    }
  }
}
