/** A promise with the functions that settle it, like `Promise.withResolvers` of Node 22. */
export function deferred<Value>() {
  let resolve: (value: Value) => void = () => {};
  let reject: (cause: unknown) => void = () => {};
  const promise = new Promise<Value>((...settle) => {
    [resolve, reject] = settle;
  });
  return { promise, resolve, reject };
}
