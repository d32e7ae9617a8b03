import { unzip } from '../../../support/unzip.mjs';
import { request } from '../../support/api.mjs';

const mebibyte = 2 ** 20;
/** Redraws: a burst of 1000, then 20 a second; the command takes two seconds, or more on a slow machine. */
const redrawBound = 1000 + 20 * 120;

/** Cases that end by themselves; `look` takes the log's lines of the app. */
export const programs = {
  signal: { error: /^Subprocess failed \(exit code 137, SIGKILL\)$/ },
  fork: {},
  stray: {},
  bare: {},
  close: {
    look: async (context, server, id) => {
      const { bytes } = await request(server, `/jobs/${id}/result`);
      context.check(String(unzip(bytes).get('answer')) === 'went on', "What 'close' wrote is not its result");
    },
  },
  fill: {
    look: (context, _server, _id, lines) => {
      const length = lines.slice(1).reduce((sum, line) => sum + line.length, 0);
      context.check(length === 5 * mebibyte, `The log of 'fill' has ${length} characters of its line`);
    },
  },
  longline: {
    look: (context, _server, _id, lines) => {
      const length = lines.slice(1, -1).reduce((sum, line) => sum + line.length, 0);
      context.check(length === 100 * mebibyte, `The log of 'longline' has ${length} characters of its line`);
      context.check(
        lines.at(-1) === 'the last line',
        `The log of 'longline' ends with '${lines.at(-1)?.slice(0, 50)}'`,
      );
    },
  },
  redraw: {
    look: (context, _server, _id, lines) => {
      context.check(lines.length <= redrawBound, `The log of 'redraw' has ${lines.length} lines`);
      context.check(lines.includes('step 20000'), "The log of 'redraw' lacks the last redraw");
    },
  },
  bytes: {
    look: (context, _server, _id, lines) =>
      context.check(
        lines.slice(1).join('|') === '\ufffd\ufffd\ufffd|\ufffd(\0\x1b[31m|\ufffd',
        `The log of 'bytes' is ${JSON.stringify(lines)}`,
      ),
  },
  markers: {
    look: (context, _server, _id, lines) =>
      context.check(
        lines.slice(1, 4).join('|') === ' __DONE__| __ERROR__ of the app|data: __DONE__' &&
          lines.at(-1) === 'the last line',
        `The log of 'markers' is ${JSON.stringify(lines)}`,
      ),
  },
};
