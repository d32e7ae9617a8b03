/** The values that the KonfAI ecosystem writes in an `app.json`, brought to what the schema asks for, as its own reader does. */

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** As Python's `int()`: text of digits, and a fraction without what follows its point. Others stay, for the schema to refuse. */
function whole(value: unknown): unknown {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'number') return Math.trunc(value);
  return typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? Number(value) : value;
}

/** Numbers and truth values as text; nothing as an empty text. */
function text(value: unknown): unknown {
  if (value === null) return '';
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
}

/** As Python's `bool()`. */
function truth(value: unknown): unknown {
  if (Array.isArray(value) || isObject(value)) return value;
  return value !== 0 && value !== '' && value !== null && value !== false;
}

/** Something for each value of an object; another value stays. */
function each(object: unknown, change: (value: unknown) => unknown): unknown {
  if (!isObject(object)) return object;
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}

/** These keys of an object changed; a key that is not there stays away. */
function withKeys(value: unknown, changes: Readonly<Record<string, (value: unknown) => unknown>>): unknown {
  if (!isObject(value)) return value;
  const changed = Object.entries(changes).flatMap(([key, change]) =>
    value[key] === undefined ? [] : [[key, change(value[key])] as const],
  );
  return { ...value, ...Object.fromEntries(changed) };
}

const volume = (value: unknown): unknown => withKeys(value, { display_name: text, required: truth });
const volumes = (value: unknown): unknown => (value === null ? {} : each(value, volume));
const list = (value: unknown, item: (value: unknown) => unknown): unknown =>
  Array.isArray(value) ? value.map(item) : value;

/** `"None"` and the like mean that the prediction configuration has it. */
const patchSize = (value: unknown): unknown => (Array.isArray(value) ? value.map(whole) : null);

/** @param json the content of an `app.json` */
export function coerceManifest(json: unknown): unknown {
  const coerced = withKeys(json, {
    display_name: text,
    description: text,
    short_description: text,
    tta: whole,
    mc_dropout: whole,
    inputs: volumes,
    outputs: volumes,
    inputs_evaluations: (value) => (value === null ? {} : each(value, (byFile) => each(byFile, volumes))),
    terminology: (value) => each(value, (entry) => withKeys(entry, { name: text, color: text })),
    models: (value) => list(value, text),
    patch_size: patchSize,
  });
  if (!isObject(coerced)) return coerced;
  // A key that is null counts as missing.
  const optional = ['command', 'resident', 'models', 'terminology', 'parameters'];
  return Object.fromEntries(
    Object.entries(coerced).filter(([key, value]) => value !== null || !optional.includes(key)),
  );
}
