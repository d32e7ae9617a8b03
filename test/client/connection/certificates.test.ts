import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { explainTls, trustFile } from '../../../src/client/connection/tls.js';
import type { Trust } from '../../../src/client/connection/transport.js';
import { UsageError } from '../../../src/client/errors.js';
import { temporary } from '../../support/temporary.js';

/** For gpu.example.org and 10.0.0.1, by a "Lab CA". */
const ofHost =
  'MIIBlTCCATugAwIBAgIUKECusDKo02V++IWmJnc8TfSALZAwCgYIKoZIzj0EAwIwHzEMMAoGA1UECgwDTGFiMQ8wDQYDVQQDDAZMYWIgQ0EwIBcNMjYxMTI2MjAwNjI3WhgPMjA1MTA3MTgyMDA2MjdaMA4xDDAKBgNVBAMMA2dwdTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOfAOqCADKYYYesEyEfgMv3ne9wNhaIiXqm7En38FfjLjcl+9QF+ym4Q5M8QGfzNjt+8sB8kJLMRnHy4XSYf6K+jZDBiMCAGA1UdEQQZMBeCD2dwdS5leGFtcGxlLm9yZ4cECgAAATAdBgNVHQ4EFgQURUDJgiey4ZiYGDGr4B4XHGmkS0UwHwYDVR0jBBgwFoAUJSZbtOd8R/Hu/uiUHWL41i+ZwzUwCgYIKoZIzj0EAwIDSAAwRQIgGDoYKBzoTuV9/R+Kc/Wp6+YYssyrYGSISskZEOCtQocCIQD0e9vty0RhDe4JbLb4k59WcdtbyqwFKLbW5PqqB24mwA==';
/** Signed by itself, without a common name: of the unit "IT" of "Lab". */
const ofUnit =
  'MIIBjjCCATOgAwIBAgIULDTaMk9IjI0S8nZeunrfD74RbKowCgYIKoZIzj0EAwIwGzEMMAoGA1UECgwDTGFiMQswCQYDVQQLDAJJVDAgFw0yNjExMjYyMDA2MjdaGA8yMDUxMDcxODIwMDYyN1owGzEMMAoGA1UECgwDTGFiMQswCQYDVQQLDAJJVDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEoteug4ZIGOV4xZ9f7D3UDn7vfUFn59UJDeR2CEm/09jqPH/w65gorvAagksnIvYPD6Zhk/bha3TpbcFNchcryjUzBRMB0GA1UdDgQWBBS5W3XccD0Rv6tv3MxGy0d5TKOuXTAfBgNVHSMEGDAWgBS5W3XccD0Rv6tv3MxGy0d5TKOuXTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDnMxSfc3oieh7kbOO3mZwS0pgf93iDo0X7AYb8CgdJiAIhAND4RlRf3dDbGVDvTwOEMpgHR9yhpN9u7xyz2Qgbv0hv';

const told = (code: string, certificate?: string, trust?: Trust) =>
  explainTls(Object.assign(new Error('x'), { code }), {
    server: 'https://gpu',
    hostname: 'gpu',
    certificate: certificate === undefined ? undefined : Buffer.from(certificate, 'base64'),
    trust,
  }).message;

const remedy = "get the issuer's certificate from the server's admin and give it with --ca FILE";

test.each<readonly [code: string, certificate: string | undefined, sentence: string]>([
  [
    'CERT_HAS_EXPIRED',
    ofHost,
    "The certificate 'gpu' of https://gpu has expired (Jul 18 20:06:27 2051 GMT); " +
      "the server's admin must renew it, or the clock of this machine is wrong",
  ],
  [
    'CERT_HAS_EXPIRED',
    undefined,
    "The certificate of https://gpu has expired; the server's admin must renew it, or the clock of this machine is wrong",
  ],
  [
    'CERT_NOT_YET_VALID',
    ofHost,
    "The certificate 'gpu' of https://gpu is not valid yet (from Nov 26 20:06:27 2026 GMT); check the clock of this machine",
  ],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    ofHost,
    "The certificate of https://gpu is for gpu.example.org, 10.0.0.1, not for 'gpu'; " +
      'use a name that it is for, or ask the admin of the server for a certificate with this one',
  ],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    ofUnit,
    "The certificate of https://gpu is for 'O=Lab, OU=IT', not for 'gpu'; " +
      'use a name that it is for, or ask the admin of the server for a certificate with this one',
  ],
  ...['SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'].map(
    (code) =>
      [
        code,
        ofHost,
        `https://gpu shows the certificate 'gpu', issued by 'Lab CA', which this machine does not know; ${remedy}`,
      ] as const,
  ),
  [
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    ofUnit,
    "https://gpu shows a certificate 'O=Lab, OU=IT' that it has signed itself; get it from the server's admin and give " +
      'it with --ca FILE (its SHA-256 is FINGERPRINT)',
  ],
  [
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    Buffer.from('no certificate').toString('base64'),
    `https://gpu shows the certificate, which this machine does not know; ${remedy}`,
  ],
])('A certificate that is refused with %s is described in the error: %#', (code, certificate, sentence) => {
  const message = told(code, certificate).replace(/([0-9A-F]{2}:){31}[0-9A-F]{2}/, 'FINGERPRINT');
  expect(message).toBe(sentence);
});

test('The certificates of a file are trusted, and each entry has to be a certificate', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'ca.pem');
  const pem = (content: string, kind = '') =>
    `words\n-----BEGIN ${kind}CERTIFICATE-----\n${content}\n-----END ${kind}CERTIFICATE-----\n`;
  const trusting = (...texts: readonly string[]) => {
    writeFileSync(file, texts.join(''));
    return trustFile(file);
  };
  const cannot = (why: string) => `The certificates in '${file}' cannot be used: ${why}`;
  expect(trusting(pem(ofHost), pem(ofUnit, 'TRUSTED '), pem(ofUnit, 'X509 '))).toMatchObject({ file });
  expect(() => trusting(pem(ofHost), pem('AAAA'))).toThrow(cannot('its certificate 2 is damaged'));
  expect(() => trusting('nothing')).toThrow(
    cannot('it holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)'),
  );
  expect(() => trusting('x')).toThrow(UsageError);
  expect(() => trustFile(directory.path)).toThrow(/cannot be used: it is not a regular file$/);
  const trust = trusting(pem(ofHost));
  expect(told('UNABLE_TO_GET_ISSUER_CERT', ofHost, trust)).toBe(
    `https://gpu shows the certificate 'gpu', issued by 'Lab CA', which this machine does not know, and the certificates in ` +
      `'${file}' do not cover it; ${remedy}`,
  );
});
