import { doneMarker, errorMarker, lineNumberPattern } from '../../contract/index.js';

/** The meaning of one event. */
export type LogEvent =
  | {
      readonly kind: 'line';
      readonly line: string;
      readonly id: number | null;
      /** Whether it ended with a carriage return, as far as the server reports that. */
      readonly isRedraw: boolean;
    }
  | { readonly kind: 'done' }
  | { readonly kind: 'error'; readonly message: string };

function logEvent(data: string, id: number | null, isRedraw: boolean): LogEvent {
  if (data === doneMarker) return { kind: 'done' };
  if (data.startsWith(errorMarker)) return { kind: 'error', message: data.slice(errorMarker.length).trim() };
  return { kind: 'line', line: data, id, isRedraw };
}

/** Maximum length of a line, in characters; the service's own lines are far shorter. */
export const maxLine = 1024 * 1024;

const cutNote = ` [remote-app: the rest of this line is left out: it is longer than ${maxLine} characters]`;

/**
 * Parses the text of a stream, in pieces of any size, into events. Comments are dropped. An event cut off by the end of the text
 * is not reported, because it is sent again after a reconnect. Time is linear in the text and memory is bounded, whatever a
 * server sends: an overlong line is cut, and marked as cut.
 */
export class LogStreamParser {
  /** The line whose end has not arrived yet. Not examined before then, because that would copy it for each piece. */
  #rest = '';
  /** Whether the unfinished line was cut: the rest of it is dropped. */
  #isCut = false;
  #data: string | null = null;
  #id: number | null = null;
  #isRedraw = false;

  /** Feeds a piece of text; returns the events that it completes. */
  push(text: string): LogEvent[] {
    const end = text.indexOf('\n');
    if (end < 0) {
      this.#keep(text);
      return [];
    }
    this.#keep(text.slice(0, end));
    const lines = text.slice(end + 1).split('\n');
    const rest = lines.pop() ?? '';
    const events: LogEvent[] = [];
    this.#line(this.#isCut ? this.#rest + cutNote : this.#rest, events);
    this.#rest = '';
    this.#isCut = false;
    for (const line of lines) {
      this.#line(line.length > maxLine ? line.slice(0, maxLine) + cutNote : line, events);
    }
    this.#keep(rest);
    return events;
  }

  #keep(text: string): void {
    const room = maxLine - this.#rest.length;
    this.#isCut ||= text.length > room;
    this.#rest += text.slice(0, room);
  }

  #line(raw: string, events: LogEvent[]): void {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
    if (line === '') {
      if (this.#data !== null) events.push(logEvent(this.#data, this.#id, this.#isRedraw));
      this.#data = null;
      this.#id = null;
      this.#isRedraw = false;
    } else if (line.startsWith('data:')) {
      this.#data = line.charAt(5) === ' ' ? line.slice(6) : line.slice(5);
    } else if (line.startsWith('id:')) {
      const id = line.slice(line.charAt(3) === ' ' ? 4 : 3);
      this.#id = lineNumberPattern.test(id) ? Number(id) : null;
    } else if (/^event: ?redraw$/.test(line)) {
      this.#isRedraw = true;
    }
  }
}
