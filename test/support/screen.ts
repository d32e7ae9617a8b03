/** A terminal's control sequences that a block of our own may use, and ordinary text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal acts on them
const token = /\u001b\[(\d*)([AKJ])|\u001b\[\?(?:7|2026)[hl]|\u001b\[[\d;]*m|[\r\n]|[^\u001b\r\n]+/g;

/** What a terminal shows after these bytes, row by row. Throws for a control sequence that it does not know. */
export function screenOf(bytes: string): string[] {
  const rows = [''];
  let [row, column] = [0, 0];
  let read = 0;
  for (const match of bytes.matchAll(token)) {
    if (match.index !== read) throw new Error(`What is ${JSON.stringify(bytes.slice(read, read + 20))}?`);
    const [text, count, command] = match;
    read += text.length;
    const line = rows[row] ?? '';
    if (text === '\r') column = 0;
    else if (text === '\n') {
      row += 1;
      rows[row] ??= '';
    } else if (command === 'A') row = Math.max(0, row - Number(count || 1));
    else if (command === 'K') rows[row] = line.slice(0, column);
    else if (command === 'J') rows.splice(row, rows.length, line.slice(0, column));
    else if (!text.startsWith('\u001b')) {
      rows[row] = line.slice(0, column).padEnd(column) + text + line.slice(column + text.length);
      column += text.length;
    }
  }
  return rows;
}
