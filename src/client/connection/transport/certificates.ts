import { X509Certificate } from 'node:crypto';
import tls from 'node:tls';
import { quotePath } from '../../../contract/quote.js';
import { faultWithoutPath } from '../../../files/error-code.js';
import { readSmallFile } from '../../../files/small-file.js';
import { UsageError } from '../../errors.js';
import type { Trust } from './transport.js';

/** Most bytes of a file of certificates: those of all authorities of the world take 250 KiB. */
const longest = 4 * 1024 * 1024;

const pem =
  /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[\s\S]+?-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g;

/**
 * The certificates of a PEM file, one by one.
 * @throws the system's error, or one that says what is wrong
 */
function readCertificates(file: string): string[] {
  const found = readSmallFile(file, longest).match(pem);
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

/** The certificates that are trusted without this file: Node's own, and those that NODE_EXTRA_CA_CERTS adds. */
function known(): readonly string[] {
  // Newer versions of Node return all of them.
  const { getCACertificates } = tls as { getCACertificates?: (type: 'default') => string[] };
  if (getCACertificates) return getCACertificates('default');
  const more = process.env.NODE_EXTRA_CA_CERTS;
  try {
    return more ? [...tls.rootCertificates, ...readCertificates(more)] : tls.rootCertificates;
  } catch {
    // Node itself has warned about it.
    return tls.rootCertificates;
  }
}

/**
 * Trusts the certificates of a PEM file in addition to those that Node knows. An intermediate authority, or the certificate
 * of a server itself, may be among them.
 * @throws UsageError for a file that cannot be read or has no certificates
 */
export function trustFile(file: string): Trust {
  let own: string[];
  try {
    own = readCertificates(file);
  } catch (cause) {
    throw new UsageError(
      `The certificates in ${quotePath(file)} cannot be used: ${faultWithoutPath(cause)}`,
      {
        cause,
      },
    );
  }
  return {
    file,
    context: tls.createSecureContext({ ca: [...known(), ...own], allowPartialTrustChain: true }),
  };
}
