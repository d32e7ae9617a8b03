/**
 * Names of files in a result. `exact` ones arrive under their name; of the others it is enough that they arrive under
 * another, or that somebody says that they do not. `steps` are what is planted besides.
 */
import path from 'node:path';
import { step } from '../../support/plan.mjs';

const exact = (...names) => names.map((name) => ({ name: Buffer.from(name), isExact: true }));
const loose = (...names) => names.map((name) => ({ name: Buffer.from(name, 'latin1'), isExact: false }));

export const groups = {
  'colons and backslashes': () => ({
    files: [
      ...loose('T1:mask.nii', 'T2:mask.nii', 'a\\b', 'C:', 'c:\\x'),
      ...exact('a/b', 'sub/T1:mask.nii', 'x|y', 'q?', 'star*', '<a>', '"quoted"'),
    ],
  }),
  "Windows' device names": () => ({
    files: exact(
      'aux.nii.gz',
      'con.json',
      'nul',
      'COM1.txt',
      'sub/prn.nii',
      'ends with a dot.',
      'ends with a space ',
    ),
  }),
  'the name of the archive': () => ({ files: [...loose('result.zip'), ...exact('other', 'sub/result.zip')] }),
  'Latin-1 bytes': () => ({
    files: [...loose('sch\xe4del.nii', 'sub/\xff\xfe', '\xe9'), ...exact('plain.nii')],
  }),
  'control characters': () => ({
    files: [
      ...loose('line\nfeed', 'tab\there', 'bell\x07', 'esc\x1b]52;c;AAAA\x07', '\x7f', 'cr\r'),
      ...exact('plain'),
    ],
  }),
  'long and deep names': () => ({
    files: exact(
      'n'.repeat(255),
      'ü'.repeat(127),
      `${'deep/'.repeat(60)}file`,
      `${`${'d'.repeat(200)}/`.repeat(8)}f`,
    ),
  }),
  'dashes, spaces, emoji, cases': () => ({
    files: exact(
      '-rf',
      '--help',
      ' leading',
      'a  b',
      '🧠.nii',
      'Ct.nii',
      'ct.nii',
      'CT.nii',
      '...',
      '~',
      '$HOME',
      "'q'",
      '%2e%2e',
      '#',
    ),
  }),
  'Unicode in two forms': () => ({
    files: exact('\u00e9t\u00e9', 'e\u0301te\u0301', '\u202ertl', '\u2028', '\ufeffbom'),
  }),
  'an unreadable file': () => ({
    files: [...loose('closed', 'closed-directory/inside'), ...exact('open')],
    steps: [step.mode('closed', 0), step.mode('closed-directory', 0)],
  }),
  'FIFOs, sockets and links': ({ secret }) => ({
    files: exact('open', 'sub/open'),
    steps: [
      step.fifo('fifo'),
      step.socket('socket'),
      step.link('to-file', path.join(secret, 'secret')),
      step.link('to-directory', secret),
      step.link('to-nothing', '/nowhere/at/all'),
      step.link('loop', 'loop'),
      step.link('up', '..'),
      step.link('sub/self', '.'),
      step.link('inside', 'open'),
      step.hardLink('twin', 'open'),
    ],
  }),
};

const alphabet = [
  ...'abzAZ019._- :\\*?"<>|\'`$&;#%~()[]{}!@^=+,',
  'ä',
  'ß',
  '日',
  '🧠',
  '\u0301',
  '\u200f',
  '\u00a0',
];

/** Names that archiver would change, so that the server does: a colon in the first part, or a backslash. */
const changed = /^[^/]*:|\\/;

/** Names that chance makes of characters that are hard somewhere. */
export function randomNames({ random }) {
  const names = new Set();
  while (names.size < 25) {
    const name = Array.from({ length: random.integer(1, 30) }, () => random.pick(alphabet)).join('');
    if (!/^\.{1,2}$/.test(name) && name !== 'result.zip' && Buffer.byteLength(name) <= 255) names.add(name);
  }
  const placed = [...names].map((name) => (random.chance(0.3) ? `sub/${name}` : name));
  return { files: placed.map((name) => ({ name: Buffer.from(name), isExact: !changed.test(name) })) };
}
