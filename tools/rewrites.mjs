/**
 * Lines of packages that the bundle has otherwise: they cost time at every start, as `npm run bench -- cli serve-start` shows, or
 * end a command.
 */

/** What Koa asks of every body of an answer that is an object: whether it is one of these classes of the Web. */
const isOfWeb = /\b(\w+) instanceof (Blob|ReadableStream|Response)\b/g;

/** How undici begins when a connection ends that it has to read to its end. */
const finish =
  /(finish \(\) \{\s+assert\(currentParser === null\)\s+assert\(this\.ptr != null\)\s+)assert\(!this\.paused\)/g;

/**
 * What stands there instead. The parser goes on with what it has: a body that is complete is then complete, and one that is not
 * is an error, however slow its reader is.
 */
const finishPaused = `$1while (this.paused && this.statusCode) {
      this.paused = false
      this.llhttp.llhttp_resume(this.ptr)
      this.execute(this.socket.read() || EMPTY_BUF)
    }
    if (!this.statusCode) return null`;

const rewrites = [
  {
    // oclif sorts its commands by the rules of the user's language. The first such comparison loads these rules, which
    // takes 6 ms; names of commands need no such rules. With those 6 ms neither `cli-help` nor `cli-health` of the bench
    // holds: their ratios rise by 0.3 and 0.2.
    name: 'plain-sorting',
    files: /@oclif\/core\/lib\/config\/plugin\.js$/,
    from: /a\.id\.localeCompare\(b\.id\)/g,
    to: 'a.id < b.id ? -1 : 1',
    places: 1,
  },
  {
    // The first use of the name `Response` has Node load all of its `fetch`: 25 ms between the first request of a server
    // and its answer. An object of such a class says so itself.
    name: 'plain-bodies',
    files: /\/koa\/lib\/(application|response)\.js$/,
    from: isOfWeb,
    to: `Object.prototype.toString.call($1) === '[object $2]'`,
    places: 3,
  },
  {
    // An answer with `Connection: close` whose reader is slow fails an assertion outside of any request, which ends the command
    // (undici's issue 5360, mended in its version 8, which Node 20 cannot run).
    name: 'paused-parser',
    files: /\/undici\/lib\/dispatcher\/client-h1\.js$/,
    from: finish,
    to: finishPaused,
    places: 1,
  },
];

/** The plugins that rewrite them. A package that looks otherwise than it did ends the build. */
export const rewriting = rewrites.map(({ name, files, from, to, places }) => ({
  name,
  transform: {
    filter: { id: files },
    handler(code, file) {
      const found = code.match(from)?.length ?? 0;
      if (found !== places)
        throw new Error(`${file} has ${found} places for ${name} instead of ${places}: look at it again`);
      return code.replaceAll(from, to);
    },
  },
}));
