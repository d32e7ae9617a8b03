/**
 * Replacements, in the bundle, for a package or a module of Node: only the part that is used, or the same loaded later. Each
 * saves time, which `npm run bench -- cli pack extract` shows. Each of the small ones saves 2 to
 * 4 ms of the 65 that `cli-help` may take, the one of `node:http2` 11 ms, and all of them are needed.
 */
import { createRequire } from 'node:module';

/** A module of Node whose members are loaded when they are first used, not with the file that imports them. */
const whenUsed = (name, members) =>
  members
    .map((each) => `Object.defineProperty(exports, '${each}', { get: () => require('${name}').${each} });`)
    .join('\n');

const require = createRequire(import.meta.url);

/** The numbers of undici's parser of HTTP. */
const llhttp = require('undici/lib/llhttp/constants.js');

const { contentType } = createRequire(require.resolve('koa'))('mime-types');

/** What is in none of the packages. */
const ours = /^(?!.*\/node_modules\/).*\/dist\//;

/** The types of the server's answers, in the words in which Koa and we name them, as `Content-Type` has them. */
const answerTypes = ['json', 'text', 'html', 'bin', 'application/zip', 'text/event-stream'];

const oclif = /@oclif\/core\//;
const undici = /\/undici\//;
const koa = /\/node_modules\/(koa|accepts|type-is|send)\//;

/**
 * `of` is stood in for by `code`, or by the file `file` of this folder; where `within` is given, only for the files that it
 * matches.
 */
export const standIns = [
  {
    // The whole package also has WebSockets, caches and mocks: 40 ms.
    of: 'undici',
    code: `const Dispatcher = require('undici/lib/dispatcher/dispatcher.js');
      Dispatcher.prototype.request = require('undici/lib/api/api-request.js');
      Dispatcher.prototype.connect = function (...rest) {
        return require('undici/lib/api/api-connect.js').apply(this, rest);
      };
      exports.Agent = require('undici/lib/dispatcher/agent.js');
      exports.buildConnector = require('undici/lib/core/connect.js');`,
  },
  // For HTTP/1.1 undici needs only its constants.
  { of: 'node:http2', within: undici, code: 'exports.constants = {};' },
  {
    // It makes many tables when it is loaded, of which undici uses two: 1 ms.
    of: '../llhttp/constants.js',
    within: undici,
    code: ['ERROR', 'TYPE'].map((name) => `exports.${name} = ${JSON.stringify(llhttp[name])};`).join('\n'),
  },
  // Node's limit for the head of an answer, and a class whose instances only a server has: 4 ms.
  {
    of: 'node:http',
    within: undici,
    code: 'exports.maxHeaderSize = 16384; exports.IncomingMessage = class {};',
  },
  {
    // The part that describes a failed assertion: 2 ms. Without a message Node looks for the condition in the text of the program,
    // for minutes in a file of one line: an answer with the status 099 stopped a command for so long.
    of: 'node:assert',
    within: /\/(undici|koa)\//,
    code: `module.exports = (value, message) => {
      if (!value) require('node:assert')(value, message ?? 'an assertion failed');
    };`,
  },
  {
    // The index also loads code that compares versions of Node: 3 ms.
    of: '@oclif/core',
    code: `exports.Args = require('@oclif/core/args');
      exports.Command = require('@oclif/core/command').Command;
      exports.Errors = require('@oclif/core/errors');
      exports.Flags = require('@oclif/core/flags');
      exports.loadHelpClass = require('@oclif/core/help').loadHelpClass;`,
  },
  // Computed a byte at a time in JavaScript: half of the time that storing a large file takes.
  { of: 'crc-32', file: 'crc-32.mjs' },
  // Whether this is the Windows Subsystem for Linux, which nothing here depends on: 2 ms.
  { of: 'wsl-utils', within: oclif, code: 'exports.isWsl = false;' },
  {
    // It compiles each text of the help as a template; ours contain none: 3 ms.
    of: 'ejs',
    within: oclif,
    code: `exports.render = (text, ...more) => (text.includes('<%') ? require('ejs').render(text, ...more) : text);`,
  },
  // oclif searches for commands, and for plugins by a pattern, only where it is given no list: 3 ms.
  { of: 'tinyglobby', within: oclif, code: whenUsed('tinyglobby', ['glob']) },
  { of: 'minimatch', within: oclif, code: whenUsed('minimatch', ['minimatch']) },
  {
    // A command itself starts a program only where it locks a directory for results.
    of: 'node:child_process',
    within: /@oclif\/core\/|\/dist\/files\/file-lock/,
    code: whenUsed('node:child_process', ['execSync', 'spawnSync']),
  },
  {
    of: 'node:perf_hooks',
    within: oclif,
    code: whenUsed('node:perf_hooks', ['performance', 'PerformanceObserver']),
  },
  { of: 'node:readline', within: oclif, code: whenUsed('node:readline', ['createInterface']) },
  // oclif searches for its own settings only in a package that names none.
  { of: 'lilconfig', within: oclif, code: whenUsed('lilconfig', ['lilconfig']) },
  // oclif reads a few small files when it starts: 4 ms, with the threads that would read them and with the module. Ours use
  // the module later, most commands never.
  {
    of: 'node:fs/promises',
    within: oclif,
    code: ['access', 'readFile', 'readdir', 'stat']
      .map((name) => `exports.${name} = async (...all) => require('node:fs').${name}Sync(...all);`)
      .join('\n'),
  },
  {
    of: 'node:fs/promises',
    within: ours,
    code: whenUsed('node:fs/promises', Object.keys(require('node:fs/promises'))),
  },
  {
    // It sorts all types of files that there are when it is loaded: 8 ms, for the two versions that Koa needs.
    of: 'mime-types',
    within: koa,
    code: `${whenUsed('mime-types', ['lookup'])}
      const known = ${JSON.stringify(Object.fromEntries(answerTypes.map((type) => [type, contentType(type)])))};
      exports.contentType = (type) => known[type] ?? require('mime-types').contentType(type);`,
  },
  // Koa loads what signs cookies, and what ends streams that compress; the server has neither: 6 ms.
  {
    of: 'crypto',
    within: /\/(etag|keygrip|tsscmp)\//,
    code: whenUsed('crypto', ['createHash', 'createHmac', 'pseudoRandomBytes', 'timingSafeEqual']),
  },
  {
    of: 'zlib',
    within: /\/destroy\//,
    code: whenUsed('zlib', ['Deflate', 'DeflateRaw', 'Gunzip', 'Gzip', 'Inflate', 'InflateRaw', 'Unzip']),
  },
  // Only what has tokens, or starts a job, needs the first one, and only a server with a past the second: 6 ms.
  {
    of: 'node:crypto',
    within: ours,
    code: whenUsed('node:crypto', [
      ...['X509Certificate', 'createHash', 'createHmac', 'randomBytes', 'randomUUID', 'timingSafeEqual'],
    ]),
  },
  { of: 'node:readline', within: ours, code: whenUsed('node:readline', ['createInterface']) },
  // The client of a gateway, which loads TLS, and what metrics of other kinds need: 4 ms.
  {
    of: 'prom-client',
    code: ['counter', 'gauge', 'histogram', 'registry']
      .map((each) => `exports.${each[0].toUpperCase()}${each.slice(1)} = require('prom-client/lib/${each}');`)
      .join('\n'),
  },
];
