import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const openssl = (directory: string, ...args: string[]) =>
  promisify(execFile)('openssl', args, { cwd: directory });

/** A key with its certificate, as files. */
export interface KeyPair {
  readonly key: Buffer;
  readonly cert: Buffer;
  /** The certificate as a file in PEM form. */
  readonly file: string;
}

const pair = (directory: string, name: string): KeyPair => ({
  key: readFileSync(path.join(directory, `${name}.key`)),
  cert: readFileSync(path.join(directory, `${name}.pem`)),
  file: path.join(directory, `${name}.pem`),
});

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/** A self-signed certificate. One without a `host` can sign others. */
export async function selfSigned(directory: string, name: string, host?: string): Promise<KeyPair> {
  const names = host === undefined ? [] : ['-addext', `subjectAltName=DNS:${host}`];
  const files = ['-keyout', `${name}.key`, '-out', `${name}.pem`];
  await openssl(
    directory,
    'req',
    '-x509',
    ...newKey,
    ...files,
    '-days',
    '2',
    '-subj',
    `/CN=${name}`,
    ...names,
  );
  return pair(directory, name);
}

/** A certificate signed by another one, valid for this many days; -1 has expired. */
export async function signed(
  directory: string,
  name: string,
  { by, host, days = 2 }: { by: string; host: string; days?: number },
): Promise<KeyPair> {
  const request = ['-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`];
  await openssl(directory, 'req', ...newKey, ...request);
  writeFileSync(path.join(directory, `${name}.ext`), `subjectAltName=DNS:${host}\n`);
  const issuer = ['-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-CAcreateserial', '-extfile', `${name}.ext`];
  await openssl(
    directory,
    'x509',
    '-req',
    ...['-in', `${name}.csr`, '-out', `${name}.pem`, '-days', String(days)],
    ...issuer,
  );
  return pair(directory, name);
}
