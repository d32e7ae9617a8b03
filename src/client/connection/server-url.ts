import { defaultServer } from '../../contract/defaults.js';
import { UsageError } from '../errors.js';
import { readSshAddress } from './ssh-address.js';

/**
 * Parses a server's address: http or https, with an optional path prefix and nothing else; or one over ssh.
 * @throws UsageError saying what is wrong with it
 */
export function readServerUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch (cause) {
    throw new UsageError(`'${text}' is not a server URL; use one like ${defaultServer}`, {
      cause,
    });
  }
  if (url.protocol === 'ssh:') {
    readSshAddress(url);
    return url;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UsageError(`A server URL begins with http://, https:// or ssh://, got '${text}'`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('The address of a server must hold no credentials; give a token instead');
  }
  url.search = '';
  url.hash = '';
  url.pathname = url.pathname.replace(/\/+$/, '');
  return url;
}

/** The address as a person writes it: without a slash at the end. */
export const showServerUrl = (url: URL): string => url.href.replace(/\/$/, '');
