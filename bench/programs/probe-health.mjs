/**
 * Asks `/health` every 10 ms, whether or not the last answer has come, until its stdin ends. Then prints the
 * milliseconds that each answer took. A process of its own: it waits for nothing but the answers.
 */
import { Agent, get } from 'node:http';

const agent = new Agent({ keepAlive: true });
const took = [];

const timer = setInterval(() => {
  const askedAt = performance.now();
  get(process.argv[2], { agent }, (response) => {
    response.resume();
    response.once('end', () => took.push(performance.now() - askedAt));
  });
}, 10);

process.stdin.resume();
process.stdin.once('end', () => {
  clearInterval(timer);
  setTimeout(() => {
    process.stdout.write(JSON.stringify(took));
    agent.destroy();
  }, 500);
});
