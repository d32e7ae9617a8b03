import { X509Certificate } from 'node:crypto';
import tls from 'node:tls';
import { excerpt, quoteName, quotePath } from '../../contract/index.js';
import { errorCode, faultWithoutPath, orElse, readSmallFile } from '../../files/index.js';
import { TransportError, UsageError } from '../errors.js';
import { type Trust, under } from './transport.js';

/** Maximum size of a certificate file, in bytes: a bundle of all public authorities takes 250 KiB. */
const maxFile = 4 * 1024 * 1024;

const pem =
  /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[\s\S]+?-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g;

/** The certificates of a PEM file, one by one. @throws the system's error, or an error about the content */
function readCertificates(file: string): string[] {
  const found = readSmallFile(file, maxFile).match(pem);
  if (!found) throw new Error('it holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)');
  for (const [index, each] of found.entries()) {
    try {
      new X509Certificate(each);
    } catch (cause) {
      throw new Error(`its certificate ${index + 1} is damaged`, { cause });
    }
  }
  return found;
}

/** The certificates that are trusted without this file: Node's own, and those from NODE_EXTRA_CA_CERTS. */
function known(): readonly string[] {
  // Newer versions of Node have a function for this.
  const { getCACertificates } = tls as { getCACertificates?: (type: 'default') => string[] };
  if (getCACertificates) return getCACertificates('default');
  const more = process.env.NODE_EXTRA_CA_CERTS;
  // Node itself has warned about a file that it cannot read.
  return orElse(
    () => (more ? [...tls.rootCertificates, ...readCertificates(more)] : tls.rootCertificates),
    tls.rootCertificates,
  );
}

/**
 * Trusts the certificates of a PEM file in addition to Node's own. They may include an intermediate authority, or a server's own
 * certificate.
 * @throws UsageError for a file that cannot be read or contains no certificates
 */
export function trustFile(file: string): Trust {
  let own: string[];
  try {
    own = readCertificates(file);
  } catch (cause) {
    throw new UsageError(
      `The certificates in ${quotePath(file)} cannot be used: ${faultWithoutPath(cause)}`,
      { cause },
    );
  }
  return {
    file,
    context: tls.createSecureContext({ ca: [...known(), ...own], allowPartialTrustChain: true }),
  };
}

interface TlsPeer {
  readonly server: string;
  /** The host name in the address. */
  readonly hostname: string;
  /** The server's certificate, if the handshake got that far. */
  readonly certificate: X509Certificate | undefined;
  readonly trust: Trust | undefined;
}

/** Parses a certificate from the network; undefined for other bytes. */
const parse = (raw: Buffer | undefined): X509Certificate | undefined =>
  orElse(() => raw && new X509Certificate(raw), undefined);

/** A distinguished name, reduced to its most specific part: `CN=gpu.example.org`. */
const shortName = (distinguished: string): string =>
  quoteName(/^CN=(.*)$/m.exec(distinguished)?.[1] ?? distinguished.replaceAll('\n', ', '));

/** The names that a certificate is for, without OpenSSL's prefixes such as `DNS:`. */
const namesOf = ({ subjectAltName, subject }: X509Certificate): string =>
  subjectAltName ? excerpt(subjectAltName.replaceAll(/(DNS|IP Address):/g, ''), 300) : shortName(subject);

const shown = (certificate: X509Certificate | undefined): string =>
  certificate ? ` ${shortName(certificate.subject)}` : '';

/** What to say about the certificates given with `--ca`. */
const notVouched = (trust: Trust | undefined): string =>
  trust ? `, and the certificates in ${quotePath(trust.file)} do not cover it` : '';

const unknownIssuer = ({ server, certificate, trust }: TlsPeer): string => {
  const issuer = certificate ? `, issued by ${shortName(certificate.issuer)}` : '';
  return (
    `${server} shows the certificate${shown(certificate)}${issuer}, which this machine does not know${notVouched(trust)}; ` +
    "get the issuer's certificate from the server's admin and give it with --ca FILE"
  );
};

/** Messages for faults of a certificate, by the error code of OpenSSL or Node. */
const certificateFaults: Readonly<Record<string, (peer: TlsPeer) => string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: ({ server, certificate, trust }) =>
    `${server} shows a certificate${shown(certificate)} that it has signed itself${notVouched(trust)}; ` +
    "get it from the server's admin and give it with --ca FILE" +
    (certificate ? ` (its SHA-256 is ${certificate.fingerprint256})` : ''),
  SELF_SIGNED_CERT_IN_CHAIN: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownIssuer,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownIssuer,
  CERT_HAS_EXPIRED: ({ server, certificate }) =>
    `The certificate${shown(certificate)} of ${server} has expired` +
    `${certificate ? ` (${certificate.validTo})` : ''}; the server's admin must renew it, or the clock of this machine is wrong`,
  CERT_NOT_YET_VALID: ({ server, certificate }) =>
    `The certificate${shown(certificate)} of ${server} is not valid yet` +
    `${certificate ? ` (from ${certificate.validFrom})` : ''}; check the clock of this machine`,
  ERR_TLS_CERT_ALTNAME_INVALID: ({ server, certificate, hostname }) =>
    `The certificate of ${server} is for ${certificate ? namesOf(certificate) : 'another name'}, not for ${quoteName(hostname)}; ` +
    'use a name that it is for, or ask the admin of the server for a certificate with this one',
};

/** OpenSSL's error codes for bytes that are not TLS. */
const noTls = /^(ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG|EPROTO)$/;

/**
 * Explains why TLS with a server failed. Such a failure is permanent, so it is not retried.
 * @param raw the server, with the bytes of its certificate
 * @returns the original error if it is not about TLS
 */
export function explainTls(
  error: Error,
  raw: Omit<TlsPeer, 'certificate'> & { readonly certificate: Buffer | undefined },
): Error {
  const peer = { ...raw, certificate: parse(raw.certificate) };
  const code = errorCode(error);
  const unusable = (message: string) => new TransportError('unusable', message, { cause: error });
  const explain = certificateFaults[code];
  if (explain) return unusable(explain(peer));
  if (noTls.test(code)) {
    const plain = under('http', peer.server);
    return unusable(
      `${peer.server} does not speak TLS; use ${plain}, which is not encrypted, or the port on which it does`,
    );
  }
  if (/CERT|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(code)) {
    return unusable(`TLS with ${peer.server} fails: ${excerpt(error.message.trim(), 300)}`);
  }
  return error;
}
