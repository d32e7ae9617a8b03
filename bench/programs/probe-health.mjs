/**
 * Asks `/health` every 10 ms, whether or not the last answer has come, until its stdin ends. Then prints the
 * milliseconds that each answer took. A process of its own: it waits for nothing but the answers.
 */
import { Agent, get } from 'node:http';

const agent = new Agent({ keepAlive: true });
const took = [];
/** The header that a server with tokens asks for. */
const { SERVICE_API_TOKEN: token } = process.env;
const headers = token ? { Authorization: `Bearer ${token}` } : {};

const timer = setInterval(() => {
  const askedAt = performance.now();
  const note = () => took.push(performance.now() - askedAt);
  const request = get(process.argv[2], { agent, headers }, (response) => {
    response.resume();
    response.once('end', note);
  });
  // A connection that the server closed, or an answer that has not come at the end: it has taken so long already.
  request.once('error', note);
}, 10);

process.stdin.resume();
process.stdin.once('end', () => {
  clearInterval(timer);
  setTimeout(() => agent.destroy(), 500);
});
process.once('beforeExit', () => process.stdout.write(JSON.stringify(took)));
