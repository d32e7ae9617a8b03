/** Sets `process.platform` to another system. Paths, signals and files stay those of this one. */
export function imitate(platform: NodeJS.Platform): Disposable {
  const own = Object.getOwnPropertyDescriptor(process, 'platform');
  if (!own) throw new Error('process has no platform of its own');
  Object.defineProperty(process, 'platform', { ...own, value: platform });
  return { [Symbol.dispose]: () => Object.defineProperty(process, 'platform', own) };
}
