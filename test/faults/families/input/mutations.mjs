import { operations as contract } from '../../../../dist/contract/operations.js';
import { list } from '../../../support/list.mjs';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
  sizedPart,
} from '../../../support/multipart.mjs';
import { zip } from '../../../support/zip.mjs';
import { nastyNames, nastyValues } from './nasty.mjs';

/** Routes, fields and values of the service, as targets of mutations. */
const operations = Object.keys(contract);
const routes = [
  '/health',
  '/ram',
  '/vram?devices=0',
  '/available_devices',
  '/repo_apps_list',
  '/repo_apps/witness',
  '/repo_apps_config/witness',
  '/jobs',
  '/jobs/0123456789ab',
  '/jobs/0123456789ab/logs?since=3',
  '/jobs/0123456789ab/result',
  '/jobs/0123456789ab/result?partial=1',
  '/jobs/0123456789ab/kill',
  ...operations.map((each) => `/apps/witness/${each}`),
];
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'];
const fields = [
  ...new Set(Object.values(contract).flatMap((each) => each.fields.map(({ name }) => name))),
  ...['__proto__', 'constructor', 'length'],
];

const archive = zip([
  { name: 'a.txt', content: 'some text that is long enough to be deflated', deflated: true },
  { name: 'b/c', content: 'x' },
]);

/** Replaces, removes, doubles or inserts bytes at a random place. */
export function mutateBytes(random, bytes) {
  const at = random.integer(0, bytes.length);
  const length = random.integer(1, 12);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  const nasty = Buffer.from(random.pick(nastyValues).slice(0, 500));
  return Buffer.concat(
    random.pick([
      [before, random.bytes(length), after.subarray(length)],
      [before, after.subarray(length)],
      [before, bytes.subarray(Math.max(0, at - length), at), after],
      [before, nasty, after],
    ]),
  );
}

/** A path that is similar to one of the service's. */
function mutatedPath(random) {
  const path = random.pick(routes);
  const nasty = encodeURIComponent(
    random
      .pick(nastyValues)
      .replace(/[\ud800-\udfff]/g, '')
      .slice(0, 300),
  );
  const parts = path.split('/');
  const at = random.integer(1, parts.length - 1);
  return random.pick([
    () => [...parts.slice(0, at), nasty, ...parts.slice(at + 1)].join('/'),
    () => path.replaceAll('/', random.pick(['//', '/./', '/../', '%2f', '/%00/', '/%zz/', '\\'])),
    () => `${path}${random.pick(['?', '&', '?x=', '?devices=', '?since=', '#', ';', '/', '%'])}${nasty}`,
    () =>
      mutateBytes(random, Buffer.from(path))
        .toString('latin1')
        .replace(/[\s\0]/g, '%20') || '/',
    () => random.pick(['*', 'http://other/health', '//', '/%', `/${'a/'.repeat(random.integer(1, 2000))}`]),
  ])();
}

function pathRequest(random) {
  const method = random.pick(methods);
  const path = mutatedPath(random);
  const hasBody = ['POST', 'PUT', 'PATCH'].includes(method);
  const headers = hasBody ? ['Content-Length: 0'] : [];
  return {
    bytes: requestHead(method, path, headers),
    kind: 'path',
    withoutBody: method === 'HEAD',
    isBroken: true,
  };
}

function headerRequest(random) {
  const names = list`Authorization Content-Type Idempotency-Key Last-Event-ID Range If-Range Accept
    If-None-Match Expect Connection Transfer-Encoding Content-Length Content-Encoding Host X-Forwarded-For
    Upgrade`;
  const value = () =>
    random
      .pick(nastyValues)
      .replace(/[^\x20-\x7e\x80-\xff]/g, '')
      .slice(0, 2000);
  const headers = Array.from({ length: random.integer(1, 4) }, () => `${random.pick(names)}: ${value()}`);
  const bytes = requestHead('GET', random.pick(routes), headers);
  const isMangled = random.chance(0.3);
  return {
    bytes: isMangled ? mutateBytes(random, bytes) : bytes,
    kind: 'header',
    withoutBody: false,
    isBroken: true,
  };
}

