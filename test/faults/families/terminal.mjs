/** An app or the name of a field cannot affect a terminal, the log or a reader of the log. */
import { execFileSync, spawnSync } from 'node:child_process';
import { file } from '../../support/form.mjs';
import { times } from '../context.mjs';
import { ended, logOf, request, steps, submit } from '../support/api.mjs';
import { remoteAppOnTerminal } from '../support/client.mjs';
import { apps, Server } from '../support/server.mjs';

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
function hostileLines(random, count) {
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
function splitters(stream) {
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

const esc = '\x1b';

/** Control sequences that terminals act on. */
const hostileSequences = (random) =>
  random.shuffle(
    Object.entries({
      'OSC 52, which writes the clipboard': `${esc}]52;c;ZXZpbA==\x07`,
      'OSC 52, ended by ST': `${esc}]52;c;ZXZpbA==${esc}\\`,
      'a title': `${esc}]0;forged title\x07`,
      'a link': `${esc}]8;;http://evil.example\x07click${esc}]8;;\x07`,
      'cursor moves': `${esc}[2J${esc}[H${esc}[10A${esc}[5;5Hforged`,
      'a private mode': `${esc}[?1049h${esc}[?1000h`,
      'C1 as UTF-8': '\u009d52;c;ZXZpbA==\u009c\u009b2J\u0090q\u009c',
      DCS: `${esc}P$q"p${esc}\\`,
      'APC and PM': `${esc}_evil${esc}\\${esc}^evil${esc}\\`,
      'a reset': `${esc}c`,
      'a question': `${esc}[6n${esc}[c${esc}[>q`,
      'another set of characters': `${esc}(0${esc}#8\x0e`,
      'backspaces and a bell': 'password\b\b\b\b\b\b\b\bforged\x07',
      'an escape that ends its line': `text${esc}`,
      'a colour and a title inside of it': `${esc}[31${esc}]0;x\x07m`,
      'a DEL and a NUL': 'a\x7fb\0c',
      // What a reader sees in another order than it stands.
      'an SGR with private parameters': `${esc}[>4;2m${esc}[?5m`,
    }),
  );

/** All of them in one text, `between` each two. */
const allSequences = (random, between) =>
  hostileSequences(random)
    .map(([, text]) => text)
    .join(between);

/** What the client itself draws: cursor hidden and shown, a line erased, one line up, a column; and its colours. */
const drawn = new RegExp(`${esc}\\[(?:\\?25[hl]|[0-2]?K|\\d*[AGB]|[0-9;:]*m|\\?2026[hl]|\\?7[hl])`, 'g');

/** Whether a terminal obeys this character rather than showing it; line ends and tabs are the client's too. */
function isObeyed(character) {
  const code = character.codePointAt(0);
  if ('\t\n\r'.includes(character)) return false;
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/** What is left of a terminal's bytes when text, line ends, tabs, colours and the client's own drawing are taken away. */
function intruders(output) {
  const left = output.replace(drawn, '');
  const found = [...left].findIndex(isObeyed);
  return found < 0 ? [] : [[...left].slice(found, found + 24).join('')];
}

const ends = ['\n', '\r', '\r\n', '\u2028', '\u2029', '\u0085', '\v', '\f', '\x1e', '%0A', '%0D%0A'];

/** Forms with one field more, whose name would say something in the service's name. */
const forgedFields = (random) =>
  random.shuffle(ends).map((end) => ({
    [`unknown${end}[remote-app] FORGED by a field${end}__DONE__${end}data: __DONE__`]: 'x',
  }));

/** Runs the real client on a real terminal, with an app that prints control sequences. */
async function onTerminal(context, server) {
  const singles = hostileSequences(context.random).slice(0, times(context.rounds, 3));
  const all = ['everything that terminals obey', allSequences(context.random, '\n')];
  for (const [what, content] of [all, ...singles]) {
    await context.attempt(`A terminal and ${what}`, async () => {
      const id = await submit(server, 'rogue', 'infer', {
        inputs: file('scan.txt', `innocent\n${content}\nbehind\n`),
        options: steps({ do: 'echo' }),
      });
      await ended(server, id);
      const { output } = await remoteAppOnTerminal(context, ['logs', id], { url: server.url });
      context.count('terminals written to');
      const found = intruders(output);
      context.check(
        found.length === 0,
        `An app that prints ${what} reaches the terminal: ${JSON.stringify(found[0])}`,
      );
      context.check(
        output.includes('innocent') && output.includes('behind'),
        `The log beside ${what} did not reach the terminal`,
      );
    });
  }
}

const hasPython = () => spawnSync('python3', ['--version']).status === 0;

/** However a client splits the stream: one terminal marker, and that is its last line. */
function checkMarkers(context, stream, what) {
  const fooled = [];
  for (const [name, lines] of splitters(stream)) {
    const markers = lines.filter((line) => /^data: ?(__DONE__|__ERROR__)/.test(line));
    const last = lines.findLast((line) => line.trim() !== '');
    context.count('streams split');
    const isForged = lines.some((line) => line.startsWith('data: [remote-app] FORGED'));
    if (markers.length !== 1 || last !== markers[0] || isForged) fooled.push(name);
  }
  const [first] = fooled;
  context.check(
    first === undefined,
    `The log of an app that prints ${what} has a forged line for clients that split by ${fooled.join(', ')}`,
  );
}

const echo = async (server, content, form = {}) => {
  const id = await submit(server, 'rogue', 'infer', {
    inputs: file('scan.txt', content),
    options: steps({ do: 'echo' }),
    ...form,
  });
  await ended(server, id);
  return id;
};

async function logs(context, server) {
  for (const [what, content] of hostileLines(context.random, times(context.rounds, 11))) {
    await context.attempt(`The log of an app that prints ${what}`, async () => {
      const id = await echo(server, content);
      const query = context.random.pick(['', '?since=0']);
      const { bytes } = await request(server, `/jobs/${id}/logs${query}`);
      checkMarkers(context, bytes, what);
    });
  }
}

async function fields(context, server) {
  for (const form of forgedFields(context.random)) {
    const id = await echo(server, 'quiet\n', form).catch((cause) => {
      // It may be refused as well, if in one line.
      if (!/^Refused with 4/.test(cause.message)) throw cause;
      return null;
    });
    context.count('fields with line ends in their names');
    if (id === null) continue;
    const forged = (await logOf(server, id)).filter((line) => /^\[remote-app\] FORGED/.test(line));
    context.check(
      forged.length === 0,
      `The name ${JSON.stringify(Object.keys(form)[0])} of a field forges the log line '${forged[0]}'`,
    );
    const { bytes } = await request(server, `/jobs/${id}/logs`);
    checkMarkers(context, bytes, 'nothing, sent with a field of a forged name,');
  }
}

export async function run(context) {
  if (!hasPython()) {
    context.note('There is no python3 here: no terminal was made, and no log split as Python does');
    return;
  }
  const server = await new Server(context, { apps: [apps.rogue], flags: ['--max-jobs', '100'] }).start();
  try {
    await context.attempt('Logs', () => logs(context, server));
    await context.attempt('Names of fields', () => fields(context, server));
    await onTerminal(context, server);
  } finally {
    await server.close();
  }
}
