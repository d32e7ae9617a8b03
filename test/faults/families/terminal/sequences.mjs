const esc = '\x1b';

/** Control sequences that terminals act on. */
export const hostileSequences = (random) =>
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
export const allSequences = (random, between) =>
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
export function intruders(output) {
  const left = output.replace(drawn, '');
  const found = [...left].findIndex(isObeyed);
  return found < 0 ? [] : [[...left].slice(found, found + 24).join('')];
}