/** Parts of a valid form, some of which are replaced. */
function mutatedParts(random, operation) {
  const name = () =>
    random
      .pick(nastyNames)
      .replace(/["\r\n]/g, '')
      .slice(0, 400) || 'scan.nii';
  const data = random.chance(0.5) ? archive : mutateBytes(random, archive);
  const parts =
    operation === 'fine_tune' ? [filePart('dataset', 'd.zip', data)] : [filePart('inputs', 'scan.nii')];
  if (['evaluate', 'pipeline'].includes(operation)) parts.push(filePart('gt', 'gt.nii'));
  for (let more = random.integer(1, 4); more > 0; more -= 1) {
    const part = random.pick([
      () => fieldPart(random.pick(fields), random.pick(nastyValues)),
      () => fieldPart(random.pick(fields), random.pick(nastyValues)),
      () => fieldPart('options', mutatedOptions(random)),
      () => filePart(random.pick(['inputs', 'gt', 'mask', 'dataset', ...fields]), name()),
      () => filePart('inputs', `${name().slice(0, 200)}.konfaidir.zip`, data),
      () => fieldPart(name(), random.pick(nastyValues)),
    ])();
    parts.splice(random.integer(0, parts.length), 0, part);
  }
  // A mutation of the body makes the sizes wrong.
  return random.chance(0.5) ? parts : parts.map((part) => sizedPart(part));
}

function mutatedOptions(random) {
  const value = () =>
    random.pick([1, -1, 0, 1.5, 1e99, true, null, [], {}, [[]], [1, 2], ['a=b'], random.pick(nastyValues)]);
  const key = () =>
    random.pick(['patch_size', 'batch_size', 'config_overrides', '__proto__', 'constructor', 'x']);
  const text = JSON.stringify(
    Object.fromEntries(Array.from({ length: random.integer(0, 3) }, () => [key(), value()])),
  );
  return random.chance(0.3) ? mutateBytes(random, Buffer.from(text)).toString() : text;
}

/** A form with correct framing and wrong values. */
function formRequest(random) {
  const operation = random.pick(operations);
  const body = multipart(mutatedParts(random, operation));
  const headers = [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`];
  return {
    bytes: Buffer.concat([requestHead('POST', `/apps/witness/${operation}`, headers), body]),
    kind: 'form',
    isBroken: false,
  };
}

/** A form with wrong framing and a correct length, so that the server need not wait. */
function bodyRequest(random) {
  const operation = random.pick(operations);
  let body = multipart(mutatedParts(random, operation));
  for (let times = random.integer(1, 3); times > 0; times -= 1) body = mutateBytes(random, body);
  const type = random.chance(0.8) ? multipartType : random.pick(nastyValues).replace(/[^\x20-\x7e]/g, '');
  const headers = [
    `Content-Type: ${type.replace('boundary', random.chance(0.95) ? 'boundary' : 'border')}`,
    `Content-Length: ${body.length}`,
  ];
  return {
    bytes: Buffer.concat([requestHead('POST', `/apps/witness/${operation}`, headers), body]),
    kind: 'body',
    isBroken: false,
  };
}

/** A request that is wrong anywhere, its length included. */
function wireRequest(random) {
  const { bytes } = random.pick([formRequest, bodyRequest, pathRequest])(random);
  const mutated = mutateBytes(random, bytes);
  const cut = random.chance(0.5) ? mutated : mutated.subarray(0, random.integer(1, mutated.length));
  return {
    bytes: cut.length > 0 ? cut : Buffer.from(boundary),
    kind: 'wire',
    withoutBody: cut.indexOf('HEAD') === 0,
    isBroken: true,
  };
}

/** How often each kind is sent: kinds that are cheap to answer more often than those that make directories. */
const shares = [
  [0.4, pathRequest],
  [0.25, headerRequest],
  [0.18, formRequest],
  [0.12, bodyRequest],
  [0.05, wireRequest],
];

/** One wrong request: bytes, kind, withoutBody, isBroken (its end must be sent). */
export function mutatedRequest(random) {
  const at = random.next();
  let reached = 0;
  for (const [share, make] of shares) {
    reached += share;
    if (at < reached) return make(random);
  }
  return formRequest(random);
}
