/**
 * Runs `read` without itk-wasm's own console output: on a file it cannot read it prints several lines about debug
 * builds, which would bury the one sentence that this app prints instead.
 */
export async function quietly(read) {
  const { log, error } = console;
  console.log = console.error = () => {};
  try {
    return await read();
  } finally {
    Object.assign(console, { log, error });
  }
}
