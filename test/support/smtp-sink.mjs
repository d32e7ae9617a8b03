/** A server for mail on this machine that keeps what it is sent. As a program: `node smtp-sink.mjs PORT FILE` appends it to the file. */
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:net';

/** @param {(mail: string) => void} onMail called with the envelope's lines and the message */
export const smtpSink = (onMail) =>
  createServer((socket) => {
    let text = '';
    let isData = false;
    socket.write('220 sink\r\n');
    socket.on('data', (chunk) => {
      const lines = chunk.toString();
      text += lines;
      if (isData) {
        if (!text.endsWith('\r\n.\r\n')) return;
        isData = false;
        onMail(text);
        socket.write('250 kept\r\n');
      } else if (/^DATA\r\n/m.test(lines)) {
        isData = true;
        socket.write('354 go on\r\n');
      } else if (/^QUIT\r\n/m.test(lines)) socket.end('221 bye\r\n');
      else socket.write('250 fine\r\n');
    });
    socket.on('error', () => {});
  });

const [, program, port, file] = process.argv;
if (program === import.meta.filename && file)
  smtpSink((mail) => appendFileSync(file, mail)).listen(Number(port), '127.0.0.1');
