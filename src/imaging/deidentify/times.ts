import type { Pseudonyms } from './uids.js';
import { type DataSet, textOf } from './values.js';

const secondsOfDay = 86_400;
/** Time of day at which every study begins, in seconds. No scan of a usual length passes midnight. */
const beginning = 8 * 3600;

/** Digits beyond microseconds are dropped. */
const timePattern = /^(\d{2})(?::?(\d{2})(?::?(\d{2})(\.\d{1,6})?\d*)?)?$/;
const datePattern = /^(\d{4})\.?(\d{2})\.?(\d{2})$/;
/** The UTC offset is dropped: all times of a file are local. */
const dateTimePattern = /^(\d{8})(\d{2}(?:\d{2}(?:\d{2}(?:\.\d{1,6})?)?)?)(?:[+-]\d{4})?$/;

interface Time {
  readonly seconds: number;
  /** `.250000` */
  readonly fraction: string;
}

function timeOf(text: string): Time | null {
  const [, hours, minutes = '0', seconds = '0', fraction = ''] = timePattern.exec(text) ?? [];
  const all = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
  const isTime = Number(hours) < 24 && Number(minutes) < 60 && Number(seconds) <= 60;
  return isTime ? { seconds: all, fraction } : null;
}

/** Days since 1970; null if the text is not a date. */
function daysOf(text: string): number | null {
  const [, year, month, day] = datePattern.exec(text) ?? [];
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  const isDate = date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
  return isDate && Number(year) >= 1900 ? date.getTime() / (1000 * secondsOfDay) : null;
}

const dateText = (days: number): string =>
  new Date(days * 1000 * secondsOfDay).toISOString().slice(0, 10).replaceAll('-', '');

const timeText = (seconds: number, fraction: string): string =>
  [seconds / 3600, (seconds / 60) % 60, seconds % 60]
    .map((part) => String(Math.floor(part)).padStart(2, '0'))
    .join('') + fraction;

/** Tags of the times that belong to dates: study, series, acquisition and content. */
const timeOfDate: Readonly<Record<string, string>> = {
  x00080020: 'x00080030',
  x00080021: 'x00080031',
  x00080022: 'x00080032',
  x00080023: 'x00080033',
};

/**
 * Shifts the times of a study so that it begins at eight in the morning of a day derived from the patient. Differences within a
 * study are kept to the fraction of a second, those between the studies of a patient in whole days.
 */
export class StudyTimes {
  readonly #daysBack: number;
  /** Seconds by which times are shifted back; null if the file does not say when the study began. */
  readonly #secondsBack: number | null;

  constructor(set: DataSet, pseudonyms: Pseudonyms) {
    const person = textOf(set, 'x00100020') || textOf(set, 'x0020000d');
    this.#daysBack = pseudonyms.daysBack(person);
    const begun = ['x00080030', 'x00080031', 'x00080032'].map((tag) => timeOf(textOf(set, tag)));
    const first = begun.find((each) => each !== null);
    this.#secondsBack = first ? first.seconds - beginning : null;
  }

  /** The shifted value of an element; null if it is not a date or time, or if the file does not say when the study began. */
  shifted(set: DataSet, tag: string, vr: string): string | null {
    const text = textOf(set, tag);
    const back = this.#secondsBack;
    if (text === '') return '';
    if (back === null) return null;
    if (vr === 'TM') {
      const time = timeOf(text);
      return time && timeText((time.seconds - back + secondsOfDay) % secondsOfDay, time.fraction);
    }
    if (vr === 'DA') {
      const time = timeOf(textOf(set, timeOfDate[tag] ?? ''));
      return this.#moment(text, time ?? { seconds: back + beginning, fraction: '' }, back)?.date ?? null;
    }
    const [, date = '', clock = ''] = dateTimePattern.exec(text) ?? [];
    const time = timeOf(clock);
    const moment = time && this.#moment(date, time, back);
    return moment && moment.date + moment.time;
  }

  #moment(date: string, time: Time, back: number): { date: string; time: string } | null {
    const days = daysOf(date);
    if (days === null) return null;
    const seconds = time.seconds - back;
    const after = Math.floor(seconds / secondsOfDay);
    return {
      date: dateText(days - this.#daysBack + after),
      time: timeText(seconds - after * secondsOfDay, time.fraction),
    };
  }
}
