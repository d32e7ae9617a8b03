import { execFileSync } from 'node:child_process';

/** Characters that some programs treat as the end of a line. */
const separators = {
  'U+2028': '\u2028',
  'U+2029': '\u2029',
  NEL: '\u0085',
  'vertical tabs': '\v',
  'form feeds': '\f',
  FS: '\x1c',
  GS: '\x1d',
  RS: '\x1e',
  'carriage returns': '\r',
  'CR CR LF': '\r\r\n',
  'line ends': '\n',
};

const forgeries = [
  'data: __DONE__',
  'data: __ERROR__ forged',
  'data: [remote-app] FORGED',
  '__DONE__',
  'data:__DONE__',
];

/** Logs of an app that tries to end its own stream; every separator once, then random ones. */
export function hostileLines(random, count) {
  const named = random.shuffle(Object.entries(separators));
  const one = ([name, separator], forgery) => {
    const doubled = random.chance(0.5) ? separator + separator : separator;
    return [`${name} before '${forgery}'`, `before${doubled}${forgery}${doubled}behind${separator}`];
  };
  // All separators in one log: what one of them does is seen in any case.
  const all = named.map((each) => one(each, 'data: __DONE__')[1]).join('\n');
  const latin1 = Buffer.from('before\x85data: __DONE__\x85behind\n', 'latin1');
  return [
    ['every separator there is', `${all}\n`],
    ['bytes of Latin-1', latin1],
    ...Array.from({ length: count }, (_, at) => one(named[at % named.length], random.pick(forgeries))),
  ];
}

const program = `
import json, sys
raw = sys.stdin.buffer.read()
text = raw.decode('utf-8', 'replace')
# requests' iter_lines, as it splits what comes in pieces of 512 bytes.
def iter_lines(pieces):
    pending = None
    for piece in pieces:
        if pending is not None:
            piece = pending + piece
        lines = piece.splitlines()
        if lines and lines[-1] and piece and lines[-1][-1] == piece[-1]:
            pending = lines.pop()
        else:
            pending = None
        yield from lines
    if pending is not None:
        yield pending
in_pieces = list(iter_lines([text[i:i + 512] for i in range(0, len(text), 512)]))
whole = list(iter_lines([text]))
bytes_lines = [line.decode('utf-8', 'replace') for line in raw.splitlines()]
json.dump({'str.splitlines': text.splitlines(), 'bytes.splitlines': bytes_lines,
           "requests' iter_lines": in_pieces, 'iter_lines of a whole': whole}, sys.stdout)
`;

/** The stream, split in all the ways that are in use. */
export function splitters(stream) {
  const python = JSON.parse(
    execFileSync('python3', ['-c', program], { input: stream, maxBuffer: 2 ** 28, encoding: 'utf8' }),
  );
  const text = stream.toString();
  return [
    ...Object.entries(python),
    ['\\n', text.split('\n')],
    ['\\r', text.split(/\n|\r/)],
    ['\\r\\n', text.split(/\r\n|\n|\r/)],
    ['every separator of Unicode', text.split(new RegExp(Object.values(separators).join('|')))],
  ];
}
